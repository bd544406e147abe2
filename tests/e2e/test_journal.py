"""`cp --journal`: bytes that survive the process. Killed in the middle, gone on with by another."""

import hashlib
import os
import re

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.lines import one_sentence
from harness.process import until
from harness.s3 import Bucket
from journals import CP, PART, copied, left_behind, listed, unanswered, until_it_has


def test_a_pipe_that_was_killed_goes_on_where_it_stood(tidegate, on, journal, make_file):
    path, digest = make_file(8 * PART + 12345)
    data = path.read_bytes()

    def acknowledged():
        return sum(live["acknowledged_bytes"] for live in copied(tidegate, journal))

    left_behind(tidegate, on, journal, data[: 5 * PART + 777], wait=lambda: acknowledged() >= 2 * PART)
    assert not on.exists("k")
    [left] = listed(tidegate, journal)
    assert left["state"] == "cut" and left["url"] == on.url("k"), left
    assert left["bytes"] == 5 * PART + 777 and left["acknowledged_bytes"] >= 2 * PART, left

    run = tidegate("cp", "-", on.url("k"), *CP, "--journal", journal, "--json", stdin=data, env=on.env)
    assert run.exit == 0, run
    assert run.json[0]["bytes"] == len(data) and run.json[0]["strategy"] == "journal", run
    assert on.sha256("k") == digest
    assert on.sessions("k") == []
    assert list(journal.iterdir()) == []
    assert run.json[0]["requests"] <= 9 - left["acknowledged_bytes"] // PART + 1, f"parts were sent again: {run} {left}"


def noted(journal):
    """What the journal says that its session has acknowledged."""
    found = [note for file in journal.iterdir() for note in re.findall(rb'"committed":(\d+)', file.read_bytes())]
    return max(map(int, found), default=0)


@pytest.mark.parametrize("durability", ["group", "write", "sync"])
def test_a_pipe_that_was_killed_goes_on_in_its_resumable_upload(
    tidegate, google_bucket, google_counts, journal, make_file, durability
):
    google, counts = google_bucket, google_counts
    path, digest = make_file(8 * PART + 12345)
    data = path.read_bytes()
    options, half = ("--durability", durability), data[: 5 * PART + 777]
    left_behind(tidegate, google, journal, half, options, wait=lambda: noted(journal) >= 3 * PART)
    assert not google.exists("k")
    [left] = listed(tidegate, journal)
    assert left["state"] == "cut" and left["url"] == google.url("k"), left
    assert 3 * PART <= left["acknowledged_bytes"] <= left["bytes"] == 5 * PART + 777, left
    assert counts()["storage.resumable.append"] == 1, counts()
    # Its session is its journal's, and nobody else's to end.
    swept = tidegate("sweep", google.url(), "--older-than", "0s", "--journal", journal, *google.options, env=google.env)
    assert swept.exit == 0 and "storage.resumable.cancel" not in counts(), swept

    cp = ("cp", "-", google.url("k"), *CP, *google.options, "--journal", journal, *options)
    run = tidegate(*cp, "--json", stdin=data, env=google.env)
    assert run.exit == 0, run
    assert run.json[0]["bytes"] == len(data) and run.json[0]["strategy"] == "journal", run
    assert google.sha256("k") == digest
    assert list(journal.iterdir()) == []
    asked = counts()
    assert asked["storage.resumable.start"] == 1 and "storage.resumable.cancel" not in asked, asked


def test_a_file_that_was_killed_goes_on_where_it_stood(tidegate, on, journal, make_file, proxy_to, server):
    path, digest = make_file(8 * PART + 12345)
    proxy = proxy_to(server.address)
    proxy.bandwidth(20_000_000)
    env = server.endpoint.at(proxy.url).env
    run = tidegate.start("cp", path, on.url("k"), *CP, "--journal", journal, "--concurrency", "1", env=env)
    until("parts are stored", lambda: on.parts("k") >= 2)
    run.killed()
    [left] = listed(tidegate, journal)
    assert left["acknowledged_bytes"] >= PART, left
    run = tidegate("cp", path, on.url("k"), *CP, "--journal", journal, "--json", env=env)
    assert run.exit == 0, run
    # Beside the parts: whether the object and which parts are there, the completion, and a look at the object.
    assert run.json[0]["requests"] <= 9 - left["acknowledged_bytes"] // PART + 4, f"parts were sent again: {run} {left}"
    assert on.sha256("k") == digest
    assert on.sessions("k") == []
    assert list(journal.iterdir()) == []


def test_a_copy_to_a_local_disk_that_was_killed_goes_on(tidegate, journal, tmp_path, make_file):
    path, digest = make_file(8 * PART + 12345)
    target = tmp_path / "out" / "copy.bin"
    for rounds in range(6):
        with open_pipe() as pipe:
            run = tidegate.start("cp", "-", target, *CP, "--journal", journal, stdin=pipe.stdin)
            pipe.started()
            pipe.send(path.read_bytes()[: (rounds + 1) * PART + 777])
            pipe.join()
            until_it_has(tidegate, journal, (rounds + 1) * PART + 777)
            run.killed()
    assert not target.exists()
    with open(path, "rb") as source:
        run = tidegate("cp", "-", target, *CP, "--journal", journal, stdin=source)
    assert run.exit == 0, run
    assert hashlib.sha256(target.read_bytes()).hexdigest() == digest
    assert [found.name for found in target.parent.iterdir()] == ["copy.bin"]
    assert list(journal.iterdir()) == []


def test_the_embedded_server_is_another_process_each_time(tidegate, journal, tmp_path, make_file):
    path, digest = make_file(3 * PART + 12345)
    env = {"TIDEGATE_DEV_DIR": str(tmp_path / "dev")}
    cp = ("cp", "-", "dev://demo/k", *CP, "--journal", journal)
    with open_pipe() as pipe:
        run = tidegate.start(*cp, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(path.read_bytes()[: 2 * PART])
        pipe.join()
        until("a part is stored", lambda: any(left["acknowledged_bytes"] for left in copied(tidegate, journal)))
        run.killed()
    with open(path, "rb") as source:
        run = tidegate(*cp, stdin=source, env=env)
    assert run.exit == 0, run
    read = tidegate("cat", "dev://demo/k", env=env)
    assert hashlib.sha256(read.out).hexdigest() == digest
    assert list(journal.iterdir()) == []


def test_a_store_that_is_down_does_not_stop_the_producer(tidegate, embedded, journal, proxy_to, make_file):
    bucket = Bucket(embedded.endpoint)
    path, digest = make_file(8 * PART + 12345)
    data = path.read_bytes()
    proxy = proxy_to(embedded.address)
    with open_pipe() as pipe:
        env = embedded.endpoint.at(proxy.url).env
        run = tidegate.start(
            "cp", "-", bucket.url("k"), *CP, "--journal", journal, "--attempts", "2", stdin=pipe.stdin, env=env
        )
        pipe.started()
        pipe.send(data[: 2 * PART])
        until("a part is stored", lambda: bucket.parts("k") >= 1)
        proxy.cut()
        pipe.send(data[2 * PART :])
        pipe.join()  # all is taken while nobody answers
        until_it_has(tidegate, journal, len(data))
        assert not run.ended
        proxy.mend()
        pipe.end()
        result = run.wait(90)
    assert result.exit == 0, result
    assert bucket.sha256("k") == digest
    assert bucket.sessions("k") == []


def test_a_finish_that_the_store_does_not_answer_leaves_the_journal(tidegate, embedded, journal, proxy_to, make_file):
    bucket = Bucket(embedded.endpoint)
    path, digest = make_file(3 * PART + 12345)
    proxy = proxy_to(embedded.address)
    proxy.cut()
    env = embedded.endpoint.at(proxy.url).env
    run = tidegate("cp", path, bucket.url("k"), *CP, "--journal", journal, "--attempts", "2", env=env)
    one_sentence(run, bucket.url("k"), ".journal", "tidegate journal", exit=5)
    proxy.mend()
    # The same command once more: the source is compared, and nothing of it is needed.
    run = tidegate("cp", path, bucket.url("k"), *CP, "--journal", journal, env=env)
    assert run.exit == 0, run
    assert bucket.sha256("k") == digest
    assert list(journal.iterdir()) == []


def test_another_source_is_refused_and_nothing_is_thrown_away(tidegate, embedded_bucket, journal):
    left_behind(tidegate, embedded_bucket, journal, b"a" * MIB)
    for other in (b"b" * MIB * 2, b"a" * 100, b""):
        run = tidegate(
            "cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, stdin=other, env=embedded_bucket.env
        )
        one_sentence(run, embedded_bucket.url("k"), "does not begin with them", "journal abort", exit=1)
    [left] = listed(tidegate, journal)
    run = tidegate("journal", "resume", journal, left["id"], env=embedded_bucket.env)
    assert run.exit == 1 and "copy its source again" in run.err, run
    run = tidegate("journal", "verify", journal)
    assert run.exit == 0 and "whole: 1048576 bytes" in run.text, run
    run = tidegate("journal", "show", journal, left["id"])
    assert run.exit == 0 and embedded_bucket.url("k") in run.text, run
    assert "state         cut" in run.text and "length        1048576 bytes" in run.text, run
    [shown] = tidegate("journal", "show", journal, left["id"], "--json").json
    del shown["age_seconds"], left["age_seconds"]
    assert left.items() <= shown.items(), (left, shown)
    assert (shown["first_byte_kept"], shown["torn_bytes"]) == (0, 0), shown
    assert shown["state_record"]["header"]["key"] == "k", shown
    one_sentence(tidegate("journal", "show", journal, "nobody"), "nobody", journal, exit=3)
    run = tidegate("journal", "abort", journal, left["id"], env=embedded_bucket.env)
    assert run.exit == 0, run
    embedded_bucket.assert_untouched("k")
    assert list(journal.iterdir()) == []


def test_a_journal_that_is_gone_on_with_elsewhere_is_not_taken_for_what_it_was(tidegate, embedded_bucket, journal):
    data = os.urandom(3 * PART)
    left_behind(tidegate, embedded_bucket, journal, data[:MIB])
    cp = ("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal)
    with open_pipe() as pipe:
        # It has found the journal, and waits for its source to compare it.
        first = tidegate.start(*cp, stdin=pipe.stdin, env=embedded_bucket.env)
        until("it is claimed", lambda: listed(tidegate, journal)[0]["state"] == "in_use", timeout=5)
        # Another one would go on meanwhile, come further and die.
        second = tidegate(*cp, stdin=data[: 2 * MIB], env=embedded_bucket.env)
        one_sentence(second, embedded_bucket.url("k"), "another process", f"process {first.pid}", exit=1)
        pipe.started()
        pipe.send(data)
        pipe.end()
        assert first.wait(30).exit == 0
    assert embedded_bucket.get("k") == data
    assert list(journal.iterdir()) == []


def test_a_copy_beside_a_running_one_begins_no_second_upload(tidegate, embedded_bucket, journal):
    cp = ("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal)
    with open_pipe() as pipe:
        first = tidegate.start(*cp, stdin=pipe.stdin, env=embedded_bucket.env)
        pipe.started()
        pipe.send(b"a" * MIB)
        until("the journal is there", lambda: listed(tidegate, journal))
        run = tidegate(*cp, stdin=b"b" * MIB, env=embedded_bucket.env)
        one_sentence(run, embedded_bucket.url("k"), "another process", f"process {first.pid}", exit=1)
        beside = tidegate(
            "cp", "-", embedded_bucket.url("k2"), *CP, "--journal", journal, stdin=b"b", env=embedded_bucket.env
        )
        assert beside.exit == 0, beside
        pipe.end()
        assert first.wait(20).exit == 0
    assert embedded_bucket.get("k") == b"a" * MIB


def test_what_was_read_to_its_end_must_have_the_expected_size(tidegate, embedded, embedded_bucket, journal, proxy_to):
    proxy = proxy_to(embedded.address)
    data = os.urandom(PART + 777)
    unanswered(tidegate, embedded_bucket, journal, data, proxy)
    env = embedded_bucket.endpoint.at(proxy.url).env
    cp = ("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, "--expect-size")
    for size in (PART, 2 * PART):
        run = tidegate(*cp, size, stdin=data, env=env)
        one_sentence(run, embedded_bucket.url("k"), "--expect-size", len(data), "journal abort", exit=1)
        assert not embedded_bucket.exists("k") and len(listed(tidegate, journal)) == 1
    run = tidegate(*cp, len(data), stdin=data, env=env)
    assert run.exit == 0, run
    assert embedded_bucket.get("k") == data


def test_a_journal_that_has_more_than_expected_is_not_published(tidegate, embedded_bucket, journal):
    data = os.urandom(PART + 777)
    left_behind(tidegate, embedded_bucket, journal, data)
    cp = ("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, "--expect-size")
    run = tidegate(*cp, PART, stdin=data, env=embedded_bucket.env)
    one_sentence(run, embedded_bucket.url("k"), "--expect-size", len(data), "journal abort", exit=1)
    assert not embedded_bucket.exists("k") and len(listed(tidegate, journal)) == 1
    run = tidegate(*cp, len(data), stdin=data, env=embedded_bucket.env)
    assert run.exit == 0, run
    assert embedded_bucket.get("k") == data


def test_ctrl_c_leaves_the_journal_and_says_so(tidegate, embedded_bucket, journal):
    data = os.urandom(3 * PART)
    with open_pipe() as pipe:
        run = tidegate.start(
            "cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, stdin=pipe.stdin, env=embedded_bucket.env
        )
        pipe.started()
        pipe.send(data[: 2 * PART])
        until("a part is stored", lambda: embedded_bucket.parts("k") >= 1)
        pipe.join()
        run.interrupt()
        result = run.wait(20)
    one_sentence(result, "journal", exit=130)
    run = tidegate("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, stdin=data, env=embedded_bucket.env)
    assert run.exit == 0, run
    assert embedded_bucket.get("k") == data
    assert embedded_bucket.sessions("k") == []


def test_ctrl_c_does_not_wait_for_a_store_that_is_down(tidegate, embedded, journal, proxy_to):
    bucket = Bucket(embedded.endpoint)
    proxy = proxy_to(embedded.address)
    proxy.cut()
    with open_pipe() as pipe:
        env = embedded.endpoint.at(proxy.url).env
        run = tidegate.start("cp", "-", bucket.url("k"), *CP, "--journal", journal, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(b"a" * (2 * PART))
        pipe.join()
        until_it_has(tidegate, journal, 2 * PART)
        run.interrupt()
        result = run.wait(7)
    one_sentence(result, "journal", exit=130)
    [left] = listed(tidegate, journal)
    assert left["bytes"] == 2 * PART, left
