"""Prints the table, of all libraries that are installed or of those that are named: `python -m torn [LIBRARY]...`.

MinIO and fake-gcs-server are started for it; the packages are in `requirements-peers.txt`.
"""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE.parent.parent / "tests"), str(HERE / "python")]
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"

from harness.gcs import JsonBucket  # noqa: E402
from harness.s3 import Bucket  # noqa: E402
from harness.servers import FakeGcs, Minio  # noqa: E402

from .cells import row  # noqa: E402
from .libraries import LIBRARIES  # noqa: E402
from .stops import STOPS  # noqa: E402
from .wrappers import WRAPPERS  # noqa: E402


def main():
    names = sys.argv[1:] or [name for name, library in LIBRARIES.items() if importlib.util.find_spec(library.package)]
    print("| library | after | " + " | ".join(WRAPPERS) + " |")
    print("|---" * (2 + len(WRAPPERS)) + "|")
    with tempfile.TemporaryDirectory(prefix="torn-") as folder:
        minio, google = Minio(Path(folder)), FakeGcs(Path(folder))
        try:
            for name in names:
                for stop, said in STOPS.items():
                    is_s3 = LIBRARIES[name].scheme == "s3"
                    bucket = Bucket(minio.endpoint) if is_s3 else JsonBucket(google.url)
                    print(f"| {name} | {said} | " + " | ".join(row(name, stop, bucket).values()) + " |", flush=True)
        finally:
            minio.stop()
            google.stop()


if __name__ == "__main__":
    main()
