"""Dask writes and reads 200 partitions with two worker processes, one of which is killed in the middle: Dask gives its
work to another, and no partition is torn. Credentials and endpoint come from the environment.

python dask_partitions.py tidegates3://bucket/prefix
"""

import os
import signal
import sys
import time

import dask.dataframe as dd
import fsspec
import pandas as pd
from dask.distributed import Client, Future, LocalCluster

PARTITIONS, ROWS = 200, 500


def partition(number: int) -> pd.DataFrame:
    time.sleep(0.05)  # The work of a real partition.
    first = number * ROWS
    return pd.DataFrame({"id": range(first, first + ROWS), "metres": [number / 10] * ROWS})


def kill_one_worker(client: Client, written: Future, fs: fsspec.AbstractFileSystem, path: str) -> None:
    """Kills a worker once a quarter of the partitions is there."""
    workers = client.run(os.getpid)
    while len(fs.find(path)) < PARTITIONS // 4:
        if written.done():
            written.result()
            sys.exit("all partitions were written before a worker could be killed")
        time.sleep(0.05)
    os.kill(next(iter(workers.values())), signal.SIGKILL)
    assert not written.done(), "no work was left when the worker was killed"
    print(f"one worker killed after {len(fs.find(path))} partitions")


def main(place: str) -> None:
    url = f"{place}/levels"
    fs, path = fsspec.url_to_fs(url, use_listings_cache=False)
    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as client:
        frame = dd.from_map(partition, range(PARTITIONS))
        written = client.compute(frame.to_parquet(url, compute=False))
        kill_one_worker(client, written, fs, path)
        written.result()

        levels = dd.read_parquet(url)
        rows, ids = dd.compute(levels.shape[0], levels["id"].sum())

    total = PARTITIONS * ROWS
    assert rows == total, f"{rows} rows instead of {total}"
    assert ids == total * (total - 1) // 2
    print(f"{levels.npartitions} partitions, {rows} rows")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["TIDEGATE_URL"])
