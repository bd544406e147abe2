"""Copies a tree of objects with Dask. Each worker runs an engine of its own on a share of the listing. Credentials and
endpoint come from the environment of the workers.

python dask_copy_tree.py s3://bucket/from s3://bucket/to [SCHEDULER]
"""

import asyncio
import os
import sys
from collections.abc import Iterator

from dask.distributed import Client, LocalCluster, as_completed

import tidegate
import tidegate.aio

#: A share has at most so many objects and, except for a larger object alone, at most so many bytes.
SHARE_OBJECTS, SHARE_BYTES = 1000, 4 << 30
#: Objects that a worker has in hand at a time. The engine decides how many requests are in flight.
AT_ONCE = 64


def shares(source: str) -> Iterator[list[str]]:
    """The keys of the tree, cut into shares."""
    keys, size = [], 0
    for entry in tidegate.Store(source).list():
        if not isinstance(entry, tidegate.Object):
            continue
        if keys and (len(keys) == SHARE_OBJECTS or size + (entry.size or 0) > SHARE_BYTES):
            yield keys
            keys, size = [], 0
        keys.append(entry.key)
        size += entry.size or 0
    if keys:
        yield keys


def copy_share(source: str, target: str, keys: list[str]) -> int:
    """Copies one share: inside the store if both places are in one, else through this machine. A share whose worker died
    is copied again by another; an object is there as a whole, or not at all."""

    async def copy_all() -> int:
        waiting = iter(keys)

        async def copy_next() -> int:
            return sum([(await tidegate.aio.copy(f"{source}/{key}", f"{target}/{key}")).size or 0 for key in waiting])

        return sum(await asyncio.gather(*(copy_next() for _ in range(min(AT_ONCE, len(keys))))))

    return asyncio.run(copy_all())


def main(source: str, target: str, scheduler: str | None) -> None:
    cluster = scheduler or LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with Client(cluster) as client:
        copying = client.map(lambda keys: copy_share(source, target, keys), list(shares(source)))
        done = sum(future.result() for future in as_completed(copying))
    if not scheduler:
        cluster.close()
    print(f"{done} bytes in {len(copying)} shares")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {os.path.basename(sys.argv[0])} SOURCE TARGET [SCHEDULER]")
    main(sys.argv[1].rstrip("/"), sys.argv[2].rstrip("/"), sys.argv[3] if len(sys.argv) > 3 else None)
