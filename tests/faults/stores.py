"""Servers that can be killed in the middle and started again over the same folder, and what lies in them."""

import hashlib
import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from azure.core.exceptions import AzureError, ResourceNotFoundError
from botocore.exceptions import BotoCoreError, ClientError

from harness.azure import AzureEndpoint
from harness.command import binary
from harness.process import Server, free_port, until
from harness.s3 import Endpoint
from harness.servers import answers, azurite, is_azure, tool

ACCESS, SECRET = "faults", "faults-secret-key"

# Every run keeps a trace: of one that fails it is too late to ask for it.
TRACING = {"RUST_LOG": "tidegate=debug", "NO_COLOR": "1"}


@dataclass(frozen=True)
class Session:
    """An unfinished upload and the numbers of the parts that it holds."""

    id: str
    parts: tuple[int, ...]


class Store:
    """A server over one folder. Subclasses say how it is started, what is in it and where it keeps unfinished uploads."""

    name: str
    # Uploads are not tried on it.
    reads_only = False
    # It may be killed: what it has acknowledged is there when it starts again.
    is_durable = True
    # Unfinished uploads can be ended; else their parts expire, or go with the next upload to their key.
    has_aborts = True

    def __init__(self, folder: Path):
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self._log = folder / f"{self.name}.log"
        self.address = f"127.0.0.1:{free_port()}"
        self.endpoint = self.endpoint_at(f"http://{self.address}")
        self.client = self.endpoint.client()
        self._server: Server | None = None
        self.start()
        until(f"{self.name} is ready", self.is_ready, 60)

    def endpoint_at(self, url: str) -> Endpoint | AzureEndpoint:
        """Where the program and other clients find it."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it takes requests now."""
        raise NotImplementedError

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
        return self.answers()

    def kill(self):
        self._server.kill()

    def stop(self):
        if self._server is not None:
            self._server.stop()

    @property
    def log(self) -> str:
        return self._server.log_end(15)

    def url(self, bucket: str, key: str = "") -> str:
        """As the program names it."""
        raise NotImplementedError

    def make_bucket(self, bucket: str):
        raise NotImplementedError

    def put(self, bucket: str, key: str, data: bytes):
        raise NotImplementedError

    def remove(self, bucket: str, key: str):
        """Also where there is no such object."""
        raise NotImplementedError

    def sha256(self, bucket: str, key: str) -> str | None:
        """Of the object, read whole and straight from the server; None where there is none."""
        raise NotImplementedError

    def sessions(self, bucket: str, key: str) -> list[Session]:
        """The unfinished uploads of one key."""
        raise NotImplementedError


class S3Store(Store):
    """One that is asked through boto3."""

    ready_path: str

    def endpoint_at(self, url):
        return Endpoint(url, ACCESS, SECRET)

    def answers(self):
        return answers(f"{self.endpoint.url}{self.ready_path}")

    def url(self, bucket, key=""):
        return f"s3://{bucket}/{key}" if key else f"s3://{bucket}"

    def make_bucket(self, bucket):
        self.client.create_bucket(Bucket=bucket)

    def put(self, bucket, key, data):
        self.client.put_object(Bucket=bucket, Key=key, Body=data)

    def remove(self, bucket, key):
        self.client.delete_object(Bucket=bucket, Key=key)

    def sha256(self, bucket, key):
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

    def sessions(self, bucket, key):
        """By the server's own files: MinIO's listing forgets at a restart."""
        raise NotImplementedError


class Minio(S3Store):
    name = "minio"
    ready_path = "/minio/health/cluster"

    def __init__(self, folder):
        # Left to itself, MinIO looks for a free port for the console too early, and ends when another process has it.
        self._console = f"127.0.0.1:{free_port()}"
        super().__init__(folder)

    def command(self):
        return [
            tool("minio"),
            "server",
            "--quiet",
            "--address",
            self.address,
            "--console-address",
            self._console,
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


class Versitygw(S3Store):
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


class Embedded(S3Store):
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


class Azurite(Store):
    """It writes its index to disk every five seconds: what it acknowledged just before it is killed is lost."""

    name = "azurite"
    is_durable = False
    has_aborts = False

    def endpoint_at(self, url):
        return AzureEndpoint(url)

    def answers(self):
        return is_azure(self.endpoint.url)

    def command(self):
        return azurite(self.address, self.data)

    def env(self):
        return {}

    def url(self, bucket, key=""):
        return f"az://{bucket}/{key}" if key else f"az://{bucket}"

    def make_bucket(self, bucket):
        self.client.create_container(bucket)

    def put(self, bucket, key, data):
        self.client.get_blob_client(bucket, key).upload_blob(data, overwrite=True)

    def remove(self, bucket, key):
        try:
            self.client.get_blob_client(bucket, key).delete_blob()
        except ResourceNotFoundError:
            pass

    def sha256(self, bucket, key):
        digest = hashlib.sha256()
        try:
            for piece in self.client.get_blob_client(bucket, key).download_blob().chunks():
                digest.update(piece)
        except ResourceNotFoundError:
            return None
        except AzureError as error:
            return f"unreadable: {error}"
        return digest.hexdigest()

    def sessions(self, bucket, key):
        """The blocks of the blob that no commit has taken: all are of one session, because nothing names another."""
        try:
            _, blocks = self.client.get_blob_client(bucket, key).get_block_list("uncommitted")
        except ResourceNotFoundError:
            return []
        return [Session(key, tuple(range(1, len(blocks) + 1)))] if blocks else []


def numbers(names) -> tuple[int, ...]:
    return tuple(sorted({int(name) for name in names if name.isdigit()}))


STORES: dict[str, type[Store]] = {"minio": Minio, "versitygw": Versitygw, "azurite": Azurite, "embedded": Embedded}
