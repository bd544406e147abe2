"""The servers of the table: how each is started, and an empty place on it.

Google's own storage-testbench is not among them: no package of it is published, and its source is installed by tools that
the checks do not have.
"""

from collections.abc import Callable
from pathlib import Path

from harness.azure import Container
from harness.folder import Folder
from harness.gcs import JsonBucket
from harness.s3 import Bucket, GoogleBucket
from harness.servers import (
    Azurite,
    Embedded,
    FakeGcs,
    GcpStorageEmulator,
    GoFakeS3,
    Minio,
    Moto,
    RcloneS3,
    S3Proxy,
    S3rver,
    SeaweedFS,
    Versitygw,
)


class Place:
    """An empty bucket, container or folder. `bucket` says how the program reaches it, and what it holds by a client
    that is not ours."""

    def __init__(self, bucket, server=None):
        self.bucket, self._server = bucket, server

    @property
    def log(self) -> str:
        return self._server.log if self._server else ""

    def close(self):
        if self._server:
            self._server.stop()


def on(server: type, empty: Callable) -> Callable[[Path], Place]:
    """Starts the server in a folder, and makes an empty place on it."""

    def start(folder: Path) -> Place:
        started = server(folder)
        try:
            return Place(empty(started), started)
        except BaseException:
            started.stop()
            raise

    return start


def s3(server) -> Bucket:
    return Bucket(server.endpoint)


# Rows that the table has only if they are named, because their servers are much to install.
BY_NAME = ["seaweedfs"]

# In the order of the table's rows.
SERVERS: dict[str, Callable[[Path], Place]] = {
    "minio": on(Minio, s3),
    "versitygw": on(Versitygw, s3),
    "rclone serve s3": on(RcloneS3, s3),
    "gofakes3": on(GoFakeS3, s3),
    "s3proxy": on(S3Proxy, s3),
    "s3rver": on(S3rver, s3),
    "seaweedfs": on(SeaweedFS, s3),
    "moto": on(Moto, s3),
    "embedded s3": on(Embedded, s3),
    "embedded gs http": on(Embedded, lambda server: GoogleBucket(server.endpoint, "http")),
    "embedded gs grpc": on(Embedded, lambda server: GoogleBucket(server.endpoint, "grpc")),
    "fake-gcs-server": on(FakeGcs, lambda server: JsonBucket(server.url)),
    "gcp-storage-emulator": on(GcpStorageEmulator, lambda server: JsonBucket(server.url)),
    "azurite": on(Azurite, lambda server: Container(server.endpoint)),
    "local disk": lambda folder: Place(Folder(folder / "disk")),
}
