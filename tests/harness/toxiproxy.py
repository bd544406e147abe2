"""A slow or broken network between a client and a server: Toxiproxy, through its HTTP interface."""

import json
import urllib.error
import urllib.request
from pathlib import Path

from .process import Server, free_port
from .servers import answers, tool


class Toxiproxy:
    def __init__(self, folder: Path):
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        self._server = Server(
            "toxiproxy",
            [tool("toxiproxy-server"), "-host", "127.0.0.1", "-port", port],
            folder / "toxiproxy.log",
        )
        try:
            self._server.wait_ready(lambda: answers(f"{self._url}/version"))
        except BaseException:
            self.stop()
            raise

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self._url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"toxiproxy refused {method} {path}: {error.read().decode()}") from None

    def proxy(self, name, upstream, listen="127.0.0.1:0") -> "Proxy":
        """A new way to `upstream` (host:port), on a port of its own; without faults until it is given some."""
        made = self._ask("POST", "/proxies", {"name": name, "listen": listen, "upstream": upstream})
        return Proxy(self, name, made["listen"])

    def stop(self):
        self._server.stop()


class Proxy:
    def __init__(self, toxiproxy, name, address):
        self._toxiproxy = toxiproxy
        self.name = name
        self.address = address
        self.url = f"http://{address}"

    def toxic(self, kind, stream="upstream", toxicity=1.0, name="", **attributes):
        """Adds a fault, for instance `toxic("latency", latency=20)`; `upstream` is towards the server. Answers its
        name, for `remove`; two of one kind and stream need names that differ."""
        body = {"name": name, "type": kind, "stream": stream, "toxicity": toxicity, "attributes": attributes}
        return self._toxiproxy._ask("POST", f"/proxies/{self.name}/toxics", body)["name"]

    def remove(self, toxic):
        self._toxiproxy._ask("DELETE", f"/proxies/{self.name}/toxics/{toxic}")

    def bandwidth(self, bytes_per_second, stream="upstream"):
        """Holds every connection to this rate. Toxiproxy counts in KB of 1000 bytes."""
        return self.toxic("bandwidth", stream, rate=max(1, bytes_per_second // 1000))

    def latency(self, milliseconds):
        """Delays both ways by this much each."""
        self.toxic("latency", "upstream", latency=milliseconds)
        self.toxic("latency", "downstream", latency=milliseconds)

    def cut(self):
        """Closes every connection and takes no more, until `mend`. Leave the toxics as they are afterwards: Toxiproxy
        2.12 hangs when one is removed while cut connections end."""
        self._toxiproxy._ask("POST", f"/proxies/{self.name}", {"enabled": False})

    def mend(self):
        self._toxiproxy._ask("POST", f"/proxies/{self.name}", {"enabled": True})

    def close(self):
        self._toxiproxy._ask("DELETE", f"/proxies/{self.name}")
