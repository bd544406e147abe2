"""The example `compaction`: tables merged in a store, compared with a model; its memory, and what it leaves."""

import os
import random
from pathlib import Path

import pytest

import tables
from harness import KIB, MIB, ROOT
from harness.command import CommandLine, binary
from harness.process import until
from said import one_sentence

# What its connections and the blocks that are being merged take beside the budget.
SLACK_KIB = 40 * KIB


@pytest.fixture
def compaction():
    """Runs the example: target/release/compaction, or what COMPACTION_BIN names."""
    program = Path(ROOT / os.environ.get("COMPACTION_BIN", binary().with_name("compaction")))
    if not program.exists():
        pytest.fail(f"{program} is not there: cargo build --release -p compaction")
    commands = CommandLine(program)
    yield commands
    commands.stop()


def contents(seed, count, keys=400):
    """The contents of `count` tables, the oldest first, that have many keys in common; some are gone again."""
    source = random.Random(seed)
    made = []
    for _ in range(count):
        chosen = source.sample(range(keys), source.randint(1, keys // 2))
        made.append(
            {
                f"key {number:05}".encode(): None if source.random() < 0.2 else source.randbytes(source.randint(0, 90))
                for number in chosen
            }
        )
    return made


def overlaid(tables):
    """What holds of these, the newest given last; with tombstones."""
    merged = {}
    for table in tables:
        merged |= table
    return merged


def outputs(bucket, prefix="l1/"):
    """The contents of all outputs, in the order of their names."""
    read = [tables.read(bucket.get(key)) for key in sorted(bucket.keys(prefix))]
    merged = [content for _, content in read]
    assert all(max(before) < min(after) for before, after in zip(merged, merged[1:], strict=False))
    return {sequence for sequence, _ in read}, overlaid(merged)


@pytest.mark.parametrize("way", ["streamed", "whole", "beside"])
def test_outputs_are_what_a_model_has(compaction, any_bucket, way):
    made = contents(1, 6)
    for number, content in enumerate(made):
        any_bucket.put(f"l0/{number}.table", tables.make(content, number + 1))
    options = ("--table-size", "2000", "--block-size", "500", "--way", way, "--memory", "4MiB")
    run = compaction("compact", any_bucket.url("l0/"), any_bucket.url("l1/"), *options, env=any_bucket.env)
    assert run.exit == 0, run
    merged = overlaid(made)
    expected = {key: value for key, value in merged.items() if value is not None}
    sequences, content = outputs(any_bucket)
    assert (sequences, content) == ({6}, expected)
    [figures] = run.json
    assert figures["entries_in"] == sum(map(len, made))
    assert figures["entries_out"] == len(expected)
    assert figures["superseded"] == figures["entries_in"] - len(merged)
    assert figures["tombstones_dropped"] == len(merged) - len(expected)
    assert [table["key"] for table in figures["outputs"]] == sorted(key[3:] for key in any_bucket.keys("l1/"))
    assert len(figures["outputs"]) > 3 and len(any_bucket.keys("l0/")) == 6


def test_a_tombstone_stays_while_an_older_table_may_have_its_key(compaction, bucket):
    old = {b"b": b"1", b"d": b"1"}
    made = [old, {b"a": b"2", b"c": None, b"e": None}, {b"d": None, b"f": b"3"}]
    for number, content in enumerate(made):
        bucket.put(f"l0/{number}.table", tables.make(content, number))
    named = ("--table", "1.table", "--table", "2.table")
    run = compaction("compact", bucket.url("l0/"), bucket.url("l1/"), *named, env=bucket.env)
    assert run.exit == 0, run
    _, content = outputs(bucket)
    # `c` and `d` lie within the old table's keys, `e` does not.
    assert content == {b"a": b"2", b"c": None, b"d": None, b"f": b"3"}


def test_a_merge_that_would_give_old_values_back_is_refused(compaction, bucket):
    for number in range(3):
        bucket.put(f"l0/{number}.table", tables.make({b"k": b"%d" % number}, number))
    named = ("--table", "0.table", "--table", "2.table")
    run = compaction("compact", bucket.url("l0/"), bucket.url("l1/"), *named, env=bucket.env)
    one_sentence(run, "1.table", "lies between", exit=1)
    assert bucket.keys("l1/") == []


def test_memory_is_the_budget_however_much_is_merged(compaction, bucket):
    def peak(name, *arguments):
        """The peak of building and of merging these, in KiB, and what the merge said."""
        build = compaction(
            "build", bucket.url(f"{name}/"), *arguments, "--memory", "16MiB", env=bucket.env, timeout=180
        )
        assert build.exit == 0, build
        to = ("--table-size", "32MiB", "--memory", "16MiB")
        merge = compaction(
            "compact", bucket.url(f"{name}/"), bucket.url(f"{name}-out/"), *to, env=bucket.env, timeout=180
        )
        assert merge.exit == 0, merge
        [built], [merged] = build.json, merge.json
        assert merged["entries_in"] == built["entries"], (built, merged)
        return build.peak_kib, merge.peak_kib, merged

    # The program, its threads and its connections.
    *floor, _ = peak("few", "--runs", "8", "--run-size", "64KiB")
    *most, figures = peak("many", "--runs", "8", "--run-size", "24MiB")
    assert figures["bytes_in"] > 8 * 24 * MIB and figures["superseded"] > 0, figures
    assert figures["peak_budget_bytes"] <= 16 * MIB, figures
    for least, peak_kib in zip(floor, most, strict=True):
        assert peak_kib <= least + 16 * KIB + SLACK_KIB, (floor, most)


def test_broken_bodies_and_throttling_change_nothing(compaction, embedded_bucket, knobs):
    bucket = embedded_bucket
    run = compaction("build", bucket.url("l0/"), "--runs", "6", "--run-size", "10MiB", env=bucket.env)
    assert run.exit == 0, run
    merge = ("compact", bucket.url("l0/"), "--table-size", "8MiB", "--memory", "16MiB", "--part-size", "5MiB")
    run = compaction(*merge, bucket.url("l1/"), env=bucket.env)
    assert run.exit == 0, run
    knobs(
        faults=[
            {"operation": "GetObject", "probability": 0.1, "action": {"reset_response": {"after_bytes": 100_000}}},
            {"operation": "UploadPart", "probability": 0.2, "action": {"error": {"status": 503, "code": "SlowDown"}}},
        ]
    )
    run = compaction(*merge, bucket.url("l2/"), env=bucket.env)
    assert run.exit == 0 and run.json[0]["retries"] > 0, run
    knobs()
    keys = [key[3:] for key in bucket.keys("l1/")]
    assert len(keys) > 4 and keys == [key[3:] for key in bucket.keys("l2/")]
    assert all(bucket.sha256(f"l1/{key}") == bucket.sha256(f"l2/{key}") for key in keys)


def test_a_damaged_table_is_named_and_no_output_stays(compaction, bucket):
    made = contents(2, 3, keys=20_000)
    for number, content in enumerate(made):
        bucket.put(f"l0/{number}.table", tables.make(content, number))
    damaged = bytearray(bucket.get("l0/1.table"))
    damaged[len(damaged) // 2] ^= 1
    bucket.put("l0/1.table", bytes(damaged))
    options = ("--table-size", "20KiB")
    run = compaction("compact", bucket.url("l0/"), bucket.url("l1/"), *options, env=bucket.env)
    one_sentence(run, "1.table", "checksum", exit=1)
    assert bucket.keys("l1/") == [] and bucket.sessions("l1/") == []


def test_outputs_replace_nothing(compaction, bucket):
    bucket.put("l0/1.table", tables.make({b"k": b"v"}, 1))
    bucket.put("l1/merged-000001-000000.table", b"mine")
    run = compaction("compact", bucket.url("l0/"), bucket.url("l1/"), env=bucket.env)
    one_sentence(run, "merged-000001-000000.table", exit=1)
    assert bucket.get("l1/merged-000001-000000.table") == b"mine"
    for inside in ("l0", "l0/", "l0/out/"):
        run = compaction("compact", bucket.url("l0/"), bucket.url(inside), env=bucket.env)
        one_sentence(run, "name another prefix", exit=1)
    # It only begins with the same letters.
    run = compaction("compact", bucket.url("l0/"), bucket.url("l00/"), env=bucket.env)
    assert run.exit == 0, run


def test_a_build_that_fails_leaves_no_earlier_run(compaction, bucket):
    taken = "l0/run-000003-000000.table"
    bucket.put(taken, b"mine")
    build = ("build", bucket.url("l0/"), "--runs", "3", "--run-size", "200KiB", "--table-size", "100KiB")
    run = compaction(*build, env=bucket.env)
    one_sentence(run, "run-000003-000000.table", exit=1)
    assert bucket.keys("l0/") == [taken] and bucket.get(taken) == b"mine"
    bucket.client.delete_object(Bucket=bucket.name, Key=taken)
    run = compaction(*build, env=bucket.env)
    assert run.exit == 0, run
    assert [table["key"] for table in run.json[0]["outputs"]] == [key[3:] for key in sorted(bucket.keys("l0/"))]


def test_a_build_that_is_interrupted_leaves_no_earlier_run(compaction, embedded_bucket, knobs):
    bucket = embedded_bucket
    knobs(bandwidth={"stream_in": 4_000_000})
    run = compaction.start("build", bucket.url("l0/"), "--runs", "9", "--run-size", "4MiB", env=bucket.env)
    until("a run is there", lambda: bucket.keys("l0/"))
    run.interrupt()
    result = run.wait(30)
    one_sentence(result, "interrupted", exit=130)
    assert bucket.keys("l0/") == []


def test_ctrl_c_leaves_nothing(compaction, embedded_bucket, knobs):
    bucket = embedded_bucket
    run = compaction("build", bucket.url("l0/"), "--runs", "4", "--run-size", "12MiB", env=bucket.env)
    assert run.exit == 0, run
    knobs(bandwidth={"stream_in": 2_000_000})
    options = ("--table-size", "6MiB", "--part-size", "5MiB")
    run = compaction.start("compact", bucket.url("l0/"), bucket.url("l1/"), *options, env=bucket.env)
    until("an output is there", lambda: bucket.keys("l1/"))
    run.interrupt()
    result = run.wait(30)
    one_sentence(result, "interrupted", exit=130)
    assert bucket.keys("l1/") == [] and len(bucket.keys("l0/")) == 4
    assert all(bucket.sessions(f"l1/merged-000004-{number:06}.table") == [] for number in range(9))
