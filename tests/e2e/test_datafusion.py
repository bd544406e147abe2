"""DataFusion through `tidegate::object_store` (examples/datafusion): what it writes is read by another hand."""

import os
import subprocess

import pytest

from harness import MIB, ROOT
from harness.command import clean_env

EXAMPLE = ROOT / os.environ.get("TIDEGATE_DATAFUSION", "examples/datafusion/target/debug/tidegate-datafusion")

pytestmark = pytest.mark.skipif(
    not EXAMPLE.exists(), reason="the example is not built: scripts/test --only datafusion builds it"
)

ROWS, DAYS, MEMORY = 1_000_000, 300, 16


def dataset(bucket, prefix):
    """The table as pyarrow reads it."""
    from pyarrow import dataset as datasets
    from pyarrow import fs

    scheme, address = bucket.endpoint.url.split("://")
    files = fs.S3FileSystem(
        access_key=bucket.endpoint.access_key,
        secret_key=bucket.endpoint.secret_key,
        endpoint_override=address,
        scheme=scheme,
        region="us-east-1",
    )
    return datasets.dataset(f"{bucket.name}/{prefix}", filesystem=files, format="parquet", partitioning="hive")


def test_a_partitioned_table_is_written_and_read(on):
    command = [EXAMPLE, on.url("a/table"), str(ROWS), str(DAYS), str(MEMORY)]
    run = subprocess.run(command, env=clean_env(on.env), capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    said = dict(line.split(" ", 1) for line in run.stdout.splitlines())
    value = sum(number * 7919 % 1_000_003 for number in range(ROWS))
    assert (int(said["rows"]), int(said["sum"]), int(said["days"])) == (ROWS, value, DAYS)
    assert int(said["peak"].split()[0]) <= MEMORY * MIB

    keys = on.keys("a/table/")
    assert len({key.split("/")[2] for key in keys}) == DAYS
    assert all(on.sessions(key) == [] for key in keys[:3])
    table = dataset(on, "a/table").to_table()
    ids = table.column("id").to_pylist()
    assert sorted(ids) == list(range(ROWS))
    assert sum(table.column("value").to_pylist()) == value
    days = table.column("day").to_pylist()
    assert all(int(day) == number % DAYS for day, number in zip(days, ids, strict=True))
