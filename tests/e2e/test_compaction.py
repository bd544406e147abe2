"""The example `compaction`: a merge as streams has the result of one in memory, and does not grow with its inputs."""

import json
import os

import pytest

from harness import ROOT
from harness.command import CommandLine

MIB = 8


@pytest.fixture
def compaction():
    program = ROOT / os.environ.get("TIDEGATE_COMPACTION", "target/release/compaction")
    assert program.exists(), f"{program} is not there: cargo build --release -p compaction"
    commands = CommandLine(program)
    yield commands
    commands.stop()


def test_streams_merge_as_memory_does_and_need_no_more_for_more_inputs(compaction, embedded_bucket):
    def run(*words):
        run = compaction(*words, "--memory", "16", env=embedded_bucket.env)
        assert run.exit == 0, run
        return json.loads(run.out)

    url, s3 = embedded_bucket.url, embedded_bucket.client
    peaks = {}
    for tables in (4, 16):
        built = run("build", url(f"in-{tables}/"), "--tables", str(tables), "--mib", str(MIB))
        bodies = []
        for way in ([], ["--whole"]):
            key = f"out/{tables}{''.join(way)}"
            merged = run("merge", url(f"in-{tables}/"), url(key), *way)
            assert merged["bytes_in"] >= tables * MIB << 20
            assert merged["entries"] < built["entries"], "keys that tables share are written once"
            bodies.append(s3.get_object(Bucket=embedded_bucket.name, Key=key)["Body"].read())
            peaks[tables, *way] = merged["peak_memory_mib"]
        assert bodies[0] == bodies[1]
    print(peaks)
    # In memory, twelve tables more are their bytes more, but for buffers that the first merge has already freed; as streams,
    # an index and a few blocks of each.
    assert peaks[16, "--whole"] - peaks[4, "--whole"] >= 12 * MIB * 3 / 4
    assert peaks[16,] < peaks[16, "--whole"] / 2
    assert peaks[16,] - peaks[4,] < 40
