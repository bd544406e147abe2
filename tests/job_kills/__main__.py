"""The long form: `python -m job_kills --kills 200` from the folder tests/. TIDEGATE_BIN and TIDEGATE_JOB_BIN name the programs."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from harness.s3 import Bucket, GoogleBucket
from harness.servers import Embedded, Minio
from pending_kills import Wrong

from . import kills_of_jobs

SERVERS = {
    "embedded": (Embedded, lambda server: Bucket(server.endpoint)),
    "google": (Embedded, lambda server: GoogleBucket(server.endpoint, "http")),
    "minio": (Minio, lambda server: Bucket(server.endpoint)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of executors and drivers, on each server")
    parser.add_argument("--server", choices=[*SERVERS], nargs="*", default=[*SERVERS])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    failed = 0
    for name in asked.server:
        start, bucket = SERVERS[name]
        with tempfile.TemporaryDirectory(prefix="job-kills-") as folder:
            server = start(Path(folder))
            begun = time.monotonic()
            try:
                seen = kills_of_jobs(lambda: bucket(server), asked.kills, asked.seed, name == "minio")
            except Wrong as wrong:
                failed, seen = failed + 1, wrong
            finally:
                server.stop()
            print(f"{name}: {seen}, {time.monotonic() - begun:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
