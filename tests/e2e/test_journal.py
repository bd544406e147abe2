"""`cp --journal` and `tidegate journal`: bytes that survive the process. Killed in the middle, gone on with by another."""

import hashlib
import os
import re
import signal
import subprocess

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.process import until
from harness.s3 import Bucket
from said import one_sentence

PART = 5 * MIB
CP = ("--part-size", "5MiB", "--progress", "never")


@pytest.fixture(params=["minio", "versitygw", "embedded"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def on(server):
    """A new bucket on each server."""
    return Bucket(server.endpoint)


class Google(Bucket):
    """A bucket of the embedded server, written to as Google's."""

    def url(self, key=""):
        return f"gs://{self.name}/{key}"

    @property
    def env(self):
        return {"STORAGE_EMULATOR_HOST": self.endpoint.url}


@pytest.fixture
def google(embedded):
    return Google(embedded.endpoint)


@pytest.fixture(params=["minio", "versitygw", "embedded", "google"])
def kind(request):
    """A new bucket on each server, and as each kind of store."""
    if request.param == "google":
        return request.getfixturevalue("google")
    return Bucket(request.getfixturevalue(request.param).endpoint)


@pytest.fixture
def journal(tmp_path):
    folder = tmp_path / "journal"
    folder.mkdir()
    return folder


def killed(run):
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait(20).exit == -signal.SIGKILL


def listed(tidegate, journal):
    run = tidegate("journal", "ls", journal, "--json")
    assert run.exit == 0, run
    return run.json


def test_a_pipe_that_was_killed_goes_on_where_it_stood(tidegate, on, journal, make_file):
    path, digest = make_file(8 * PART + 12345)
    data = path.read_bytes()
    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", on.url("k"), *CP, "--journal", journal, stdin=pipe.stdin, env=on.env)
        pipe.started()
        pipe.send(data[: 5 * PART + 777])
        until("parts are stored", lambda: on.parts("k") >= 3)
        pipe.join()
        killed(run)
    assert not on.exists("k")
    [left] = listed(tidegate, journal)
    assert left["state"] == "cut" and left["url"] == on.url("k"), left
    assert 3 * PART <= left["bytes"] <= 5 * PART + 777 and left["acknowledged_bytes"] >= 2 * PART, left

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
    tidegate, google, counts, journal, make_file, durability, tmp_path
):
    env = google.env | {"XDG_STATE_HOME": str(tmp_path)}
    path, digest = make_file(8 * PART + 12345)
    data = path.read_bytes()
    cp = ("cp", "-", google.url("k"), *CP, "--journal", journal, "--durability", durability)
    with open_pipe() as pipe:
        run = tidegate.start(*cp, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(data[: 5 * PART + 777])
        until("it is acknowledged, and that is noted", lambda: noted(journal) >= 3 * PART)
        pipe.join()
        killed(run)
    assert not google.exists("k")
    [left] = listed(tidegate, journal)
    assert left["state"] == "cut" and left["url"] == google.url("k"), left
    assert 3 * PART <= left["acknowledged_bytes"] <= left["bytes"] <= 5 * PART + 777, left
    assert counts()["storage.resumable.append"] == 1, counts()
    # Its session is its journal's, and nobody else's to end.
    swept = tidegate("sweep", google.url(), "--older-than", "0s", "--journal", journal, env=env)
    assert swept.exit == 0 and "storage.resumable.cancel" not in counts(), swept

    run = tidegate(*cp, "--json", stdin=data, env=env)
    assert run.exit == 0, run
    assert run.json[0]["bytes"] == len(data) and run.json[0]["strategy"] == "journal", run
    assert google.sha256("k") == digest
    assert list(journal.iterdir()) == []
    asked = counts()
    assert asked["storage.resumable.start"] == 1 and "storage.resumable.cancel" not in asked, asked


def test_what_was_read_to_its_end_is_published_in_its_resumable_upload(
    tidegate, google, counts, knobs, journal, make_file
):
    path, digest = make_file(6 * PART + 12345)
    knobs(faults=[{"operation": "storage.resumable.append", "action": {"error": {"status": 503, "code": "backendError"}}}])
    cp = ("cp", path, google.url("k"), *CP, "--journal", journal, "--attempts", "2", "--create-only")
    run = tidegate(*cp, env=google.env)
    one_sentence(run, google.url("k"), ".journal", exit=1)
    [left] = listed(tidegate, journal)
    assert left["state"] == "finished" and left["bytes"] == path.stat().st_size, left
    # Google ends sessions as it likes.
    aborts = {"operation": "storage.resumable.append", "action": "abort_sessions", "times": 1}
    knobs(faults=[aborts])
    run = tidegate("journal", "resume", journal, env=google.env)
    assert run.exit == 0 and "published 1 object" in run.text, run
    assert google.sha256("k") == digest
    assert list(journal.iterdir()) == []
    assert counts()["storage.resumable.start"] == 2, counts()
    one_sentence(tidegate(*cp, env=google.env), google.url("k"), "412", exit=1)
    assert google.sha256("k") == digest


def test_a_file_that_was_killed_goes_on_where_it_stood(tidegate, on, journal, make_file, proxy_to, server):
    path, digest = make_file(8 * PART + 12345)
    proxy = proxy_to(server.address)
    proxy.bandwidth(20_000_000)
    env = server.endpoint.at(proxy.url).env
    run = tidegate.start("cp", path, on.url("k"), *CP, "--journal", journal, "--concurrency", "1", env=env)
    until("parts are stored", lambda: on.parts("k") >= 2)
    killed(run)
    [left] = listed(tidegate, journal)
    assert left["acknowledged_bytes"] >= PART, left
    run = tidegate("cp", path, on.url("k"), *CP, "--journal", journal, "--json", env=env)
    assert run.exit == 0, run
    assert run.json[0]["requests"] <= 9 - left["acknowledged_bytes"] // PART + 1, f"parts were sent again: {run} {left}"
    assert on.sha256("k") == digest
    assert on.sessions("k") == []
    assert list(journal.iterdir()) == []


def test_what_was_read_to_its_end_is_published_without_its_source(tidegate, on, journal, make_file, proxy_to, server):
    path, digest = make_file(6 * PART + 12345)
    proxy = proxy_to(server.address)
    proxy.bandwidth(5_000_000)
    env = server.endpoint.at(proxy.url).env
    cp = ("cp", "-", on.url("k"), *CP, "--journal", journal, "--concurrency", "2")
    with open(path, "rb") as source:
        run = tidegate.start(*cp, stdin=source, env=env)
    until("all is in the journal", lambda: path.stat().st_size <= sum(f.stat().st_size for f in journal.iterdir()))
    until("parts are stored", lambda: on.parts("k") >= 1)
    killed(run)
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
        until("all is in the journal", lambda: sum(f.stat().st_size for f in journal.iterdir()) > len(data))
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
    one_sentence(run, bucket.url("k"), ".journal", "tidegate journal", exit=1)
    proxy.mend()
    # The same command once more: the source is compared, and nothing of it is needed.
    run = tidegate("cp", path, bucket.url("k"), *CP, "--journal", journal, env=env)
    assert run.exit == 0, run
    assert bucket.sha256("k") == digest
    assert list(journal.iterdir()) == []


def test_another_source_is_refused_and_nothing_is_thrown_away(tidegate, embedded_bucket, journal):
    with open_pipe() as pipe:
        run = tidegate.start(
            "cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, stdin=pipe.stdin, env=embedded_bucket.env
        )
        pipe.started()
        pipe.send(b"a" * MIB)
        pipe.join()
        until("it is in the journal", lambda: sum(f.stat().st_size for f in journal.iterdir()) > MIB)
        killed(run)
    for other in (b"b" * MIB * 2, b"a" * 100, b""):
        run = tidegate("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, stdin=other, env=embedded_bucket.env)
        one_sentence(run, embedded_bucket.url("k"), "other bytes", "journal abort", exit=1)
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
    one_sentence(tidegate("journal", "show", journal, "nobody"), "nobody", journal, exit=2)
    run = tidegate("journal", "abort", journal, left["id"], env=embedded_bucket.env)
    assert run.exit == 0, run
    embedded_bucket.assert_untouched("k")
    assert list(journal.iterdir()) == []


def left_behind(tidegate, on, journal, data, env=None, options=()):
    """A `cp` of `data` to `k` that was killed before its source had ended."""
    with open_pipe() as pipe:
        cp = ("cp", "-", on.url("k"), *CP, "--journal", journal, *options)
        run = tidegate.start(*cp, stdin=pipe.stdin, env=env or on.env)
        pipe.started()
        pipe.send(data)
        pipe.join()
        until("it is in the journal", lambda: sum(f.stat().st_size for f in journal.iterdir()) > len(data))
        killed(run)


def test_a_journal_that_is_gone_on_with_elsewhere_is_not_taken_for_what_it_was(tidegate, embedded_bucket, journal):
    data = os.urandom(3 * PART)
    left_behind(tidegate, embedded_bucket, journal, data[:MIB])
    cp = ("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal)
    with open_pipe() as pipe:
        # It has found the journal, and waits for its source to compare it.
        first = tidegate.start(*cp, stdin=pipe.stdin, env=embedded_bucket.env)
        until("it is claimed", lambda: listed(tidegate, journal)[0]["state"] == "in-use", timeout=5)
        # Another one would go on meanwhile, come further and die.
        second = tidegate(*cp, stdin=data[: 2 * MIB], env=embedded_bucket.env)
        one_sentence(second, embedded_bucket.url("k"), "another process", f"process {first.pid}", exit=1)
        pipe.started()
        pipe.send(data)
        pipe.end()
        assert first.wait(30).exit == 0
    assert embedded_bucket.get("k") == data
    assert list(journal.iterdir()) == []


def unanswered(tidegate, on, journal, data, proxy, options=()):
    """A `cp` of `data` to `k` that has read all of its source, and found nobody to send it to."""
    proxy.cut()
    cp = ("cp", "-", on.url("k"), *CP, "--journal", journal, "--attempts", "1", *options)
    run = tidegate(*cp, stdin=data, env=on.endpoint.at(proxy.url).env)
    assert run.exit == 1, run
    proxy.mend()
    [left] = listed(tidegate, journal)
    assert left["state"] == "finished" and left["bytes"] == len(data), left


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
def test_journals_of_google_are_reached_as_was_asked(tidegate, embedded, journal, tmp_path, proxy_to, command):
    google = Google(embedded.endpoint)
    # Killed only when all of it is in the journal, with its end.
    proxy = proxy_to(embedded.address)
    proxy.cut()
    env = {"STORAGE_EMULATOR_HOST": proxy.url}
    run = tidegate("cp", "-", google.url("k"), *CP, "--journal", journal, "--attempts", "1", stdin=b"x", env=env)
    assert run.exit == 1 and listed(tidegate, journal)[0]["state"] == "finished", run
    proxy.mend()
    (what, *rest), nowhere = command, tmp_path / "nowhere.pem"
    run = tidegate("journal", what, journal, *rest, "--ca-bundle", nowhere, env=env)
    assert run.exit == 1 and str(nowhere) in run.err, run
    assert len(listed(tidegate, journal)) == 1
    run = tidegate("journal", what, journal, *rest, env=env)
    assert run.exit == 0, run
    assert google.exists("k") == (what == "resume")


def test_an_upload_that_is_named_twice_is_done_once(tidegate, embedded, embedded_bucket, journal, proxy_to):
    proxy = proxy_to(embedded.address)
    env = embedded_bucket.endpoint.at(proxy.url).env
    for command, said in (("resume", "published 1 object"), ("abort", "ended 1 upload")):
        unanswered(tidegate, embedded_bucket, journal, os.urandom(777), proxy)
        [left] = listed(tidegate, journal)
        run = tidegate("journal", command, journal, left["id"], "nobody", env=env)
        one_sentence(run, "nobody", exit=2)
        run = tidegate("journal", command, journal, left["id"], left["id"], env=env)
        assert run.exit == 0 and said in run.text and run.err == "", run
        assert embedded_bucket.exists("k") == (command == "resume")
        embedded_bucket.client.delete_object(Bucket=embedded_bucket.name, Key="k")


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


def test_a_directory_sees_a_journal_that_is_begun_meanwhile(
    tidegate, embedded, embedded_bucket, journal, tmp_path, proxy_to
):
    proxy = proxy_to(embedded.address)
    proxy.latency(1500)
    env = embedded.endpoint.at(proxy.url).env
    source = tmp_path / "source"
    source.mkdir()
    for number in range(70):
        (source / f"{number}").write_bytes(b"theirs")
    # 64 are on their way at once, in the order in which the directory has them; this one waits for its turn.
    last = [entry.name for entry in os.scandir(source)][-1]
    cp = (*CP, "--journal", journal)
    tree = tidegate.start("cp", "-r", f"{source}/", embedded_bucket.url("d/"), *cp, env=env)
    until("some are in journals", lambda: len(list(journal.glob("*.journal"))) >= 30)
    with open_pipe() as pipe:
        one = tidegate.start("cp", "-", embedded_bucket.url(f"d/{last}"), *cp, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(b"ours")
        pipe.join()
        result = tree.wait(60)
        assert result.exit == 1 and "1 of 70 objects" in result.err, result
        assert "another process writes this object" in result.err and f"process {one.pid}" in result.err, result
        pipe.end()
        assert one.wait(30).exit == 0
    assert embedded_bucket.get(f"d/{last}") == b"ours"
    assert [file.name for file in journal.iterdir() if not file.name.endswith(".unborn")] == []


def test_a_journal_directory_is_not_copied_through_itself(tidegate, embedded_bucket, tmp_path):
    source = tmp_path / "source"
    journal = source / "journal"
    journal.mkdir(parents=True)
    (source / "file").write_bytes(b"x")
    for source in (source, journal):
        run = tidegate("cp", "-r", source, embedded_bucket.url("d/"), "--journal", journal, env=embedded_bucket.env)
        one_sentence(run, "--journal", journal, "which is to be copied", exit=2)
    embedded_bucket.assert_untouched("d/file")


def test_nor_through_a_link_to_it(tidegate, embedded_bucket, journal, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    link = source / "link"
    link.symlink_to(journal)
    cp = ("cp", "-r", source, embedded_bucket.url("d/"), "--journal", journal)
    run = tidegate(*cp, env=embedded_bucket.env)
    one_sentence(run, "--journal", link, journal, exit=2)
    assert embedded_bucket.keys() == []
    link.unlink()
    (source / "file").write_bytes(b"x")
    assert tidegate(*cp, env=embedded_bucket.env).exit == 0
    assert embedded_bucket.keys() == ["d/source/file"]


def test_a_sweep_leaves_alone_what_journals_go_on_with(tidegate, embedded_bucket, journal):
    with open_pipe() as pipe:
        cp = ("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal)
        run = tidegate.start(*cp, stdin=pipe.stdin, env=embedded_bucket.env)
        pipe.started()
        pipe.send(b"a" * (2 * PART + 777))
        until("a part is stored", lambda: embedded_bucket.parts("k") >= 1)
        pipe.join()
        killed(run)
    sweep = ("sweep", embedded_bucket.url(), "--older-than", "0s", "--json")
    run = tidegate(*sweep, "--journal", journal, env=embedded_bucket.env)
    assert run.exit == 0, run
    one, total = run.json
    assert one["fate"] == "journaled" and (total["journaled"], total["ended"]) == (1, 0), run
    assert len(embedded_bucket.sessions("k")) == 1
    run = tidegate(*sweep, env=embedded_bucket.env)
    assert run.exit == 0 and run.json[-1]["ended"] == 1, run
    assert embedded_bucket.sessions("k") == []


def test_an_abort_says_that_the_object_was_published(tidegate, embedded, embedded_bucket, journal, tmp_path, proxy_to):
    proxy = proxy_to(embedded.address)
    proxy.bandwidth(5_000_000)
    env = embedded_bucket.endpoint.at(proxy.url).env
    data = os.urandom(2 * PART)
    run = tidegate.start(
        "cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, "--concurrency", "1", stdin=data, env=env
    )
    # The journal of a process that was killed before it heard of the publication.
    until("its end is in it", lambda: [left["state"] for left in copied(tidegate, journal, tmp_path)] == ["finished"])
    assert run.wait(30).exit == 0
    assert list(journal.iterdir()) == []
    again = tidegate("journal", "abort", tmp_path / "copied", "--all", env=env)
    assert again.exit == 0 and "published before" in again.text and embedded_bucket.url("k") in again.text, again
    assert "ended 0 uploads" in again.text, again
    assert embedded_bucket.get("k") == data
    assert list((tmp_path / "copied").iterdir()) == []


def test_a_copy_beside_a_running_one_begins_no_second_upload(tidegate, embedded_bucket, journal):
    cp = ("cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal)
    with open_pipe() as pipe:
        first = tidegate.start(*cp, stdin=pipe.stdin, env=embedded_bucket.env)
        pipe.started()
        pipe.send(b"a" * MIB)
        until("the journal is there", lambda: listed(tidegate, journal))
        run = tidegate(*cp, stdin=b"b" * MIB, env=embedded_bucket.env)
        one_sentence(run, embedded_bucket.url("k"), "another process", f"process {first.pid}", exit=1)
        beside = tidegate("cp", "-", embedded_bucket.url("k2"), *CP, "--journal", journal, stdin=b"b", env=embedded_bucket.env)
        assert beside.exit == 0, beside
        pipe.end()
        assert first.wait(20).exit == 0
    assert embedded_bucket.get("k") == b"a" * MIB


def test_a_file_that_changes_while_it_is_read_is_not_published(
    tidegate, embedded, embedded_bucket, make_file, mounted, proxy_to
):
    path, _ = make_file(16 * PART)
    folder = mounted("size=32M")
    proxy = proxy_to(embedded.address)
    proxy.bandwidth(20_000_000)
    env = embedded.endpoint.at(proxy.url).env
    # The disk holds the reader up until the store has taken some of it.
    with open(path, "r+b") as source:
        run = tidegate.start("cp", path, embedded_bucket.url("k"), *CP, "--journal", folder, "--concurrency", "1", env=env)
        until("it is being read", lambda: any(f.stat().st_size > MIB for f in folder.iterdir()))
        source.seek(0)
        source.write(b"other bytes")
        source.flush()
        os.fsync(source.fileno())
    result = run.wait(60)
    one_sentence(result, path, "changed", "nothing was published", exit=1)
    assert not embedded_bucket.exists("k")
    [left] = listed(tidegate, folder)
    assert left["state"] == "cut", left


def test_an_upload_whose_bucket_is_gone_can_be_forgotten(tidegate, embedded_bucket, journal):
    left_behind(tidegate, embedded_bucket, journal, b"a" * (2 * PART))
    elsewhere = {**embedded_bucket.env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    run = tidegate("journal", "abort", journal, "--all", env=elsewhere)
    assert run.exit == 1, run
    assert len(listed(tidegate, journal)) == 1
    run = tidegate("journal", "abort", journal, "--all", "--forget", env=elsewhere)
    assert run.exit == 0 and "ended 1 upload" in run.text, run
    assert list(journal.iterdir()) == []


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
        until("all is in the journal", lambda: sum(f.stat().st_size for f in journal.iterdir()) > 2 * PART)
        run.interrupt()
        result = run.wait(7)
    one_sentence(result, "journal", exit=130)
    [left] = listed(tidegate, journal)
    assert left["bytes"] == 2 * PART, left


def test_two_processes_do_not_share_a_journal(tidegate, embedded_bucket, journal):
    with open_pipe() as pipe:
        run = tidegate.start(
            "cp", "-", embedded_bucket.url("k"), *CP, "--journal", journal, stdin=pipe.stdin, env=embedded_bucket.env
        )
        pipe.started()
        pipe.send(b"a" * MIB)
        until("the journal is there", lambda: listed(tidegate, journal))
        [left] = listed(tidegate, journal)
        assert left["state"] == "in-use", left
        second = tidegate("journal", "resume", journal, left["id"], env=embedded_bucket.env)
        assert second.exit == 1 and f"process {run.pid}" in second.err, second
        quiet = tidegate("journal", "resume", journal, env=embedded_bucket.env)
        assert quiet.exit == 0 and quiet.err == "", quiet
        for forget in ((), ("--forget",)):
            left_alone = tidegate("journal", "abort", journal, "--all", *forget, env=embedded_bucket.env)
            assert left_alone.exit == 0 and "left alone" in left_alone.text and left["id"] in left_alone.text, left_alone
            third = tidegate("journal", "abort", journal, left["id"], *forget, env=embedded_bucket.env)
            assert third.exit == 1 and f"process {run.pid}" in third.err, third
        pipe.end()
        assert run.wait(20).exit == 0
    assert embedded_bucket.get("k") == b"a" * MIB


def test_a_journal_that_is_damaged_or_newer_is_named(tidegate, embedded_bucket, journal):
    # Each write is durable before the next: but for the last one, all of it is known to have been whole.
    left_behind(tidegate, embedded_bucket, journal, b"a" * (4 * MIB), options=("--durability", "write"))
    [file] = journal.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:21_000] + bytes([whole[21_000] ^ 1]) + whole[21_001:])
    run = tidegate("journal", "verify", journal)
    assert run.exit == 1 and str(file) in run.err and "damaged" in run.err, run
    file.write_bytes(without_slots(whole))
    [left] = listed(tidegate, journal)
    assert left["state"] == "damaged" and "damaged at byte" in left["problem"] and left["url"] is None, left
    run = tidegate("journal", "show", journal, left["id"])
    one_sentence(run, file, "damaged", exit=1)
    newer = bytearray(whole)
    newer[8] = 2
    newer[32:36] = crc32c(newer[:32]).to_bytes(4, "little")
    file.write_bytes(newer)
    run = tidegate("journal", "ls", journal)
    assert run.exit == 0 and file.name.removesuffix(".journal") in run.text, run
    [left] = listed(tidegate, journal)
    assert left["state"] == "newer" and "version 2" in left["problem"], left
    run = tidegate("journal", "resume", journal, env=embedded_bucket.env)
    assert run.exit == 1 and str(file) in run.err and "version 2" in run.err, run
    assert file.read_bytes() == newer
    file.write_bytes(b"no journal" * 10_000)
    [left] = listed(tidegate, journal)
    assert left["state"] == "unreadable" and "is not a journal" in left["problem"], left


@pytest.mark.parametrize("how", ["damaged", "newer", "other"])
def test_a_journal_that_can_not_be_read_can_be_forgotten(tidegate, embedded_bucket, journal, how):
    left_behind(tidegate, embedded_bucket, journal, b"a" * MIB)
    [file] = journal.iterdir()
    bad = bytearray(file.read_bytes())
    if how == "damaged":
        bad = without_slots(bad)
    elif how == "newer":
        bad[8] = 2
        bad[32:36] = crc32c(bad[:32]).to_bytes(4, "little")
    else:
        bad[:8] = b"whatever"
    file.write_bytes(bad)
    run = tidegate("journal", "abort", journal, "--all", env=embedded_bucket.env)
    assert run.exit == 1 and str(file) in run.err, run
    assert file.read_bytes() == bad
    run = tidegate("journal", "abort", journal, "--all", "--forget", env=embedded_bucket.env)
    assert run.exit == 0 and "ended 1 upload" in run.text, run
    assert list(journal.iterdir()) == []


def without_slots(journal):
    """Of a journal's bytes, both notes of where it begins are bad."""
    return journal[:4096] + bytes(2 * 4096) + journal[3 * 4096 :]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_bad_directories_are_named(tidegate, embedded_bucket, journal, make_file):
    path, _ = make_file(100)
    cp = ("cp", path, embedded_bucket.url("k"))
    one_sentence(tidegate(*cp, "--journal", "/nowhere/at/all", env=embedded_bucket.env), "/nowhere/at/all", exit=2)
    one_sentence(tidegate(*cp, "--journal", path, env=embedded_bucket.env), path, exit=2)
    one_sentence(tidegate(*cp, "--strategy", "journal", env=embedded_bucket.env), "--journal", exit=2)
    one_sentence(tidegate(*cp, "--strategy", "put", "--journal", journal, env=embedded_bucket.env), "--journal", exit=2)
    one_sentence(tidegate("journal", "ls", "/nowhere/at/all"), "/nowhere/at/all", exit=2)
    copy = tidegate("cp", embedded_bucket.url("a"), embedded_bucket.url("k"), "--journal", journal, env=embedded_bucket.env)
    one_sentence(copy, "--journal", exit=2)
    embedded_bucket.assert_untouched("k")


@pytest.fixture
def mounted(tmp_path):
    """`mounted(option)` is a small disk, gone after the test."""
    folders = []

    def mount(options):
        folder = tmp_path / f"disk{len(folders)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tidegate-test", folder]
        run = subprocess.run(command, capture_output=True, text=True, timeout=10)
        if run.returncode:
            pytest.skip(f"this user may not mount a small disk: {run.stderr.strip()}")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", "-l", folder], check=True, timeout=10)


def test_a_disk_that_can_not_be_written_is_named(tidegate, embedded_bucket, mounted, make_file):
    path, _ = make_file(100)
    folder = mounted("size=1M,ro")
    run = tidegate("cp", path, embedded_bucket.url("k"), "--journal", folder, env=embedded_bucket.env)
    one_sentence(run, folder, "read-only", exit=1)
    embedded_bucket.assert_untouched("k")


def test_an_object_larger_than_the_journal_s_disk_goes_through_it(tidegate, embedded_bucket, mounted, make_file):
    path, digest = make_file(40 * PART + 12345)
    folder = mounted("size=48M")
    run = tidegate(
        "cp", path, embedded_bucket.url("k"), *CP, "--journal", folder, "--concurrency", "2", env=embedded_bucket.env
    )
    assert run.exit == 0, run
    assert embedded_bucket.sha256("k") == digest
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("size", ["48M", "12M"])
def test_an_object_larger_than_the_journal_s_disk_goes_through_it_to_a_resumable_upload(
    tidegate, google, counts, mounted, make_file, size
):
    path, digest = make_file(40 * PART + 12345)
    folder = mounted(f"size={size}")
    run = tidegate("cp", path, google.url("k"), *CP, "--journal", folder, env=google.env, timeout=120)
    assert run.exit == 0, run
    assert google.sha256("k") == digest
    assert list(folder.iterdir()) == []
    assert counts()["storage.resumable.start"] == 1, counts()


def test_processes_that_are_killed_lose_nothing(tidegate, kind, journal):
    run = tidegate(
        "bench", "crash", "--count", "12", "--most", "20MiB", "--seed", "7", "--to", kind.url("crash"), "--journal", journal,
        "--json", env=kind.env, timeout=120,
    )  # fmt: skip
    assert run.exit == 0, run
    [figures] = run.json
    assert figures["objects"] == 12 and figures["kills"] >= 3 and figures["resumed"] >= 1, figures
    assert all(figures[what] == 0 for what in ("lost_bytes", "differing_objects", "sessions_left", "journals_left")), figures


def test_the_killed_processes_write_to_the_store_that_was_named_only(tidegate, embedded):
    run = tidegate("bench", "crash", "--count", "1", "--endpoint-url", embedded.endpoint.url)
    one_sentence(run, "--to", exit=2)
    run = tidegate("bench", "crash", "--count", "1", "--profile", "mine")
    one_sentence(run, "--to", exit=2)


@pytest.mark.parametrize("url", ["memory://crash", "dev://crash/k", "/tmp/crash", "s3://", "nothing://b/k", ""])
def test_where_crashing_processes_write_is_looked_at_first(tidegate, url):
    one_sentence(tidegate("bench", "crash", "--count", "1", "--to", url), url or "empty", "s3://", exit=2)


def test_the_killed_processes_take_nothing_from_the_environment(tidegate, embedded_bucket, counts, tmp_path):
    """Without --to they write to a server of their own, wherever the user's own store is."""
    config = tmp_path / "config"
    url = embedded_bucket.endpoint.url
    config.write_text(f"[default]\nservices = mine\n[services mine]\ns3 =\n  endpoint_url = {url}\n")
    env = embedded_bucket.env | {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_SESSION_TOKEN": "a token for the user's own store",
        "AWS_PROFILE": "default",
        "TMPDIR": str(tmp_path),
    }
    crash = ("bench", "crash", "--count", "1", "--kills", "1", "--most", "1MiB")
    for beside in ({}, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, {"AWS_CONFIG_FILE": str(config)}):
        run = tidegate(*crash, env=env | beside)
        assert counts() == {}, counts()
        assert run.exit == 0, run
    assert list(tmp_path.glob("tidegate-crash-*")) == []


def test_journals_of_the_user_s_bucket_outlast_ctrl_c(tidegate, embedded, embedded_bucket, tmp_path, proxy_to):
    proxy = proxy_to(embedded.address)
    proxy.bandwidth(1_000_000)
    env = embedded_bucket.endpoint.at(proxy.url).env | {"TMPDIR": str(tmp_path)}
    run = tidegate.start("bench", "crash", "--to", embedded_bucket.url("crash"), "--least", "40MiB", env=env)
    until("a process writes", lambda: embedded_bucket.parts("crash/0000100") >= 1)
    run.interrupt()
    result = run.wait(20)
    [journal] = tmp_path.glob("tidegate-crash-*")
    assert result.exit == 130 and f"`tidegate journal abort {journal} --all`" in result.err, result
    until("the process is gone", lambda: [left["state"] for left in listed(tidegate, journal)] != ["in-use"])
    run = tidegate("journal", "abort", journal, "--all", env=env)
    assert run.exit == 0 and "ended 1 upload" in run.text, run
    assert embedded_bucket.sessions("crash/0000100") == []


def test_a_directory_for_crashes_that_can_not_be_made_is_named(tidegate, tmp_path):
    nowhere = tmp_path / "nowhere"
    run = tidegate("bench", "crash", "--count", "1", env={"TMPDIR": str(nowhere)})
    one_sentence(run, nowhere, exit=1)
    assert "standard output" not in run.err, run


def test_a_copy_to_a_local_disk_that_was_killed_goes_on(tidegate, journal, tmp_path, make_file):
    path, digest = make_file(8 * PART + 12345)
    target = tmp_path / "out" / "copy.bin"
    for rounds in range(6):
        with open_pipe() as pipe:
            run = tidegate.start("cp", "-", target, *CP, "--journal", journal, stdin=pipe.stdin)
            pipe.started()
            pipe.send(path.read_bytes()[: (rounds + 1) * PART + 777])
            until("it is in the journal", lambda: sum(f.stat().st_size for f in journal.iterdir()) > rounds * PART + MIB)
            killed(run)
    assert not target.exists()
    with open(path, "rb") as source:
        run = tidegate("cp", "-", target, *CP, "--journal", journal, stdin=source)
    assert run.exit == 0, run
    assert hashlib.sha256(target.read_bytes()).hexdigest() == digest
    assert [found.name for found in target.parent.iterdir()] == ["copy.bin"]
    assert list(journal.iterdir()) == []


def test_a_full_disk_and_a_store_that_is_down_are_an_error_and_nothing_is_lost(
    tidegate, embedded, journal, mounted, proxy_to, make_file
):
    bucket = Bucket(embedded.endpoint)
    path, digest = make_file(8 * PART + 12345)
    folder = mounted("size=16M")
    proxy = proxy_to(embedded.address)
    proxy.cut()
    env = embedded.endpoint.at(proxy.url).env
    cp = ("cp", path, bucket.url("k"), *CP, "--journal", folder)
    # The disk is waited for, for a minute.
    run = tidegate(*cp, "--attempts", "2", env=env, timeout=120)
    one_sentence(run, folder, "no space", "tidegate journal", exit=1)
    assert run.seconds > 55, run
    proxy.mend()
    run = tidegate(*cp, env=env)
    assert run.exit == 0, run
    assert bucket.sha256("k") == digest
    assert list(folder.iterdir()) == []


def test_the_embedded_server_is_another_process_each_time(tidegate, journal, tmp_path, make_file):
    path, digest = make_file(3 * PART + 12345)
    env = {"TIDEGATE_DEV_DIR": str(tmp_path / "dev")}
    cp = ("cp", "-", "dev://demo/k", *CP, "--journal", journal)
    with open_pipe() as pipe:
        run = tidegate.start(*cp, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(path.read_bytes()[: 2 * PART])
        pipe.join()
        until("a part is stored", lambda: any(left["acknowledged_bytes"] for left in copied(tidegate, journal, tmp_path)))
        killed(run)
    with open(path, "rb") as source:
        run = tidegate(*cp, stdin=source, env=env)
    assert run.exit == 0, run
    read = tidegate("cat", "dev://demo/k", env=env)
    assert hashlib.sha256(read.out).hexdigest() == digest
    assert list(journal.iterdir()) == []


def copied(tidegate, journal, tmp_path):
    """What a journal that is in use has so far, by a copy of its file."""
    folder = tmp_path / "copied"
    folder.mkdir(exist_ok=True)
    for file in journal.glob("*.journal"):
        (folder / file.name).write_bytes(file.read_bytes())
    return listed(tidegate, folder)


def test_a_directory_that_was_killed_goes_on(tidegate, embedded, embedded_bucket, journal, tmp_path, proxy_to):
    proxy = proxy_to(embedded.address)
    proxy.latency(150)
    env = embedded.endpoint.at(proxy.url).env
    source = tmp_path / "source"
    source.mkdir()
    for number in range(60):
        (source / f"{number}").write_bytes(os.urandom(number * 20_000))
    cp = ("cp", "-r", f"{source}/", embedded_bucket.url("d/"), *CP, "--journal", journal)
    run = tidegate.start(*cp, env=env)
    until("some are in journals", lambda: len(list(journal.glob("*.journal"))) >= 20)
    killed(run)
    run = tidegate(*cp, env=env)
    assert run.exit == 0, run
    for file in source.iterdir():
        assert embedded_bucket.get(f"d/{file.name}") == file.read_bytes(), file
    assert [file.name for file in journal.iterdir() if not file.name.endswith(".unborn")] == []
