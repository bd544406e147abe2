"""Journals: an upload that was killed is resumed by another process."""

import asyncio
import fcntl
import os
import signal
import time

import pytest

import tidegate
import tidegate.aio
from test_processes import in_child

INGEST = """
import os, sys, tidegate
file = tidegate.open(os.environ["BUCKET"] + "/log", "wb", strategy="journal", journal=os.environ["JOURNAL"])
for number in range(100_000):
    file.write(b"%09d\\n" % number)
    if number % 1000 == 0:
        print(file.sync(), flush=True)
"""


@pytest.fixture
def journal(tmp_path):
    directory = tmp_path / "journal"
    directory.mkdir()
    return directory


def killed(program, journal):
    """Kills an ingest; how many bytes it knew to be safe."""
    running = program(INGEST, JOURNAL=str(journal))
    for _ in range(5):
        safe = int(running.line())
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    return safe


def rows(data):
    return [int(data[at : at + 10]) for at in range(0, len(data), 10)]


def test_a_killed_upload_resumes_without_a_lost_byte(program, bucket, store, journal):
    safe = killed(program, journal)
    assert bucket.keys() == []
    [left] = tidegate.recover(journal)
    assert left.url == bucket.url("log") and left.length >= safe
    assert not left.is_finished and left.problem is None
    file = left.resume(store)
    assert isinstance(file, tidegate.Writer) and file.tell() >= safe
    assert left.problem is None
    with file:
        number = file.tell() // 10
        file.write(b"%09d\n" % number if file.tell() % 10 == 0 else (b"%09d\n" % number)[file.tell() % 10 :])
    data = bucket.get("log")
    assert rows(data) == list(range(len(data) // 10)) and len(data) > safe
    assert tidegate.recover(journal) == []


def test_a_killed_upload_resumes_in_asyncio(program, bucket, store, journal):
    safe = killed(program, journal)

    async def main():
        [left] = await tidegate.aio.recover(journal)
        async with await left.resume(tidegate.aio.Store(store.url, **dict(store._options))) as file:
            assert file.tell() >= safe
        return file.object.size

    assert asyncio.run(main()) == bucket.size("log")


def test_a_journal_ends_with_its_object(bucket, options, journal):
    store = tidegate.Store(bucket.url().rstrip("/"), journal=journal, **options)
    with store.writer("a", strategy="journal") as file:
        file.write(b"1")
        assert [each.problem is not None for each in store.left("a")] == [True]
    assert store.get("a") == b"1"
    assert tidegate.recover(journal) == []


@pytest.mark.parametrize("how", ["exception", "dropped", "discarded"])
def test_what_stays_in_the_journal(bucket, options, journal, how):
    """An exception may be a reason to resume; who discards wants nothing of it."""
    store = tidegate.Store(bucket.url().rstrip("/"), journal=journal, **options)
    file = store.writer("a", strategy="journal")
    file.write(b"1234")
    if how == "exception":
        with pytest.raises(KeyError), file:
            raise KeyError
    elif how == "dropped":
        del file
    else:
        file.discard()
    assert store.tide.settled() == []
    assert bucket.keys() == []
    left = store.left("a")
    assert [each.length for each in left] == ([] if how == "discarded" else [4])
    for each in left:
        resumed = each.resume()
        assert resumed.tell() == 4
        resumed.discard()
    assert store.left("a") == []


def test_abort_and_forget(bucket, options, journal):
    store = tidegate.Store(bucket.url().rstrip("/"), journal=journal, **options)
    for key in ("a", "b"):
        file = store.writer(key, strategy="journal")
        file.write(b"1234")
        del file
    assert store.tide.settled() == []
    left = {each.url: each for each in store.tide.recover()}
    assert left[bucket.url("a")].abort(store) is None
    left[bucket.url("b")].forget()
    assert store.tide.recover() == []
    assert bucket.keys() == []


def test_arguments(journal):
    assert tidegate.recover(tide=tidegate.Tidegate(journal=journal)) == []
    with pytest.raises(TypeError):
        tidegate.recover()
    with pytest.raises(ValueError, match="no such directory"):
        tidegate.recover(journal / "missing")


@pytest.mark.parametrize("how", ["os.fork()", "multiprocessing.get_context('fork').Process(target=wait).start()"])
def test_a_killed_upload_resumes_while_a_forked_child_of_it_lives(program, bucket, store, journal, tmp_path, how):
    running = program(
        f"""
        import multiprocessing, os, threading, tidegate
        file = tidegate.open(
            os.environ["BUCKET"] + "/log", "wb", strategy="journal", part_size=5 << 20,
            journal=os.environ["JOURNAL"], records=os.environ["RECORDS"],
        )
        file.write(bytes(6 << 20))
        file.sync()
        def wait():
            # An inherited writer does no harm, and is of no use.
            try:
                file.write(b"child")
            except tidegate.ForkError:
                print(os.getpid(), flush=True)
            os.read(0, 1)
        if {how} == 0:
            wait()
            os._exit(0)
        threading.Event().wait()
        """,
        JOURNAL=str(journal),
        RECORDS=str(tmp_path / "records"),
    )
    child = int(running.line())
    try:
        [left] = tidegate.recover(journal)
        assert "in use" in left.problem
        while not list((tmp_path / "records").glob("*.sessions")):
            time.sleep(0.01)
        running.process.send_signal(signal.SIGKILL)
        running.process.wait()
        [left] = tidegate.recover(journal)
        assert left.problem is None
        with left.resume(store) as file:
            assert file.tell() == 6 << 20
            file.write(b"parent")
        assert bucket.size("log") == (6 << 20) + 6
        [records] = (tmp_path / "records").glob("*.sessions")
        with records.open() as of_the_dead:
            fcntl.flock(of_the_dead, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def test_an_upload_whose_child_lives_keeps_its_journal(bucket, options, journal):
    """The child gives up the lock, the parent does not lose it."""
    file = tidegate.open(bucket.url("a"), "wb", strategy="journal", journal=journal, **options)
    file.write(b"1")
    assert in_child(lambda: [left.problem is None for left in tidegate.recover(journal)]) == [False]
    [left] = tidegate.recover(journal)
    assert left.problem is not None
    file.write(b"2")
    file.close()
    assert bucket.get("a") == b"12"
    assert list(journal.iterdir()) == []
