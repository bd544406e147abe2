"""An S3 endpoint as a test sees it: its address, its credentials, and what it holds, asked through boto3."""

import contextlib
import copy
import functools
import hashlib
import secrets
from dataclasses import dataclass, replace
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

REGION = "us-east-1"


@dataclass(frozen=True)
class Endpoint:
    """Where a store listens and who may use it."""

    url: str
    access_key: str
    secret_key: str
    # The file of the authority that its certificate is of, where it speaks TLS.
    authority: Path | None = None
    # Whether the store takes and tells checksums: boto3 sends and asks for them unasked, and S3Proxy refuses that.
    has_checksums: bool = True

    def at(self, url):
        """The same store by another way, such as a proxy."""
        return replace(self, url=url)

    @property
    def env(self):
        """What an S3 user has in the environment."""
        trusted = {"AWS_CA_BUNDLE": str(self.authority)} if self.authority else {}
        return {
            **trusted,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
        }

    @functools.cache  # noqa: B019 (an endpoint lives as long as its server)
    def client(self):
        """One for all who ask: it takes longer to make than most tests take."""
        when = "when_supported" if self.has_checksums else "when_required"
        checksums = {"request_checksum_calculation": when, "response_checksum_validation": when}
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            verify=str(self.authority) if self.authority else None,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=REGION,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 3}, read_timeout=30, **checksums),
        )


class Bucket:
    """One bucket made for one test, and questions about it."""

    # How the program is to reach it, beside its environment.
    options = ()
    # Those of the test that runs: what they hold is removed when it ends.
    made = []

    def __init__(self, endpoint: Endpoint, name=None):
        self.endpoint = endpoint
        self.client = endpoint.client()
        self.name = name or f"t-{secrets.token_hex(6)}"
        self.client.create_bucket(Bucket=self.name)
        self.made.append(self)

    @property
    def env(self):
        return self.endpoint.env

    def by(self, url):
        """The same bucket as the program is to reach it by another way, such as a proxy; questions go as before."""
        other = copy.copy(self)
        other.endpoint = self.endpoint.at(url)
        return other

    def url(self, key=""):
        return f"s3://{self.name}/{key}"

    def put(self, key, body, **attributes):
        return self.client.put_object(Bucket=self.name, Key=key, Body=body, **attributes)

    def get(self, key):
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def sha256(self, key):
        digest = hashlib.sha256()
        for piece in self.client.get_object(Bucket=self.name, Key=key)["Body"].iter_chunks(1 << 20):
            digest.update(piece)
        return digest.hexdigest()

    def head(self, key):
        """What HEAD says, with the checksum where there is one; None where there is no such object."""
        try:
            asked = {"ChecksumMode": "ENABLED"} if self.endpoint.has_checksums else {}
            return self.client.head_object(Bucket=self.name, Key=key, **asked)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return None
            raise

    def size(self, key):
        """None where there is no such object."""
        head = self.head(key)
        return head and head["ContentLength"]

    def exists(self, key):
        return self.head(key) is not None

    def keys(self, prefix=""):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def sessions(self, key):
        """The unfinished uploads of one key. Of one key, because MinIO lists them for an exact key only."""
        pages = self.client.get_paginator("list_multipart_uploads").paginate(Bucket=self.name, Prefix=key)
        return [entry["UploadId"] for page in pages for entry in page.get("Uploads", []) if entry["Key"] == key]

    def parts(self, key):
        """How many parts the unfinished uploads of one key hold."""
        count = 0
        for session in self.sessions(key):
            pages = self.client.get_paginator("list_parts").paginate(Bucket=self.name, Key=key, UploadId=session)
            try:
                count += sum(len(page.get("Parts", [])) for page in pages)
            except self.client.exceptions.NoSuchUpload:
                pass  # It was completed or aborted between the two questions.
        return count

    def empty(self):
        """Removes every object, and every unfinished upload that the store lists."""
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name):
            if page["KeyCount"]:
                keys = [{"Key": entry["Key"]} for entry in page["Contents"]]
                removed = self.client.delete_objects(Bucket=self.name, Delete={"Objects": keys, "Quiet": True})
                assert not removed.get("Errors"), removed["Errors"]
        for page in self.client.get_paginator("list_multipart_uploads").paginate(Bucket=self.name):
            for entry in page.get("Uploads", []):
                try:
                    self.client.abort_multipart_upload(Bucket=self.name, Key=entry["Key"], UploadId=entry["UploadId"])
                except self.client.exceptions.NoSuchUpload:
                    pass  # A last request of a program that was killed has ended it meanwhile.

    def assert_untouched(self, key):
        """Nothing was published under the key and no session was left behind."""
        assert not self.exists(key), f"{key} was published"
        assert self.sessions(key) == [], f"a session of {key} was left behind"


class GoogleBucket(Bucket):
    """A bucket of the embedded server that the program reaches as Google's."""

    def __init__(self, endpoint, over):
        super().__init__(endpoint)
        self.options = ("--gcs-transport", over)
        # What a stream that is held open is called.
        self.stream = "storage.v2.BidiWriteObject" if over == "grpc" else "storage.resumable.append"

    def url(self, key=""):
        return f"gs://{self.name}/{key}"

    @property
    def env(self):
        return {"STORAGE_EMULATOR_HOST": self.endpoint.url}


@contextlib.contextmanager
def refused(code, status=None):
    """The block's request is refused with this code, and with this status where one is given."""
    try:
        yield
    except ClientError as error:
        answer = error.response
    else:
        raise AssertionError(f"not refused with {code}")
    assert answer["Error"]["Code"] == code, answer
    if status is not None:
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == status, answer
