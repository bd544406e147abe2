"""Servers that can be killed in the middle and started again over the same folder, and what lies in them."""

import hashlib
import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from harness.command import binary
from harness.process import Server, steady_port, until
from harness.s3 import Endpoint
from harness.servers import answers, tool

ACCESS, SECRET = "faults", "faults-secret-key"

# Every run keeps a trace: of one that fails it is too late to ask for it.
TRACING = {"RUST_LOG": "tidegate=debug", "NO_COLOR": "1"}


@dataclass(frozen=True)
class Session:
    """An unfinished upload and the numbers of the parts that it holds."""

    id: str
    parts: tuple[int, ...]


class Store:
    """A server over one folder. Subclasses say how it is started and where it keeps unfinished uploads."""

    name: str
    ready_path: str
    # Uploads are not tried on it.
    reads_only = False

    def __init__(self, folder: Path):
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self._log = folder / f"{self.name}.log"
        self.address = f"127.0.0.1:{steady_port()}"
        self.endpoint = Endpoint(f"http://{self.address}", ACCESS, SECRET)
        self.client = self.endpoint.client()
        self._server: Server | None = None
        self.start()
        until(f"{self.name} is ready", self.is_ready, 60)

    def command(self) -> list:
        raise NotImplementedError

    def env(self) -> dict[str, str]:
        raise NotImplementedError

    def start(self):
        """Starts it; `is_ready` says from when on it answers."""
        self._server = Server(self.name, self.command(), self._log, env=self.env())

    def is_ready(self) -> bool:
        if not self._server.running:
            raise RuntimeError(f"{self.name} ended by itself:\n{self.log}")
        return answers(f"{self.endpoint.url}{self.ready_path}")

    def kill(self):
        self._server.kill()

    def stop(self):
        if self._server is not None:
            self._server.stop()

    @property
    def log(self) -> str:
        return self._server.log_end(15)

    def sha256(self, bucket: str, key: str) -> str | None:
        """Of the object, read whole and straight from the server; None where there is none."""
        try:
            body = self.client.get_object(Bucket=bucket, Key=key)["Body"]
            digest = hashlib.sha256()
            for piece in body.iter_chunks(1 << 20):
                digest.update(piece)
            return digest.hexdigest()
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            return f"unreadable: {error}"
        except BotoCoreError as error:
            return f"unreadable: {error}"

    def sessions(self, bucket: str, key: str) -> list[Session]:
        """The unfinished uploads of one key, by the server's own files: MinIO's listing forgets at a restart."""
        raise NotImplementedError


class Minio(Store):
    name = "minio"
    ready_path = "/minio/health/ready"

    def command(self):
        return [
            tool("minio"),
            "server",
            "--quiet",
            "--address",
            self.address,
            "--console-address",
            "127.0.0.1:0",
            self.data,
        ]

    def env(self):
        return {
            "MINIO_ROOT_USER": ACCESS,
            "MINIO_ROOT_PASSWORD": SECRET,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
        }

    def sessions(self, bucket, key):
        name = hashlib.sha256(f"{bucket}/{key}".encode()).hexdigest()
        return [
            Session(folder.name, numbers(path.name.split(".")[1] for path in folder.glob("*/part.*")))
            for folder in (self.data / ".minio.sys" / "multipart" / name).glob("*")
            if (folder / "xl.meta").exists()
        ]


class Versitygw(Store):
    name = "versitygw"
    ready_path = "/health"

    def command(self):
        return [tool("versitygw"), "--port", self.address, "--health", "/health", "--quiet", "posix", self.data]

    def env(self):
        return {"ROOT_ACCESS_KEY_ID": ACCESS, "ROOT_SECRET_ACCESS_KEY": SECRET}

    def sessions(self, bucket, key):
        name = hashlib.sha256(key.encode()).hexdigest()
        return [
            Session(folder.name, numbers(path.name for path in folder.iterdir()))
            for folder in (self.data / bucket / ".sgwtmp" / "multipart" / name).glob("*")
            if folder.is_dir()
        ]


class Embedded(Store):
    """The project's own: it can be told to answer badly."""

    name = "embedded"
    ready_path = "/_tidegate/counts"
    reads_only = True

    def command(self):
        keys = ["--access-key", ACCESS, "--secret-key", SECRET]
        return [binary(), "serve", "--listen", self.address, "--storage", f"disk:{self.data}", *keys]

    def env(self):
        return {}

    def set_faults(self, rules):
        """From now on, in place of those before."""
        body = json.dumps({"faults": list(rules)}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.endpoint.url}/_tidegate/knobs", method="PUT", data=body, headers=headers
        )
        with urllib.request.urlopen(request, timeout=10):
            pass


def numbers(names) -> tuple[int, ...]:
    return tuple(sorted({int(name) for name in names if name.isdigit()}))


STORES: dict[str, type[Store]] = {"minio": Minio, "versitygw": Versitygw, "embedded": Embedded}
