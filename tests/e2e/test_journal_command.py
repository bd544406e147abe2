"""`tidegate journal`: uploads that were left are published, ended and shown, wherever they go to."""

import os

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.google import over_either
from harness.lines import one_sentence
from harness.process import until
from harness.s3 import GoogleBucket
from journals import CP, PART, copied, left_behind, listed, unanswered

OUTAGE = {"operation": "storage.resumable.append", "action": {"error": {"status": 503, "code": "backendError"}}}


def test_what_was_read_to_its_end_is_published_without_its_source(tidegate, on, journal, make_file, proxy_to, server):
    path, digest = make_file(6 * PART + 12345)
    proxy = proxy_to(server.address)
    proxy.bandwidth(5_000_000)
    env = server.endpoint.at(proxy.url).env
    cp = ("cp", "-", on.url("k"), *CP, "--journal", journal, "--concurrency", "2")
    with open(path, "rb") as source:
        run = tidegate.start(*cp, stdin=source, env=env)
    until("its end is in the journal", lambda: [left["state"] for left in copied(tidegate, journal)] == ["finished"])
    until("parts are stored", lambda: on.parts("k") >= 1)
    run.killed()
    [left] = listed(tidegate, journal)
    assert left["state"] == "finished" and left["bytes"] == path.stat().st_size, left
    assert not on.exists("k")
    elsewhere = tidegate("journal", "resume", journal, env=on.env)
    assert elsewhere.exit == 1 and proxy.url in elsewhere.err, elsewhere
    run = tidegate("journal", "resume", journal, env=env)
    assert run.exit == 0 and "published 1 object" in run.text, run
    assert on.sha256("k") == digest
    assert on.sessions("k") == []
    assert list(journal.iterdir()) == []


def test_what_was_read_to_its_end_is_published_in_its_resumable_upload(
    tidegate, google_bucket, google_counts, knobs, journal, make_file
):
    google, counts = google_bucket, google_counts
    path, digest = make_file(6 * PART + 12345)
    knobs(faults=over_either([OUTAGE]))
    cp = ("cp", path, google.url("k"), *CP, *google.options, "--journal", journal, "--attempts", "2", "--create-only")
    run = tidegate(*cp, env=google.env)
    one_sentence(run, google.url("k"), ".journal", exit=1)
    [left] = listed(tidegate, journal)
    assert left["state"] == "finished" and left["bytes"] == path.stat().st_size, left
    # Google ends sessions as it likes.
    aborts = {"operation": google.stream, "action": "abort_sessions", "times": 1}
    knobs(faults=[aborts])
    run = tidegate("journal", "resume", journal, *google.options, env=google.env)
    assert run.exit == 0 and "published 1 object" in run.text, run
    assert google.sha256("k") == digest
    assert list(journal.iterdir()) == []
    assert counts()["storage.resumable.start"] == 2, counts()
    one_sentence(tidegate(*cp, env=google.env), google.url("k"), "has an object already", exit=1)
    assert google.sha256("k") == digest


def test_a_session_of_grpc_goes_on_over_grpc_only(tidegate, embedded, knobs, journal, make_file):
    google = GoogleBucket(embedded.endpoint, "grpc")
    path, digest = make_file(3 * PART + 12345)
    knobs(faults=over_either([OUTAGE]))
    cp = ("cp", path, google.url("k"), *CP, "--journal", journal, "--attempts", "2", *google.options)
    one_sentence(tidegate(*cp, env=google.env), google.url("k"), ".journal", exit=1)
    knobs()
    for command in (["resume"], ["abort", "--all"]):
        run = tidegate("journal", *command, journal, env=google.env)
        assert run.exit == 1 and "was begun over gRPC" in run.err, run
        assert [left["state"] for left in listed(tidegate, journal)] == ["finished"]
    run = tidegate("journal", "resume", journal, *google.options, env=google.env)
    assert run.exit == 0 and google.sha256("k") == digest, run
    assert list(journal.iterdir()) == []


def test_a_journal_says_which_checksum_it_was_begun_with(tidegate, embedded, embedded_bucket, journal, proxy_to):
    proxy = proxy_to(embedded.address)
    crc32c = ("--checksum", "crc32c")
    data = os.urandom(2 * PART + 777)
    unanswered(tidegate, embedded_bucket, journal, data, proxy, crc32c)
    env = embedded_bucket.endpoint.at(proxy.url).env
    run = tidegate("journal", "resume", journal, env=env)
    assert run.exit == 0 and "published 1 object" in run.text, run
    assert embedded_bucket.get("k") == data
    embedded_bucket.client.delete_object(Bucket=embedded_bucket.name, Key="k")
    left_behind(tidegate, embedded_bucket, journal, data, options=crc32c)
    run = tidegate("journal", "abort", journal, "--all", env=embedded_bucket.env)
    assert run.exit == 0 and "ended 1 upload" in run.text, run
    embedded_bucket.assert_untouched("k")
    assert list(journal.iterdir()) == []


@pytest.mark.parametrize("command", [("resume",), ("abort", "--all")], ids=lambda command: command[0])
def test_journals_of_google_are_reached_as_was_asked(
    tidegate, embedded, google_bucket, journal, tmp_path, proxy_to, command
):
    proxy = proxy_to(embedded.address)
    unanswered(tidegate, google_bucket, journal, b"x", proxy)
    env = google_bucket.by(proxy.url).env
    (what, *rest), nowhere = (*command, *google_bucket.options), tmp_path / "nowhere.pem"
    run = tidegate("journal", what, journal, *rest, "--ca-bundle", nowhere, env=env)
    assert run.exit == 1 and str(nowhere) in run.err, run
    assert len(listed(tidegate, journal)) == 1
    run = tidegate("journal", what, journal, *rest, env=env)
    assert run.exit == 0, run
    assert google_bucket.exists("k") == (what == "resume")


def test_an_upload_that_is_named_twice_is_done_once(tidegate, embedded, embedded_bucket, journal, proxy_to):
    proxy = proxy_to(embedded.address)
    env = embedded_bucket.endpoint.at(proxy.url).env
    for command, said in (("resume", "published 1 object"), ("abort", "ended 1 upload")):
        unanswered(tidegate, embedded_bucket, journal, os.urandom(777), proxy)
        [left] = listed(tidegate, journal)
        run = tidegate("journal", command, journal, left["id"], "nobody", env=env)
        one_sentence(run, "nobody", exit=3)
        run = tidegate("journal", command, journal, left["id"], left["id"], env=env)
        assert run.exit == 0 and said in run.text and run.err == "", run
        assert embedded_bucket.exists("k") == (command == "resume")
        embedded_bucket.client.delete_object(Bucket=embedded_bucket.name, Key="k")


def test_two_processes_do_not_share_a_journal(tidegate, embedded_bucket, journal):
    with open_pipe() as pipe:
        run = tidegate.start(
            "cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, stdin=pipe.stdin, env=embedded_bucket.env
        )
        pipe.started()
        pipe.send(b"a" * MIB)
        until("the journal is there", lambda: listed(tidegate, journal))
        [left] = listed(tidegate, journal)
        assert left["state"] == "in_use", left
        second = tidegate("journal", "resume", journal, left["id"], env=embedded_bucket.env)
        assert second.exit == 1 and f"process {run.pid}" in second.err, second
        quiet = tidegate("journal", "resume", journal, env=embedded_bucket.env)
        assert quiet.exit == 0 and quiet.err == "", quiet
        for forget in ((), ("--forget",)):
            left_alone = tidegate("journal", "abort", journal, "--all", *forget, env=embedded_bucket.env)
            assert left_alone.exit == 0 and "left alone" in left_alone.text and left["id"] in left_alone.text, (
                left_alone
            )
            third = tidegate("journal", "abort", journal, left["id"], *forget, env=embedded_bucket.env)
            assert third.exit == 1 and f"process {run.pid}" in third.err, third
        pipe.end()
        assert run.wait(20).exit == 0
    assert embedded_bucket.get("k") == b"a" * MIB


def test_an_abort_says_that_the_object_was_published(tidegate, embedded_bucket, journal, knobs):
    knobs(faults=[{"operation": "CompleteMultipartUpload", "action": "hold_answer"}])
    data = os.urandom(2 * PART)
    cp = ("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal)
    run = tidegate.start(*cp, stdin=data, env=embedded_bucket.env)
    until("it is published", lambda: embedded_bucket.exists("k"))
    run.killed()  # before it has heard of it
    [left] = listed(tidegate, journal)
    assert left["state"] == "finished", left
    abort = tidegate("journal", "abort", journal, "--all", env=embedded_bucket.env)
    assert abort.exit == 0 and "published before" in abort.text and embedded_bucket.url("k") in abort.text, abort
    assert "ended 0 uploads" in abort.text, abort
    assert embedded_bucket.get("k") == data
    assert list(journal.iterdir()) == []


def test_an_upload_whose_bucket_is_gone_can_be_forgotten(tidegate, embedded_bucket, journal):
    left_behind(tidegate, embedded_bucket, journal, b"a" * (2 * PART))
    elsewhere = {**embedded_bucket.env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    run = tidegate("journal", "abort", journal, "--all", env=elsewhere)
    assert run.exit == 1, run
    assert len(listed(tidegate, journal)) == 1
    run = tidegate("journal", "abort", journal, "--all", "--forget", env=elsewhere)
    assert run.exit == 0 and "ended 1 upload" in run.text, run
    assert list(journal.iterdir()) == []


def test_a_sweep_leaves_alone_what_journals_go_on_with(tidegate, embedded_bucket, journal):
    on, data = embedded_bucket, b"a" * (2 * PART + 777)
    left_behind(tidegate, on, journal, data, wait=lambda: on.parts("k") >= 1)
    sweep = ("sweep", embedded_bucket.url(), "--older-than", "0s", "--json")
    run = tidegate(*sweep, "--journal", journal, env=embedded_bucket.env)
    assert run.exit == 0, run
    one, total = run.json
    assert one["fate"] == "journaled" and (total["journaled"], total["ended"]) == (1, 0), run
    assert len(embedded_bucket.sessions("k")) == 1
    run = tidegate(*sweep, env=embedded_bucket.env)
    assert run.exit == 0 and run.json[-1]["ended"] == 1, run
    assert embedded_bucket.sessions("k") == []
