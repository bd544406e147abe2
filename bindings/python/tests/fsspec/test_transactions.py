"""Transactions that fail: what is published, and what the file system does afterwards."""

import asyncio
import contextlib
import sys

import pytest

import tidegate


class Stop(Exception):
    pass


def write(fs, path, data=b"1"):
    with fs.open(path, "wb") as file:
        file.write(data)


def in_finally(fs, folder):
    fs.start_transaction()
    try:
        write(fs, f"{folder}/one")
        raise Stop
    finally:
        fs.end_transaction()


def in_except(fs, folder):
    fs.start_transaction()
    try:
        write(fs, f"{folder}/one")
        raise Stop
    except Stop:
        fs.end_transaction()
        raise


def in_a_block(fs, folder):
    with fs.transaction:
        write(fs, f"{folder}/one")
        raise Stop


def in_a_stack(fs, folder):
    stack = contextlib.ExitStack()
    stack.enter_context(fs.transaction)
    try:
        write(fs, f"{folder}/one")
        raise Stop
    finally:
        stack.close()


@pytest.mark.parametrize("transaction", [in_finally, in_except, in_a_block, in_a_stack])
def test_an_exception_publishes_nothing(fs, folder, transaction):
    with pytest.raises(Stop):
        transaction(fs, folder)
    assert fs.find(folder) == []
    write(fs, f"{folder}/after")
    assert fs.find(folder) == [f"{folder}/after"]


def exits(fs, folder):
    with contextlib.suppress(SystemExit), fs.transaction:
        write(fs, f"{folder}/one")
        sys.exit(0)


def closes_a_generator(fs, folder):
    def lines():
        with fs.transaction:
            write(fs, f"{folder}/one")
            yield

    running = lines()
    next(running)
    running.close()


def ends_in_except(fs, folder):
    fs.start_transaction()
    write(fs, f"{folder}/one")
    try:
        raise Stop
    except Stop:
        fs.end_transaction()


@pytest.mark.parametrize("transaction", [exits, closes_a_generator, ends_in_except])
def test_a_transaction_that_no_exception_tells_of_warns(in_memory, transaction):
    fs, folder = in_memory.fs(skip_instance_cache=True), in_memory.folder()
    with pytest.warns(tidegate.NotPublishedWarning, match="its transaction was not completed") as warned:
        transaction(fs, folder)
    assert len(warned) == 1 and "/tidegate/" not in warned[0].filename
    assert fs.find(folder) == []


def test_a_transaction_that_is_discarded_does_not_warn(in_memory):
    fs, folder = in_memory.fs(skip_instance_cache=True), in_memory.folder()
    fs.start_transaction()
    write(fs, f"{folder}/one")
    fs.transaction.complete(commit=False)
    assert fs.find(folder) == []


def test_a_transaction_in_an_except_block_is_published(fs, folder):
    try:
        raise Stop
    except Stop:
        fs.start_transaction()
        write(fs, f"{folder}/one")
        fs.end_transaction()
        with fs.transaction:
            write(fs, f"{folder}/two")
    assert fs.find(folder) == [f"{folder}/one", f"{folder}/two"]


def test_a_file_that_is_committed_alone(fs, folder):
    def written(name):
        file = fs.open(f"{folder}/{name}", "wb", autocommit=False)
        file.write(b"1")
        file.close()
        return file

    with pytest.raises(Stop):
        file = written("torn")
        try:
            raise Stop
        finally:
            file.commit()
    written("one").commit()
    assert fs.find(folder) == [f"{folder}/one"]
    file = fs.open(f"{folder}/two", "wb", autocommit=False)
    with pytest.raises(ValueError, match="still open"):
        file.commit()


def test_a_publish_that_fails_ends_the_transaction(fs, folder):
    write(fs, f"{folder}/b", b"before")
    with pytest.raises(FileExistsError):
        with fs.transaction:
            for name in ("a", "b", "c"):
                with fs.open(f"{folder}/{name}", "wb", create_only=name == "b") as file:
                    file.write(b"1")
    # What came before the failure is published, and nothing after it.
    assert fs.cat(fs.find(folder)) == {f"{folder}/a": b"1", f"{folder}/b": b"before"}
    write(fs, f"{folder}/later")
    assert fs.exists(f"{folder}/later")
    with fs.transaction:
        write(fs, f"{folder}/latest")
    assert fs.exists(f"{folder}/latest")


def test_no_file_is_published_if_one_is_not_complete(fs, folder):
    with pytest.raises(ValueError, match="still open at the end of its transaction"):
        with fs.transaction:
            write(fs, f"{folder}/first")
            still_open = fs.open(f"{folder}/second", "wb")
            still_open.write(b"2")
    assert still_open.closed and fs.find(folder) == []
    write(fs, f"{folder}/later")
    assert fs.exists(f"{folder}/later")


def test_a_transaction_inside_another_is_refused(fs, folder):
    with pytest.raises(RuntimeError, match="has files already"):
        with fs.transaction:
            write(fs, f"{folder}/one")
            with fs.transaction:
                pass
    assert fs.find(folder) == []


def test_files_of_asyncio_take_no_part(place, folder):
    async def main():
        fs = place.fs(asynchronous=True, skip_instance_cache=True)
        fs.start_transaction()
        with pytest.raises(ValueError, match="no part in transactions"):
            await fs.open_async(f"{folder}/file", "wb")
        fs.end_transaction()
        async with await fs.open_async(f"{folder}/file", "wb") as file:
            await file.write(b"1")
        fs.start_transaction()
        async with await fs.open_async(f"{folder}/file") as file:
            assert await file.read() == b"1"
        fs.end_transaction()

    asyncio.run(main())


def test_the_options_that_a_file_system_was_made_with_hold_without_a_mode(place, folder, tmp_path):
    fs = place.fs(skip_instance_cache=True, create_only=True)
    source = tmp_path / "source"
    source.write_bytes(b"other")
    fs.pipe_file(f"{folder}/file", b"first")
    for write in (
        lambda: fs.pipe_file(f"{folder}/file", b"other"),
        lambda: fs.pipe({f"{folder}/file": b"other"}),
        lambda: fs.put_file(str(source), f"{folder}/file"),
        lambda: fs.put(str(source), f"{folder}/file"),
    ):
        with pytest.raises((FileExistsError, tidegate.UncertainError)):
            write()
    assert fs.cat(f"{folder}/file") == b"first"
    fs.pipe_file(f"{folder}/file", b"second", mode="overwrite")
    assert fs.cat(f"{folder}/file") == b"second"


@pytest.mark.parametrize("first", ["wb", "xb", "ab"])
@pytest.mark.parametrize("second", ["ab", "xb"])
def test_a_file_that_waits_cannot_be_continued_or_created(fs, folder, first, second):
    """The second file could not be published after the first."""
    path = f"{folder}/one"
    with pytest.raises(ValueError if second == "ab" else FileExistsError, match="transaction"), fs.transaction:
        with fs.open(path, first) as file:
            file.write(b"1")
        write(fs, f"{folder}/other")
        fs.open(path, second)
    assert fs.find(folder) == []
    write(fs, path)
    with fs.transaction:
        with fs.open(path, "ab") as file:
            file.write(b"2")
        write(fs, f"{folder}/other")
    assert fs.cat(path) == b"12"


def test_a_discarded_file_of_a_transaction_does_not_wait(fs, folder):
    with fs.transaction:
        with contextlib.suppress(Stop), fs.open(f"{folder}/one", "wb") as file:
            file.write(b"1")
            raise Stop
        with fs.open(f"{folder}/one", "ab") as file:
            file.write(b"2")
        with fs.open(f"{folder}/one", "wb") as file:
            file.write(b"3")
    assert fs.cat(f"{folder}/one") == b"3"
