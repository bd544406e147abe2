"""What is left behind: `sessions`, `sweep` and `lifecycle`, on each server and with what each of them can't do."""

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.lines import one_sentence
from harness.process import until
from harness.s3 import Bucket
from harness.servers import Minio

PART = 5 * MIB
DENIED = {"error": {"status": 403, "code": "AccessDenied"}}
CP = ("--part-size", "5MiB", "--progress", "never")


def stray(bucket, key, sizes=(PART,)):
    """A session that another program began and left: its id."""
    place = {"Bucket": bucket.name, "Key": key}
    session = bucket.client.create_multipart_upload(**place)["UploadId"]
    for number, size in enumerate(sizes, 1):
        bucket.client.upload_part(**place, UploadId=session, PartNumber=number, Body=b"s" * size)
    return session


def begun(tidegate, bucket, key, pipe):
    """A `cp` that has stored a part and holds its pipe open."""
    run = tidegate.start("cp", "-", bucket.url(key), *CP, stdin=pipe.stdin, env=bucket.env)
    pipe.started()
    pipe.send(b"a" * (2 * PART))
    until("a part is stored", lambda: bucket.parts(key) >= 1)
    pipe.join()
    return run


def test_sessions_ls_says_age_bytes_and_id(tidegate, on):
    ids = {key: stray(on, key, sizes) for key, sizes in {"a/one": (PART, 100), "a/two": (7,), "b": ()}.items()}
    run = tidegate("sessions", "ls", on.url("a/"), "--json", env=on.env)
    assert run.exit == 0, run
    found = {line["url"]: line for line in run.json}
    assert set(found) == {on.url("a/one"), on.url("a/two")}, run
    one = found[on.url("a/one")]
    assert (one["id"], one["bytes"], one["parts"]) == (ids["a/one"], PART + 100, 2), run
    assert one["age_seconds"] < 300 and one["started"].startswith("2"), run
    people = tidegate("sessions", "ls", on.url(), env=on.env)
    assert people.exit == 0, people
    assert len(people.text.splitlines()) == 3, people
    assert "5.0 MiB" in people.text and ids["b"] in people.text, people


def test_sessions_abort_ends_those_of_one_key(tidegate, on):
    first, second = stray(on, "k"), stray(on, "k", (100,))
    beside = stray(on, "k2")
    run = tidegate("sessions", "abort", on.url("k"), "--id", first, env=on.env)
    assert run.exit == 0, run
    assert "freed 5.0 MiB" in run.text, run
    assert on.sessions("k") == [second]
    run = tidegate("sessions", "abort", on.url("k"), env=on.env)
    assert run.exit == 0 and "freed 100 bytes" in run.text, run
    assert (on.sessions("k"), on.sessions("k2")) == ([], [beside])
    one_sentence(tidegate("sessions", "abort", on.url("none"), env=on.env), on.url("none"), exit=3)
    one_sentence(tidegate("sessions", "abort", on.url(), env=on.env), "-r", exit=2)


def test_sessions_abort_leaves_a_live_process_alone(tidegate, on):
    with open_pipe() as pipe:
        run = begun(tidegate, on, "live", pipe)
        refused = tidegate("sessions", "abort", on.url("live"), env=on.env)
        assert refused.exit == 1 and "live process" in refused.err, refused
        pipe.end()
        assert run.wait().exit == 0
    assert on.exists("live")


def test_a_sweep_goes_by_age(tidegate, on):
    stray(on, "young")
    for limit in ((), ("--older-than", "12h")):
        run = tidegate("sweep", on.url(), *limit, env=on.env)
        assert run.exit == 0, run
        assert "ended 0 unfinished uploads, freed 0 bytes" in run.text and "1 younger than" in run.text, run
    assert len(on.sessions("young")) == 1


def test_a_dry_run_ends_nothing_and_a_sweep_does(tidegate, on):
    ids = {key: stray(on, key, (PART, 5)) for key in ("logs/a", "logs/b", "other")}
    dry = tidegate("sweep", on.url("logs/"), "--older-than", "0s", "--dry-run", env=on.env)
    assert dry.exit == 0, dry
    assert dry.text.splitlines()[-1] == "would end 2 unfinished uploads and free 10.0 MiB", dry
    assert ids["logs/a"] in dry.text and ids["logs/b"] in dry.text and ids["other"] not in dry.text, dry
    run = tidegate("sweep", on.url("logs/"), "--older-than", "0s", "--json", env=on.env)
    assert run.exit == 0, run
    *each, total = run.json
    assert {line["id"]: (line["fate"], line["bytes"]) for line in each} == {
        ids["logs/a"]: ("ended", PART + 5),
        ids["logs/b"]: ("ended", PART + 5),
    }, run
    assert (total["ended"], total["bytes"], total["failed"]) == (2, 2 * PART + 10, 0), run
    assert [len(on.sessions(key)) for key in ids] == [0, 0, 1]


def test_a_sweep_never_touches_a_live_process(tidegate, on):
    with open_pipe() as pipe:
        run = begun(tidegate, on, "live", pipe)
        old = stray(on, "old")
        swept = tidegate("sweep", on.url(), "--older-than", "0s", env=on.env)
        assert swept.exit == 0, swept
        assert old in swept.text and "1 of live processes" in swept.text, swept
        (line,) = tidegate("sessions", "ls", on.url("live"), "--json", env=on.env).json
        assert (line["process"], line["pid"]) == ("live", run.pid), line
        pipe.send(b"b" * PART)
        pipe.end()
        done = run.wait()
    assert done.exit == 0, done
    assert on.head("live")["ContentLength"] == 3 * PART
    assert on.sessions("old") == []


def test_sweeps_beside_uploads_cost_none_of_them(tidegate, on, make_file):
    """Sessions open and end while sweeps of everything run one after another: none is taken from its writer."""
    path, digest = make_file(12 * MIB)
    runs = {f"k{number}": tidegate.start("cp", path, on.url(f"k{number}"), *CP, env=on.env) for number in range(8)}
    sweeps = 0
    while sweeps < 3 or not all(run.ended for run in runs.values()):
        swept = tidegate("sweep", on.url(), "--older-than", "0s", env=on.env)
        assert swept.exit == 0 and "ended 0 unfinished uploads" in swept.text, swept
        sweeps += 1
    for key, run in runs.items():
        done = run.wait()
        assert done.exit == 0, done
        assert on.sha256(key) == digest


def test_a_killed_process_is_swept(tidegate, on):
    with open_pipe() as pipe:
        run = begun(tidegate, on, "dead", pipe)
        (session,) = on.sessions("dead")
        run.killed()
    # Its age protects it as any other's.
    assert tidegate("sweep", on.url(), env=on.env).exit == 0
    assert on.sessions("dead") == [session]
    swept = tidegate("sweep", on.url(), "--older-than", "0s", env=on.env)
    assert swept.exit == 0, swept
    assert session in swept.text and f"of process {run.pid}, which is gone" in swept.text, swept
    on.assert_untouched("dead")
    again = tidegate("sweep", on.url(), "--older-than", "0s", env=on.env)
    assert again.exit == 0 and "ended 0 unfinished uploads" in again.text, again


def test_records_go_with_what_they_are_of(tidegate, on, tmp_path):
    env = on.env | {"XDG_STATE_HOME": str(tmp_path)}

    def records():
        return list((tmp_path / "tidegate").glob("*.sessions"))

    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", on.url("k"), *CP, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(b"a" * (2 * PART))
        until("the session is written down", lambda: records() and b"named" in records()[0].read_bytes())
        pipe.end()
        assert run.wait().exit == 0
    assert records() == []
    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", on.url("k"), *CP, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(b"a" * (2 * PART))
        until("the session is written down", lambda: records() and b"named" in records()[0].read_bytes())
        run.killed()
    assert len(records()) == 1
    dry = tidegate("sweep", on.url(), "--older-than", "0s", "--dry-run", env=env)
    assert dry.exit == 0 and len(records()) == 1, dry
    assert tidegate("sweep", on.url(), "--older-than", "0s", env=env).exit == 0
    assert records() == []


@pytest.mark.parametrize("age", ["soon", "1", "-1d", ""])
def test_a_sweep_refuses_an_age_that_is_none(tidegate, embedded_bucket, age):
    run = tidegate("sweep", embedded_bucket.url(), f"--older-than={age}", env=embedded_bucket.env)
    assert run.exit == 2, run
    assert "1d" in run.err, run


def test_a_session_that_cannot_be_ended_does_not_stop_the_rest(tidegate, embedded_bucket, knobs):
    bucket = embedded_bucket
    for key in ("a", "b", "c"):
        stray(bucket, key, (100,))
    knobs(faults=[{"operation": "AbortMultipartUpload", "key_prefix": "b", "action": DENIED}])
    run = tidegate("sweep", bucket.url(), "--older-than", "0s", env=bucket.env)
    assert run.exit == 1, run
    assert "ended 2 unfinished uploads, freed 200 bytes" in run.text, run
    assert bucket.url("b") in run.err and "1 unfinished upload of" in run.err, run
    knobs()
    assert [len(bucket.sessions(key)) for key in "abc"] == [0, 1, 0]


def test_unfinished_files_of_a_directory_are_swept(tidegate, tmp_path):
    left = tmp_path / ".tidegate-0123456789abcdef-big.bin.part"
    left.write_bytes(b"x" * 1000)
    shown = tidegate("sessions", "ls", tmp_path)
    assert shown.exit == 0 and "1000 bytes" in shown.text and "big.bin" in shown.text, shown
    run = tidegate("sweep", tmp_path, "--older-than", "0s")
    assert run.exit == 0 and "freed 1000 bytes" in run.text, run
    assert not left.exists()


# Lifecycle rules.

RULES = [
    {
        "ID": "tiers",
        "Status": "Enabled",
        "Filter": {"And": {"Prefix": "x/", "Tags": [{"Key": "a", "Value": "1 & 2"}]}},
        "Expiration": {"Days": 400},
    },
    {"ID": "off", "Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 7}},
]


def rules(bucket):
    return bucket.client.get_bucket_lifecycle_configuration(Bucket=bucket.name)["Rules"]


def put_rules(bucket, rules):
    bucket.client.put_bucket_lifecycle_configuration(Bucket=bucket.name, LifecycleConfiguration={"Rules": rules})


def test_ensure_adds_one_rule_and_leaves_the_others(tidegate, embedded_bucket):
    bucket = embedded_bucket
    put_rules(bucket, RULES)
    before = rules(bucket)
    run = tidegate("lifecycle", "ensure", bucket.url(), env=bucket.env)
    assert run.exit == 0 and "added rule" in run.text, run
    *others, added = rules(bucket)
    assert others == before
    assert added["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    assert (added["Status"], added["Filter"]) == ("Enabled", {"Prefix": ""})
    shown = tidegate("lifecycle", "show", bucket.url(), "--json", env=bucket.env)
    assert [rule["id"] for rule in shown.json] == ["tiers", "off", added["ID"]], shown
    assert shown.json[0]["actions"] == ["Expiration Days=400"], shown


def test_ensure_twice_changes_nothing(tidegate, embedded_bucket, counts):
    bucket = embedded_bucket
    none = tidegate("lifecycle", "show", bucket.url(), env=bucket.env)
    assert none.exit == 0 and "no lifecycle rules" in none.err, none
    assert tidegate("lifecycle", "ensure", bucket.url(), env=bucket.env).exit == 0
    before = rules(bucket)
    counts.reset()
    again = tidegate("lifecycle", "ensure", bucket.url(), "--json", env=bucket.env)
    assert again.exit == 0 and again.json[0]["added"] is False, again
    assert counts().get("PutBucketLifecycleConfiguration", 0) == 0
    assert rules(bucket) == before


def test_minio_refuses_the_rule_and_keeps_the_others(tidegate, bucket):
    put_rules(bucket, RULES)
    before = rules(bucket)
    run = tidegate("lifecycle", "ensure", bucket.url(), env=bucket.env)
    one_sentence(run, "MinIO", "stale_uploads_expiry", "no rule was changed", "tidegate sweep", exit=1)
    assert rules(bucket) == before
    shown = tidegate("lifecycle", "show", bucket.url(), env=bucket.env)
    assert shown.exit == 0 and "Expiration Days=400" in shown.text, shown


def test_versitygw_has_no_rules(tidegate, versitygw):
    bucket = Bucket(versitygw.endpoint)
    for command in ("show", "ensure"):
        run = tidegate("lifecycle", command, bucket.url(), env=bucket.env)
        one_sentence(run, "no lifecycle rules", "tidegate sweep", exit=1)


@pytest.fixture(scope="module")
def restarting(tmp_path_factory):
    """A MinIO that a test may restart."""
    server = Minio(tmp_path_factory.mktemp("restarting"))
    yield server
    server.stop()


def test_what_minio_forgets_is_found_by_the_records(tidegate, restarting):
    """A restart empties MinIO's list; what a killed process of this machine left is swept all the same."""
    bucket = Bucket(restarting.endpoint)
    with open_pipe() as pipe:
        run = begun(tidegate, bucket, "deep/dead", pipe)
        run.killed()
    strange = stray(bucket, "deep/strange")
    restarting.restart()
    swept = tidegate("sweep", bucket.url("deep/"), "--older-than", "0s", env=bucket.env)
    assert swept.exit == 0, swept
    assert "ended 1 unfinished upload," in swept.text, swept
    assert "MinIO forgets" in swept.err and "whole key" in swept.err, swept
    assert bucket.sessions("deep/dead") == []
    # The other's whole key still finds it.
    (line,) = tidegate("sessions", "ls", bucket.url("deep/strange"), "--json", env=bucket.env).json
    assert line["id"] == strange, line
