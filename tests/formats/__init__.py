"""Files that an earlier version left: journals, records, partial downloads. Later versions resume or sweep them.

Each fixture is an archive of one directory: the embedded server's storage as `store/`, and beside it what a killed
`tidegate` left. Journals name their endpoint, so the server always listens on the same address, and local targets lie
below the same directory.

`python -m formats VERSION` writes the fixtures anew with the program that TIDEGATE_BIN names. Do that only for a new
version: the old files are the point.
"""

import hashlib
import tarfile
from pathlib import Path

from harness import MIB
from harness.s3 import Endpoint

ARCHIVES = Path(__file__).parent
# Nothing else in the tests listens there.
ADDRESS = "127.77.31.1:17831"
ROOT = Path("/tmp/tidegate-formats")
BUCKET = "formats"
SIZE = 40 * MIB
PART = "5MiB"

ENDPOINT = Endpoint(f"http://{ADDRESS}", "tidegate", "tidegate")
ENV = {
    **ENDPOINT.env,
    "STORAGE_EMULATOR_HOST": ENDPOINT.url,
    "STORAGE_EMULATOR_HOST_GRPC": ENDPOINT.url,
    "XDG_STATE_HOME": str(ROOT / "state"),
}

# How the program reaches each store: the URL of a key, and options.
STORES = {
    "s3": (f"s3://{BUCKET}/", ()),
    "gs": (f"gs://{BUCKET}/", ()),
    "gs-grpc": (f"gs://{BUCKET}/", ("--gcs-transport", "grpc")),
    "file": (f"file://{ROOT}/target/", ()),
}
STRATEGIES = ("chunked", "parallel", "spool")


def data(key):
    """The bytes of an object: they compress well, and no two MiB of any two objects are the same."""
    seed = int(hashlib.sha256(key.encode()).hexdigest()[:6], 16)
    return b"".join((b"%015d\n" % (seed * 100 + mib)) * (MIB // 16) for mib in range(SIZE // MIB))


def pack(archive):
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:xz") as tar:
        for entry in sorted(ROOT.iterdir()):
            tar.add(entry, entry.name)


def unpack(archive):
    """Every file belongs to the caller, as the program demands."""
    ROOT.mkdir(mode=0o700)
    with tarfile.open(archive) as tar:
        tar.extractall(ROOT, filter="data")
