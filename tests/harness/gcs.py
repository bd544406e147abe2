"""A bucket of a server that speaks Google's JSON API, and what it holds, asked by plain HTTP."""

import hashlib
import json
import secrets
import urllib.error
import urllib.parse
import urllib.request


class JsonBucket:
    """One bucket made for one test, and questions about it."""

    options = ()

    def __init__(self, url):
        self._url = url
        self.name = f"t-{secrets.token_hex(6)}"
        self._ask("POST", "/storage/v1/b?project=test", json.dumps({"name": self.name}).encode())

    @property
    def env(self):
        return {"STORAGE_EMULATOR_HOST": self._url}

    def url(self, key=""):
        return f"gs://{self.name}/{key}"

    def _ask(self, method, path, body=None, content_type="application/json"):
        request = urllib.request.Request(f"{self._url}{path}", body, {"Content-Type": content_type}, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read()

    def _object(self, key):
        return f"/storage/v1/b/{self.name}/o/{urllib.parse.quote(key, safe='')}"

    def put(self, key, body):
        # Bytes with a description, which may be none: gcp-storage-emulator breaks off an upload of no bytes alone.
        path = f"/upload/storage/v1/b/{self.name}/o?uploadType=multipart"
        described = json.dumps({"name": key}).encode()
        parts = [(b"application/json; charset=UTF-8", described), (b"application/octet-stream", body)]
        sent = b"".join(b"--between\r\ncontent-type: %b\r\n\r\n%b\r\n" % part for part in parts) + b"--between--\r\n"
        self._ask("POST", path, sent, "multipart/related; boundary=between")

    def sha256(self, key):
        return hashlib.sha256(self._ask("GET", f"{self._object(key)}?alt=media")).hexdigest()

    def size(self, key):
        """None where there is no such object."""
        try:
            return int(json.loads(self._ask("GET", self._object(key)))["size"])
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def keys(self):
        found, token = [], ""
        while token is not None:
            page = json.loads(self._ask("GET", f"/storage/v1/b/{self.name}/o?pageToken={token}"))
            found += [entry["name"] for entry in page.get("items", [])]
            token = page.get("nextPageToken")
        return sorted(found)
