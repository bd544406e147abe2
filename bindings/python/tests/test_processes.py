"""Forks, other processes, threads."""

import multiprocessing
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import tidegate
from harness.process import until

WAIT = 30


def in_child(work):
    """Forks, has the child do `work`, and returns what that returned; an exception is raised here."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = (True, work())
        except BaseException as error:
            result = (False, error)
        with os.fdopen(write, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(write)
    deadline = time.monotonic() + WAIT
    with os.fdopen(read, "rb") as pipe:
        import select

        ready, _, _ = select.select([pipe], [], [], WAIT)
        if not ready:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise AssertionError(f"the child did not answer within {WAIT} s")
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    assert data, f"the child ended with status {status}"
    assert time.monotonic() < deadline
    succeeded, result = pickle.loads(data)
    if not succeeded:
        raise result
    return result


def test_fork_a_store_works_in_the_child(store):
    store.put("parent", b"1")

    def work():
        store.put("child", b"2")
        return store.get("parent")

    assert in_child(work) == b"1"
    assert store.get("child") == b"2"


def test_fork_a_store_shares_no_connection_with_the_child(store):
    """Parent and child use the same store at the same time: an answer to the one never reaches the other."""
    for number in range(8):
        store.put(str(number), str(number).encode() * 1000)

    def work():
        return all(store.get(str(number % 8)) == str(number % 8).encode() * 1000 for number in range(200))

    with ThreadPoolExecutor(1) as pool:
        here = pool.submit(work)
        assert in_child(work)
        assert here.result()


def test_fork_an_inherited_writer_raises_and_the_parent_goes_on(store, bucket):
    file = store.writer("a", part_size=5 << 20)
    file.write(bytes(6 << 20))

    def work():
        raised = []
        for call in (lambda: file.write(b"child"), file.tell, file.sync, file.close):
            try:
                call()
            except tidegate.ForkError as error:
                raised.append(str(error))
        file.close()
        return raised

    raised = in_child(work)
    assert len(raised) == 4 and f"process {os.getpid()}" in raised[0]
    file.write(b"parent")
    file.close()
    assert bucket.size("a") == (6 << 20) + 6


@pytest.mark.parametrize("how", ["dropped", "discarded", "exception", "exit"])
def test_fork_an_inherited_writer_that_ends_in_the_child_leaves_the_upload_alone(store, bucket, how):
    file = store.writer("a", part_size=5 << 20)
    file.write(bytes(11 << 20))

    def work():
        nonlocal file
        if how == "dropped":
            del file
        elif how == "discarded":
            file.discard()
        elif how == "exception":
            try:
                with file:
                    raise KeyError
            except KeyError:
                pass
        else:
            from tidegate import _ending

            _ending._discard_all()
        store.put("other", b"1")
        return True

    assert in_child(work)
    until("the upload has a session, and keeps it", lambda: bucket.sessions("a"))
    file.write(b"more")
    file.close()
    assert bucket.size("a") == (11 << 20) + 4


def test_fork_while_threads_use_the_store_does_not_hang_the_child(store):
    store.put("a", bytes(1 << 20))
    stopped = threading.Event()

    def busy():
        while not stopped.is_set():
            store.get("a")
            with store.writer("b") as file:
                file.write(bytes(100_000))

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            assert in_child(lambda: len(store.get("a"))) == 1 << 20
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def test_fork_while_threads_use_a_local_directory_does_not_hang_the_child(tmp_path):
    store = tidegate.Store(tmp_path)
    stopped = threading.Event()

    def busy(number):
        while not stopped.is_set():
            store.put(f"{number}/a/b/c", b"1")

    threads = [threading.Thread(target=busy, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(20):
            assert in_child(lambda number=number: store.put(f"child/{number}", b"12").size) == 2
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def test_fork_while_threads_download_into_new_directories_does_not_hang_the_child(tmp_path):
    store = tidegate.Store(tmp_path / "store")
    store.put("a", bytes(1 << 20))
    stopped = threading.Event()

    def busy(number):
        count = 0
        while not stopped.is_set():
            store.download("a", tmp_path / str(number) / str(count) / "x" / "y" / "a")
            count += 1

    threads = [threading.Thread(target=busy, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(20):
            assert (
                in_child(lambda number=number: store.download("a", tmp_path / f"child{number}" / "a").size) == 1 << 20
            )
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def test_fork_of_a_fork(store):
    store.put("a", b"1")
    assert in_child(lambda: in_child(lambda: store.get("a"))) == b"1"


def test_fork_an_inherited_reader_continues_at_its_position(store):
    store.put("a", b"0123456789")
    reader = store.reader("a")
    assert reader.read(3) == b"012"
    assert in_child(lambda: (reader.tell(), reader.read())) == (3, b"3456789")
    assert reader.read() == b"3456789"


def test_fork_while_an_operation_waits_ends_only_in_the_parent(store):
    """A progress callback forks: the wait belongs to the parent."""
    children = []

    def fork(_):
        if not children:
            children.append(os.fork())
            if children[0] == 0:
                # The engine of the parent is inert here.
                os._exit(17 if store.tide.usage()["held"] == 0 else 18)

    store.put("a", bytes(1000), progress=fork)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 17


def get_in_process(store, key):
    return os.getpid(), store.get(key)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes(store, method, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["tests", str(tidegate.__path__[0]).rsplit("/", 1)[0]]))
    store.put("a", b"1")
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        results = pool.starmap_async(get_in_process, [(store, "a")] * 8).get(WAIT)
    assert {value for _, value in results} == {b"1"}
    assert os.getpid() not in {process for process, _ in results}


def write_and_leave(store):
    file = store.writer("a", part_size=5 << 20)
    file.write(bytes(11 << 20))
    write_and_leave.kept = file


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_of_multiprocessing_that_ends_discards_what_is_open(store, bucket, method, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["tests", str(tidegate.__path__[0]).rsplit("/", 1)[0]]))
    process = multiprocessing.get_context(method).Process(target=write_and_leave, args=(store,))
    process.start()
    process.join(WAIT)
    assert process.exitcode == 0
    bucket.assert_untouched("a")


def test_threads_share_one_engine_and_its_budget(bucket, options):
    def work(number):
        store = tidegate.Store(bucket.url().rstrip("/"), memory=16 << 20, **options)
        with store.writer(f"t/{number}") as file:
            for _ in range(10):
                file.write(bytes(300_000))
        assert len(store.get(f"t/{number}")) == 3_000_000
        return store.tide.usage()

    with ThreadPoolExecutor(16) as pool:
        usages = list(pool.map(work, range(32)))
    assert {usage["total"] for usage in usages} == {16 << 20}
    assert all(usage["peak"] <= 16 << 20 for usage in usages)
    assert len(bucket.keys("t/")) == 32


def test_threads_write_one_file_in_whole_writes(memory):
    with memory.writer("a") as file, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: file.write(bytes([number]) * 1000), range(64)))
    data = memory.get("a")
    pieces = [data[at : at + 1000] for at in range(0, len(data), 1000)]
    assert sorted(pieces) == [bytes([number]) * 1000 for number in range(64)]


def test_other_threads_run_while_one_waits(silent):
    """The server never answers; so what this thread does in between is done during the waits."""
    store = tidegate.Store(
        "s3://bucket", endpoint_url=f"http://127.0.0.1:{silent}", access_key="a", secret_key="b", attempts=1, patience=2
    )
    calls = [
        lambda: store.get("a"),
        lambda: store.put("a", bytes(1 << 20)),
        lambda: list(store.list()),
        lambda: store.put("a", b"1", progress=lambda _: None),
    ]
    with ThreadPoolExecutor(len(calls)) as pool:
        waits = [pool.submit(call) for call in calls]
        counted = 0
        while not any(wait.done() for wait in waits):
            counted += 1
            time.sleep(0.001)
        assert counted > 100
        for wait in waits:
            with pytest.raises(OSError):
                wait.result(WAIT)
