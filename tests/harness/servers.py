"""The servers that the tests run against. Each takes free ports and is ready when its start returns."""

import json
import re
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from . import TOOLS
from .azure import AzureEndpoint
from .certificate import Certificate
from .command import binary, clean_env
from .process import Server, free_port
from .s3 import REGION, Endpoint


def tool(name) -> Path:
    path = TOOLS / name
    if not path.exists():
        raise FileNotFoundError(f"{name} is not installed: run scripts/install")
    return path


def answers(url, context=None):
    """Whether a GET is answered with success now."""
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as response:
            return response.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


class Program:
    """A server in a process of its own."""

    def launch(self, name, command, log: Path, ready, env=None, timeout=30.0):
        """Starts the program, waits until `ready()` is true, and returns what `ready()` returned. The program is stopped
        if it does not get ready within `timeout` seconds."""
        self._server = Server(name, command, log, env=env)
        try:
            return self._server.wait_ready(ready, timeout)
        except BaseException:
            self.stop()
            raise

    @property
    def log(self):
        return self._server.log_end()

    def cpu_seconds(self):
        """User and system time of the server until now."""
        return self._server.cpu_seconds()

    def stop(self):
        self._server.stop()


class Minio(Program):
    """MinIO over one folder on disk."""

    def __init__(self, folder: Path):
        port, console = free_port(), free_port()
        self.data = folder / "minio"
        self.endpoint = Endpoint(f"http://127.0.0.1:{port}", "minioadmin", "minio-secret-key")
        self.address = f"127.0.0.1:{port}"
        self._console, self._log = f"127.0.0.1:{console}", folder / "minio.log"
        self._start()

    def _start(self):
        self.launch(
            "minio",
            [tool("minio"), "server", "--address", self.address, "--console-address", self._console, self.data],
            self._log,
            lambda: answers(f"{self.endpoint.url}/minio/health/cluster"),
            env={
                "MINIO_ROOT_USER": self.endpoint.access_key,
                "MINIO_ROOT_PASSWORD": self.endpoint.secret_key,
                "MINIO_BROWSER": "off",
                "MINIO_UPDATE": "off",
            },
        )

    def restart(self):
        """Stops it and starts it anew on the same port and disk."""
        self.stop()
        self._start()

    def sessions_on_disk(self):
        """Every unfinished upload of every bucket, as MinIO keeps them: what its listing cannot be asked for."""
        return {path.name for path in (self.data / ".minio.sys" / "multipart").glob("*/*")}


class Versitygw(Program):
    """versitygw over one folder on disk."""

    def __init__(self, folder: Path):
        port = free_port()
        data = folder / "versitygw"
        data.mkdir()
        self.address = f"127.0.0.1:{port}"
        self.endpoint = Endpoint(f"http://{self.address}", "versitygw", "versitygw-secret-key")
        self.launch(
            "versitygw",
            [tool("versitygw"), "--port", self.address, "--region", REGION, "--health", "/health", "posix", data],
            folder / "versitygw.log",
            lambda: answers(f"{self.endpoint.url}/health"),
            env={"ROOT_ACCESS_KEY_ID": self.endpoint.access_key, "ROOT_SECRET_ACCESS_KEY": self.endpoint.secret_key},
        )


class SeaweedFS(Program):
    """SeaweedFS over one folder: a master, a volume server, a filer, and its S3 server on that. It takes ten seconds until
    it is ready. `scripts/install weed` builds it, for seven minutes: so no check runs it by itself."""

    def __init__(self, folder: Path):
        data, users = folder / "seaweedfs", folder / "seaweedfs-users.json"
        data.mkdir()
        s3 = free_port()
        self.address = f"127.0.0.1:{s3}"
        self.endpoint = Endpoint(f"http://{self.address}", "seaweedfs", "seaweedfs-secret-key")
        keys = {"accessKey": self.endpoint.access_key, "secretKey": self.endpoint.secret_key}
        users.write_text(json.dumps({"identities": [{"name": "test", "credentials": [keys], "actions": ["Admin"]}]}))
        taken = {f"{part}.port": free_port() for part in ("master", "volume", "filer")} | {"s3.port": s3}
        taken |= {f"{part}.port.grpc": free_port() for part in ("master", "volume", "filer", "s3")}
        self._ports = taken.values()
        ports = [f"-{name}={port}" for name, port in taken.items()] + ["-s3.port.iceberg=0", "-s3.port.lance=0"]
        # Each bucket has seven volumes of its own.
        volumes = ["-volume.max=2000", "-master.volumeSizeLimitMB=64", "-master.telemetry=false"]
        place = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}", *volumes]
        self.launch(
            "seaweedfs",
            [tool("weed"), "-logtostderr=true", "server", *place, *ports, "-s3", f"-s3.config={users}"],
            folder / "seaweedfs.log",
            self._takes_objects,
            timeout=90,
        )

    def _takes_objects(self):
        """Its S3 server answers before the rest of it is there."""
        client = self.endpoint.client()
        try:
            if "ready" not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket="ready")
            client.put_object(Bucket="ready", Key="ready", Body=b"ready")
        except (BotoCoreError, ClientError):
            return False
        return True

    def stop(self):
        # Asked to end, it waits for ten seconds.
        self._server.kill()
        for port in self._ports:
            for socket in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                socket.unlink()


class S3Program(Program):
    """A server of S3 without an address that tells whether it is ready: it is when it lists its buckets."""

    def lists_buckets(self):
        try:
            self.endpoint.client().list_buckets()
        except (BotoCoreError, ClientError):
            return False
        return True


class RcloneS3(S3Program):
    """`rclone serve s3` over one folder on disk."""

    def __init__(self, folder: Path):
        port = free_port()
        data = folder / "rclone-s3"
        data.mkdir()
        self.address = f"127.0.0.1:{port}"
        self.endpoint = Endpoint(f"http://{self.address}", "rclone-access-key", "rclone-secret-key")
        keys = f"{self.endpoint.access_key},{self.endpoint.secret_key}"
        self.launch(
            "rclone-s3",
            [tool("rclone"), "serve", "s3", data, "--addr", self.address, "--auth-key", keys],
            folder / "rclone-s3.log",
            self.lists_buckets,
            env={"RCLONE_CONFIG": "/dev/null"},
        )


class GoFakeS3(S3Program):
    """gofakes3 in memory: it takes any credentials."""

    def __init__(self, folder: Path):
        self.address = f"127.0.0.1:{free_port()}"
        self.endpoint = Endpoint(f"http://{self.address}", "gofakes3", "gofakes3-secret-key")
        self.launch(
            "gofakes3",
            [tool("gofakes3"), "-host", self.address, "-backend", "memory"],
            folder / "gofakes3.log",
            self.lists_buckets,
        )


class S3Proxy(S3Program):
    """S3Proxy over one folder on disk."""

    def __init__(self, folder: Path):
        self.address = f"127.0.0.1:{free_port()}"
        self.endpoint = Endpoint(f"http://{self.address}", "s3proxy", "s3proxy-secret-key", has_checksums=False)
        data, settings = folder / "s3proxy", folder / "s3proxy.properties"
        data.mkdir()
        lines = {
            "s3proxy.endpoint": self.endpoint.url,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.endpoint.access_key,
            "s3proxy.credential": self.endpoint.secret_key,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": "none",
            "jclouds.credential": "none",
            "jclouds.filesystem.basedir": data,
        }
        settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        self.launch(
            "s3proxy",
            ["java", "-jar", tool("s3proxy.jar"), "--properties", settings],
            folder / "s3proxy.log",
            self.lists_buckets,
            timeout=60,
        )


class S3rver(S3Program):
    """s3rver over one folder on disk. Its clients' keys are fixed."""

    def __init__(self, folder: Path):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.endpoint = Endpoint(f"http://{self.address}", "S3RVER", "S3RVER")
        place = ["--address", "127.0.0.1", "--port", port, "--directory", folder / "s3rver", "--no-vhost-buckets"]
        self.launch("s3rver", [tool("s3rver"), *place], folder / "s3rver.log", self.lists_buckets, timeout=60)


class Moto(Program):
    """moto: it keeps all in memory, and takes any credentials."""

    def __init__(self, folder: Path):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.endpoint = Endpoint(f"http://{self.address}", "moto", "moto-secret-key")
        self.launch(
            "moto",
            [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", port],
            folder / "moto.log",
            lambda: answers(f"{self.endpoint.url}/moto-api/"),
            timeout=60,
        )


class FakeGcs(Program):
    """fake-gcs-server over one folder on disk."""

    def __init__(self, folder: Path):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.url = f"http://{self.address}"
        place = ["-scheme", "http", "-host", "127.0.0.1", "-port", port, "-public-host", self.address]
        place += ["-external-url", self.url, "-log-level", "warn"]
        storage = ["-backend", "filesystem", "-filesystem-root", folder / "fake-gcs-server"]
        self.launch(
            "fake-gcs-server",
            [tool("fake-gcs-server"), *place, *storage],
            folder / "fake-gcs-server.log",
            lambda: answers(f"{self.url}/_internal/healthcheck"),
        )


class GcpStorageEmulator(Program):
    """gcp-storage-emulator in memory."""

    def __init__(self, folder: Path):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.url = f"http://{self.address}"
        self.launch(
            "gcp-storage-emulator",
            [sys.executable, "-m", "gcp_storage_emulator", "start", "-H", "127.0.0.1", "--port", port, "--in-memory"],
            folder / "gcp-storage-emulator.log",
            lambda: answers(f"{self.url}/storage/v1/b?project=test"),
        )


class Azurite(Program):
    """Azurite's Blob service over one folder on disk."""

    def __init__(self, folder: Path):
        port = free_port()
        self.data = folder / "azurite"
        self.address = f"127.0.0.1:{port}"
        self.endpoint = AzureEndpoint(f"http://{self.address}")
        self.launch(
            "azurite",
            azurite(self.address, self.data),
            folder / "azurite.log",
            lambda: is_azure(self.endpoint.url),
            timeout=60,
        )


def azurite(address: str, data: Path) -> list:
    """The command that starts Azurite. It takes every version of the API, as it must for clients newer than itself."""
    host, port = address.split(":")
    place = ["--blobHost", host, "--blobPort", port, "--location", data]
    return [tool("azurite-blob"), *place, "--skipApiVersionCheck", "--silent", "--disableTelemetry"]


def is_azure(url: str) -> bool:
    """Whether Azurite answers there now: with a refusal, for a request that names nothing."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError as refused:
        return refused.headers.get("Server", "").startswith("Azurite")
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


class Embedded(Program):
    """The project's own server, through the command line: `tidegate serve`; over TLS where it has a certificate."""

    def __init__(
        self,
        folder: Path,
        *options,
        certificate: Certificate | None = None,
        listen="127.0.0.1:0",
        storage="objects",
    ):
        authority = certificate and certificate.authority
        self._context = certificate and ssl.create_default_context(cafile=authority)
        if certificate:
            options = (*options, "--tls-cert", certificate.path, "--tls-key", certificate.key)
        self.url = self.launch(
            "tidegate serve",
            [binary(), "serve", "--listen", listen, "--storage", f"disk:{folder / storage}", *options],
            folder / "tidegate-serve.log",
            self._said_url,
            env=clean_env(),
        )
        self.address = self.url.split("//")[1]
        self.endpoint = Endpoint(self.url, "tidegate", "tidegate", authority)

    def _said_url(self):
        said = re.search(r"listening on (https?://127[\d.]+:\d+)\n", self._server.log.read_text(errors="replace"))
        return said and answers(f"{said[1]}/_tidegate/counts", self._context) and said[1]

    def control(self, method, what, body=None):
        """The server's own interface beside S3: `counts` and `knobs`."""
        request = urllib.request.Request(
            f"{self.url}/_tidegate/{what}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60, context=self._context) as response:
            return json.load(response)
