"""The examples of pandas, Dask and zarr, as their users run them, on MinIO."""

import os
import re
import subprocess
import sys

import pytest

from harness import ROOT
from harness.command import clean_env

EXAMPLES = ROOT / "examples" / "python"


@pytest.fixture
def run(minio_bucket, tmp_path):
    """Runs an example, which reaches the bucket by its environment, and returns what it prints."""

    def run(name, *arguments):
        env = clean_env({**minio_bucket.env, "PYTHONPATH": os.environ["PYTHONPATH"]})
        command = [sys.executable, EXAMPLES / name, *arguments]
        ended = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    return run


def test_pandas(run, minio_bucket):
    said = run("pandas_by_url.py", f"tidegates3://{minio_bucket.name}/tables")
    assert said.count("3000 rows, 3.6 m") == 7
    assert len(minio_bucket.keys("tables/")) == 6


def test_dask_with_a_worker_that_is_killed(run, minio_bucket):
    said = run("dask_partitions.py", f"tidegates3://{minio_bucket.name}/frame")
    there, rows = re.search(r"one worker killed after (\d+) partitions\n200 partitions, (\d+) rows", said).groups()
    assert 50 <= int(there) < 200 and rows == "100000"
    names = minio_bucket.keys("frame/levels/")
    assert sorted(names) == sorted(f"frame/levels/part.{number}.parquet" for number in range(200))
    for name in names:
        body = minio_bucket.get(name)
        assert body[:4] == body[-4:] == b"PAR1", f"{name} is torn"


def test_a_tree_is_copied_with_dask(run, minio_bucket):
    bodies = {f"from/{n % 7}/{n}": b"x" * n for n in range(300)} | {"from/large": b"y" * (6 << 20)}
    for key, body in bodies.items():
        minio_bucket.put(key, body)
    url = f"s3://{minio_bucket.name}"
    said = run("dask_copy_tree.py", f"{url}/from", f"{url}/to")
    assert said.startswith(f"{sum(map(len, bodies.values()))} bytes in ")
    assert minio_bucket.keys("to/") == sorted(f"to/{key.removeprefix('from/')}" for key in bodies)
    assert minio_bucket.get("to/large") == bodies["from/large"] and minio_bucket.size("to/2/100") == 100


def test_zarr(run, minio_bucket):
    assert "40 chunks" in run("zarr_arrays.py", f"tidegates3://{minio_bucket.name}/arrays")
    assert len(minio_bucket.keys("arrays/ocean.zarr/height/c/")) == 40
