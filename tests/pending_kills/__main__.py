"""The long form: `python -m pending_kills --kills 1000` from the folder tests/. TIDEGATE_BIN names the program."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from harness.azure import Container
from harness.s3 import Bucket, GoogleBucket
from harness.servers import Azurite, Embedded, Minio

from . import Kills, Wrong, kills_in_a_set, round_of_kills

SERVERS = {
    "minio": (Minio, lambda server: Bucket(server.endpoint)),
    "google": (Embedded, lambda server: GoogleBucket(server.endpoint, "http")),
    "azurite": (Azurite, lambda server: Container(server.endpoint)),
}


def add(total: Kills, seen: Kills):
    for field in vars(total):
        setattr(total, field, getattr(total, field) + getattr(seen, field))


def kills_of_uploads(bucket, folder: Path, asked, _):
    """Between preparation and commit. Only a sweep makes a lifetime count, and it comes last."""
    total = Kills()
    for number in range(-(-asked.kills // asked.round)):
        files = folder / f"round-{number}"
        files.mkdir()
        kills = min(asked.round, asked.kills - number * asked.round)
        add(total, round_of_kills(bucket(), files, kills, asked.seed + number, lifetime=10))
    return total


def kills_of_sets(bucket, folder: Path, asked, may_lose):
    """In the middle of sets of 100 objects."""
    total, number, pace = Kills(), asked.seed, 2.0
    while total.killed < asked.set_kills:
        kills = min(8, asked.set_kills - total.killed)
        seen = kills_in_a_set(bucket(), folder, 100, kills, number, pace, may_lose)
        # A set that was complete before its kills came: the next ones come sooner.
        pace *= 0.7 if seen.killed < kills / 2 and not seen.lost else 1
        add(total, seen)
        number += 1
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="between preparation and commit, on each server")
    parser.add_argument("--set-kills", type=int, default=200, help="in sets of 100 objects, on each server")
    parser.add_argument("--round", type=int, default=250, help="kills between two looks at a bucket")
    parser.add_argument("--server", choices=[*SERVERS], nargs="*", default=[*SERVERS])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    failed = 0
    for name in asked.server:
        start, bucket = SERVERS[name]
        with tempfile.TemporaryDirectory(prefix="pending-kills-") as folder:
            server = start(Path(folder))
            try:
                for what, run in (("uploads", kills_of_uploads), ("sets", kills_of_sets)):
                    begun = time.monotonic()
                    try:
                        seen = run(lambda: bucket(server), Path(folder), asked, name == "minio")
                    except Wrong as wrong:
                        failed, seen = failed + 1, wrong
                    print(f"{name}, {what}: {seen}, {time.monotonic() - begun:.0f} s", flush=True)
            finally:
                server.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
