"""Runs the library's behaviour suite on real servers: `python -m stores.behaviour SERVER… -- COMMAND…`, from the folder
tests/. The command runs in the repository's root, with the servers' addresses in its environment."""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from harness import ROOT
from harness.s3 import Endpoint
from harness.servers import Azurite, FakeGcs, Minio, Moto, RcloneS3, SeaweedFS, Versitygw


def with_keys(endpoint: Endpoint) -> str:
    """The address with the credentials in it."""
    return endpoint.url.replace("://", f"://{endpoint.access_key}:{endpoint.secret_key}@")


# By the names that they have in the suite, and how it finds them.
SERVERS = {
    "minio": (Minio, lambda server: with_keys(server.endpoint)),
    "versitygw": (Versitygw, lambda server: with_keys(server.endpoint)),
    "rclone_s3": (RcloneS3, lambda server: with_keys(server.endpoint)),
    "seaweedfs": (SeaweedFS, lambda server: with_keys(server.endpoint)),
    "moto": (Moto, lambda server: with_keys(server.endpoint)),
    "fake_gcs_server": (FakeGcs, lambda server: server.url),
    "azurite": (Azurite, lambda server: server.endpoint.connection),
}


def main() -> int:
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    end = sys.argv.index("--")
    names, command = sys.argv[1:end], sys.argv[end + 1 :]
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="behaviour-")))
        env = dict(os.environ)
        for name in names:
            start, place = SERVERS[name]
            server = start(folder)
            ends.callback(server.stop)
            env[f"TIDEGATE_TEST_{name.upper()}"] = place(server)
        return subprocess.run(command, cwd=ROOT, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
