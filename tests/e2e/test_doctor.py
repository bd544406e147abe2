"""tidegate doctor: what a store has, what is done instead, and which promises do not hold there."""

from harness.process import until
from harness.s3 import Bucket, GoogleBucket


def findings(run):
    return {line["feature"]: line for line in run.json}


def test_a_whole_store_breaks_no_promise_and_nothing_is_left(on, tidegate):
    run = tidegate("doctor", on.url("some/place"), env=on.env)
    assert run.exit == 0, run
    assert f"by {on.endpoint.url}" in run.text.splitlines()[0]
    found = {line.split("  ")[0] for line in run.text.splitlines()}
    assert found <= {"works", "missing"}, run
    assert on.keys() == []


def test_google_s_store_has_resumable_uploads(embedded, tidegate):
    bucket = GoogleBucket(embedded.endpoint, "http")
    run = tidegate("doctor", bucket.url(), "--json", env=bucket.env)
    assert run.exit == 0, run
    found = findings(run)
    assert [found[name]["state"] for name in ("resumable upload", "upload in parts")] == ["works", "works"]


def test_a_directory_is_left_as_it_was(tidegate, tmp_path):
    run = tidegate("doctor", tmp_path, "--json")
    assert run.exit == 0, run
    assert findings(run)["bulk delete"]["state"] == "missing"
    assert list(tmp_path.iterdir()) == []


def test_a_broken_promise_is_named_and_is_a_failure(embedded, tidegate, knobs):
    bucket = Bucket(embedded.endpoint)
    knobs(no_checksums=True)
    run = tidegate("doctor", bucket.url(), env=bucket.env)
    assert run.exit == 1, run
    [broken] = [line for line in run.text.splitlines() if line.startswith("broken")]
    assert "keeps no checksum" in broken and "cp --verify" in broken
    assert "1 promise" in run.err


def test_a_missing_bucket_is_one_error(embedded, tidegate):
    bucket = Bucket(embedded.endpoint)
    run = tidegate("doctor", "s3://no-such-bucket/", env=bucket.env)
    assert run.exit == 3 and run.text == "", run
    assert len(run.err.splitlines()) == 1


def test_ctrl_c_names_what_may_be_left(embedded, tidegate, knobs):
    bucket = Bucket(embedded.endpoint)
    knobs(latency={"fixed_ms": 300})
    run = tidegate.start("doctor", bucket.url("x/"), env=bucket.env)
    until("two lines", lambda: run.output_so_far().count("\n") >= 2)
    run.interrupt()
    ended = run.wait()
    assert ended.exit == 130, ended
    assert f"`tidegate rm {bucket.url('x/.tidegate-examine-')}" in ended.err
