"""The same for asyncio."""

import asyncio
import gc
import os

import pytest

import tidegate
import tidegate.aio
from test_processes import in_child
from tidegate.aio import _start


@pytest.fixture
def target(store):
    return tidegate.aio.Store(store.url, **dict(store._options))


def test_objects(target):
    async def main():
        data = os.urandom(20 << 20)
        object = await target.put("a", data)
        assert object.size == 20 << 20
        assert await target.get("a") == data
        assert await target.get_range("a", 5, 10) == data[5:10]
        assert await target.get_ranges("a", [(100, 200), (0, 10)]) == [data[100:200], data[:10]]
        assert (await target.head("a")).is_same(object)
        await target.copy("a", "b")
        await target.rename("b", "c")
        assert [entry.key async for entry in target.list()] == ["a", "c"]
        assert await target.exists("c")
        await target.delete("c")
        assert (await target.delete_many(["a"])).deleted == 1
        with pytest.raises(FileNotFoundError):
            await target.get("a")
        assert (await target.presign("a", 60)).startswith("http")

    asyncio.run(main())


def test_files(target):
    async def main():
        data = os.urandom(12 << 20)
        async with target_open(target, "a", "wb") as file:
            for at in range(0, len(data), 100_000):
                assert await file.write(data[at : at + 100_000]) == len(data[at : at + 100_000])
            assert file.tell() == len(data)
        assert file.closed and file.object.size == len(data)
        async with target_open(target, "a") as file:
            assert await file.read(10) == data[:10]
            assert b"".join([piece async for piece in file]) == data[10:]
            file.seek(-5, os.SEEK_END)
            assert await file.read() == data[-5:]
            file.seek(100)
            assert await file.read(5) == data[100:105]
            with pytest.raises(TypeError):
                file.seek(1.5)
            with pytest.raises(ValueError, match="whence 7"):
                file.seek(0, 7)
        file = await target.reader("a")
        await file.close()
        with pytest.raises(ValueError):
            await file.read()
        with pytest.raises(FileExistsError):
            async with target_open(target, "a", "xb") as file:
                await file.write(b"1")

    asyncio.run(main())


def target_open(target, key, mode="rb"):
    return tidegate.aio.open(f"{target.url}/{key}", mode, **dict(target._options))


def test_a_thousand_objects_at_once(target):
    async def main():
        await asyncio.gather(*(target.put(f"t/{number}", str(number).encode()) for number in range(1000)))
        read = await asyncio.gather(*(target.get(f"t/{number}") for number in range(1000)))
        assert read == [str(number).encode() for number in range(1000)]

    asyncio.run(main())


def test_an_exception_in_a_block_publishes_nothing(target, bucket):
    async def main():
        with pytest.raises(KeyError):
            async with target_open(target, "a", "wb") as file:
                await file.write(bytes(20 << 20))
                raise KeyError
        assert file.closed and file.object is None

    asyncio.run(main())
    assert target.tide.settled() == []
    bucket.assert_untouched("a")


def test_a_cancelled_task_publishes_nothing(target, bucket):
    async def write():
        async with target_open(target, "a", "wb") as file:
            while True:
                await file.write(bytes(1 << 20))
                await asyncio.sleep(0)

    async def main():
        task = asyncio.create_task(write())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert target.tide.settled() == []
    bucket.assert_untouched("a")


def test_the_session_of_a_cancelled_task_is_settled_at_once(target, bucket):
    data = bytes(64 << 20)

    async def main():
        for _ in range(20):
            task = asyncio.create_task(target.put("a", data, part_size=5 << 20))
            while not bucket.sessions("a"):
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert target.tide.settled() == []
            assert bucket.sessions("a") == []

    asyncio.run(main())
    bucket.assert_untouched("a")


def test_a_dropped_file_publishes_nothing(target, bucket):
    async def main():
        file = await target.writer("a")
        await file.write(b"1")
        file = await target.writer("b")
        await file.write(b"1")
        await file.discard()

    with pytest.warns(tidegate.NotPublishedWarning, match="/a was not published"):
        asyncio.run(main())
        gc.collect()
    assert target.tide.settled() == []
    assert bucket.keys() == []


def test_a_close_in_finally_publishes_nothing_after_an_exception(target, bucket):
    async def main():
        file = await target.writer("a")
        try:
            raise KeyError
        finally:
            await file.close()

    with pytest.raises(KeyError):
        asyncio.run(main())
    assert bucket.keys() == []


def test_an_exception_that_was_handled_in_the_block_does_not_discard(target, bucket):
    async def main():
        async with target_open(target, "a", "wb") as file:
            try:
                raise KeyError
            except KeyError:
                await file.write(b"1")

    asyncio.run(main())
    assert bucket.keys() == ["a"]


def test_a_store_can_be_used_after_a_call_was_cancelled(target):
    async def main():
        await target.put("a", bytes(1 << 20))
        for wait in (0, 0.001, 0.01):
            task = asyncio.create_task(target.get("a"))
            await asyncio.sleep(wait)
            task.cancel()
            try:
                assert await task == bytes(1 << 20)
            except asyncio.CancelledError:
                pass
        assert await target.get("a") == bytes(1 << 20)

    asyncio.run(main())


def test_the_loop_runs_while_an_operation_waits(silent):
    """The server never answers; so each turn of the loop is one during the wait."""
    store = tidegate.aio.Store("s3://bucket", endpoint_url=f"http://127.0.0.1:{silent}", access_key="a", secret_key="b")

    async def main():
        waits = [asyncio.create_task(store.put(str(number), bytes(1 << 20))) for number in range(10)]
        for _ in range(100):
            await asyncio.sleep(0.001)
        assert not any(wait.done() for wait in waits)
        for wait in waits:
            wait.cancel()
        ended = await asyncio.gather(*waits, return_exceptions=True)
        assert {type(end) for end in ended} == {asyncio.CancelledError}

    asyncio.run(main())


def test_several_loops_one_after_the_other_and_at_once(target):
    from concurrent.futures import ThreadPoolExecutor

    async def main(number):
        await target.put(f"t/{number}", str(number).encode())
        return await target.get(f"t/{number}")

    for number in range(3):
        assert asyncio.run(main(number)) == str(number).encode()
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda number: asyncio.run(main(number)), range(20)))
    assert read == [str(number).encode() for number in range(20)]


def test_an_operation_that_outlives_its_loop(target):
    async def main():
        task = asyncio.create_task(target.put("a", bytes(1 << 20)))
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        return task, loop

    asyncio.run(main())
    gc.collect()

    async def again():
        await target.put("b", b"1")

    asyncio.run(again())


def test_fork_asyncio_works_in_the_child(target):
    async def main():
        await target.put("a", b"1")

    asyncio.run(main())

    def work():
        async def child():
            await target.put("b", b"2")
            return await target.get("a")

        return asyncio.run(child())

    assert in_child(work) == b"1"
    asyncio.run(main())


def test_progress(target):
    seen = []

    async def main():
        await target.put("a", bytes(20 << 20), progress=seen.append)

    asyncio.run(main())
    assert seen[-1].acknowledged == 20 << 20


def test_transfers(target, tmp_path):
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    options = dict(target._options)

    async def main():
        await tidegate.aio.upload(tmp_path / "a", f"{target.url}/a", **options)
        await tidegate.aio.download(f"{target.url}/a", tmp_path / "b", **options)
        await tidegate.aio.copy(f"{target.url}/a", f"{target.url}/c", source=options, target=options)
        report = await tidegate.aio.sync(target, tmp_path / "tree")
        assert report.copied == 2

    (tmp_path / "tree").mkdir()
    asyncio.run(main())
    assert (tmp_path / "b").read_bytes() == bytes(1 << 20)
    assert sorted(path.name for path in (tmp_path / "tree").iterdir()) == ["a", "c"]


def test_text_modes_are_refused():
    with pytest.raises(ValueError, match="binary"):
        tidegate.aio.open("memory://a/b", "w")


def test_a_write_that_is_cancelled_while_another_task_closes_publishes_nothing(silent):
    async def main():
        store = tidegate.aio.Store(
            "s3://bucket", endpoint_url=f"http://127.0.0.1:{silent}", access_key="a", secret_key="b", memory=16 << 20
        )
        file = await store.writer("a", part_size=5 << 20)

        async def write():
            while True:
                await file.write(bytes(1 << 20))

        writing = asyncio.create_task(write())
        # A write that waits while there is memory left may go on at once.
        while file.progress().waiting != "memory" or store.tide.usage()["held"] < 16 << 20:
            assert not writing.done(), writing
            await asyncio.sleep(0.01)
        closing = asyncio.create_task(file.close())
        await asyncio.sleep(0.1)
        assert not closing.done() and not writing.done()
        writing.cancel()
        with pytest.raises(tidegate.ClosedError, match="a call has failed before"):
            await closing
        assert file.object is None

    # Long enough for a machine with many other things to do: the debug build's threads wait for a processor.
    asyncio.run(asyncio.wait_for(main(), 60))


def test_publish_does_not_ask_for_exceptions(target):
    async def main():
        store = tidegate.aio.Store(target.url, **dict(target._options))
        file = await store.writer("a")
        try:
            raise KeyError
        except KeyError:
            await file.write(b"1")
            await file.publish()
        assert await store.get("a") == b"1"

    asyncio.run(main())


def test_a_loop_that_has_ended_keeps_no_queue(memory):
    async def main():
        await tidegate.aio.Store(memory.url).exists("a")
        return asyncio.get_running_loop()

    loops = [asyncio.run(main()) for _ in range(3)]
    assert [loop for loop in loops if loop in _start._watched] == loops[-1:]


def test_the_last_call_of_progress_does_not_hide_that_the_object_is_published(memory):
    def progress(figures):
        raise KeyError

    async def main():
        file = await tidegate.aio.Store(memory.url).writer("a", progress=progress)
        with pytest.raises(KeyError):
            await file.close()
        assert file.object == memory.head("a")

    asyncio.run(main())


def test_one_string_is_no_list_of_keys(memory):
    async def main():
        with pytest.raises(TypeError, match="give a list of keys"):
            await tidegate.aio.Store(memory.url).delete_many("abc")
        with pytest.raises(ValueError, match="`start` is -1"):
            await tidegate.aio.Store(memory.url).get_range("a", -1)

    asyncio.run(main())


def test_a_close_that_nobody_awaits_is_told_of(memory):
    async def main():
        file = await tidegate.aio.Store(memory.url).writer("a")
        with pytest.warns(RuntimeWarning, match="was never awaited"):
            file.close()
            gc.collect()
        assert not file.closed
        await file.close()

    asyncio.run(main())
    assert memory.get("a") == b""


def test_a_discarded_close_may_be_awaited_many_times(memory):
    async def main():
        file = await tidegate.aio.Store(memory.url).writer("a")
        try:
            raise LookupError
        except LookupError:
            with pytest.warns(tidegate.NotPublishedWarning):
                await asyncio.shield(file.close())
            await file.close()
        assert file.closed and file.object is None
        with pytest.raises(tidegate.ClosedError, match="discarded"):
            await file.write(b"1")

    asyncio.run(main())
    assert not memory.exists("a")
