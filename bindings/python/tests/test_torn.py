"""Torn files: what is in the store after an exception, after a file was dropped, and after an exit."""

import contextlib
import gc
import io
import logging
import queue
import secrets
import sys
import weakref

import pytest

import tidegate
from wrappers import WRAPPERS

# Finalizers of wrappers write into files that were discarded before. Python says so on the standard error: from 3.13 on of
# all wrappers, before of those that are written in Python.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

every_wrapper = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)

# These streams of Arrow close the file below them when their C++ objects are destroyed. Where that happens while a
# function returns, or calls the collector, nothing tells the file that this is no call. The README says so.
CLOSED_BY_DESTRUCTORS = ["arrow_compressed", "arrow_buffered"]
PYTHON_WRAPPERS = {name: wrap for name, wrap in WRAPPERS.items() if name not in CLOSED_BY_DESTRUCTORS}
every_python_wrapper = pytest.mark.parametrize("wrap", PYTHON_WRAPPERS.values(), ids=PYTHON_WRAPPERS)


class Trouble(Exception):
    pass


def wrote(store, key):
    """What is visible under the key, by a store that nobody has written through."""
    return store.get(key) if store.exists(key) else None


def close_all(layers):
    for layer in layers:
        layer.close()


class Pipe(io.RawIOBase):
    """A file of this machine that can be written to, and cannot seek."""

    def __init__(self, name):
        self.name = name  # gzip puts it into its header
        self.written = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.written += data
        return len(data)


@every_wrapper
def test_a_file_that_is_closed_well_is_published(memory, wrap):
    with memory.writer("a") as file:
        close_all(wrap(file))
    pipe = Pipe(file.name)
    close_all(wrap(pipe))
    # Some formats have the time in them.
    assert len(memory.get("a")) == len(pipe.written) > 0
    assert file.object == memory.head("a")


@every_wrapper
def test_an_exception_in_a_with_block_publishes_nothing(memory, wrap):
    with pytest.raises(Trouble), memory.writer("a") as file:
        layers = wrap(file)
        raise Trouble
    assert wrote(memory, "a") is None
    assert file.closed
    # Closing what is around it changes nothing, whatever it says.
    for layer in layers:
        try:
            layer.close()
        except (ValueError, OSError):
            pass
    assert wrote(memory, "a") is None


@every_wrapper
def test_an_exception_in_nested_with_blocks_publishes_nothing(memory, wrap):
    """The wrapper is closed, and writes its end, before the file's own block ends."""
    with pytest.raises(Trouble), memory.writer("a") as file:
        layers = wrap(file)
        try:
            raise Trouble
        finally:
            close_all(layers)
    assert wrote(memory, "a") is None


@every_wrapper
def test_close_in_finally_publishes_nothing_after_an_exception(memory, wrap):
    file = memory.writer("a")
    with pytest.raises(Trouble):
        try:
            layers = wrap(file)
            raise Trouble
        finally:
            close_all(layers)
            file.close()
    assert wrote(memory, "a") is None
    assert file.object is None


@every_python_wrapper
def test_a_file_that_is_dropped_is_not_published(memory, wrap):
    def write():
        layers = wrap(memory.writer("a"))
        return len(layers)

    write()
    gc.collect()
    assert wrote(memory, "a") is None


@every_python_wrapper
def test_a_file_that_is_dropped_in_a_cycle_is_not_published(memory, wrap):
    def write():
        file = memory.writer("a")
        cycle = [file, wrap(file)]
        cycle.append(cycle)

    write()
    gc.collect()
    assert wrote(memory, "a") is None


@every_wrapper
def test_a_file_that_is_dropped_by_an_exception_is_not_published(memory, wrap):
    def write():
        kept = wrap(memory.writer("a"))
        raise Trouble(len(kept))

    with pytest.raises(Trouble):
        write()
    gc.collect()
    assert wrote(memory, "a") is None


@every_wrapper
def test_a_file_that_is_dropped_after_its_exception_was_handled_is_not_published(memory, wrap):
    def write():
        kept = wrap(memory.writer("a"))
        raise Trouble(len(kept))

    def handle():
        try:
            write()
        except Trouble:
            pass
        try:
            write()
        except Trouble as error:
            kept = error
        kept = None
        return kept

    handle()
    assert wrote(memory, "a") is None


@pytest.mark.parametrize("name", ["plain", "text", "gzip_file", "parquet_writer", *CLOSED_BY_DESTRUCTORS])
@pytest.mark.parametrize("statement", ["del layers, file", "layers = file = None", "kept.clear()", "del kept['all']"])
def test_a_file_that_is_let_go_of_is_not_published(memory, name, statement):
    names = {"memory": memory, "wrap": WRAPPERS[name]}
    exec(
        "file = memory.writer('a')\n"
        "layers = wrap(file)\n"
        "kept = {'all': (file, layers)}\n"
        + ("del file, layers\n" if "kept" in statement else "del kept\n")
        + statement,
        names,
    )
    gc.collect()
    if name in CLOSED_BY_DESTRUCTORS and "clear" in statement:
        pytest.skip("a call that drops looks like a call that closes")
    assert wrote(memory, "a") is None


@pytest.mark.parametrize("ends", ["block", "close"])
def test_a_handler_of_records_that_fails_replaces_no_exception(memory, monkeypatch, ends):
    def fail(record):
        raise RuntimeError("the handler has failed")

    handler = logging.Handler()
    handler.emit = fail
    monkeypatch.setattr(logging.getLogger("tidegate"), "handlers", [handler])
    file = memory.writer("a")
    with pytest.warns(tidegate.NotPublishedWarning) if ends == "close" else contextlib.nullcontext():
        with pytest.raises(Trouble):
            if ends == "block":
                with file:
                    raise Trouble
            try:
                raise Trouble
            finally:
                file.close()
    assert wrote(memory, "a") is None


def test_files_that_are_open_at_the_exit_are_not_published(program, bucket):
    running = program(
        """
        import sys
        sys.path.insert(0, TESTS)
        import os, tidegate
        from wrappers import WRAPPERS
        store = tidegate.Store(os.environ["BUCKET"], concurrency=2)
        kept = []
        for name, wrap in WRAPPERS.items():
            file = store.writer(name)
            kept.append((file, wrap(file)))
        print(len(kept))
        """.replace("TESTS", repr(str(__file__).rsplit("/", 1)[0]))
    )
    assert int(running.succeeds(60)) == len(WRAPPERS)
    assert bucket.keys() == []
    assert bucket.sessions("large") == []


@pytest.mark.parametrize("end", ["sys.exit(3)", "raise KeyError", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_no_end_of_a_process_publishes(program, bucket, end):
    running = program(
        f"""
        import os, sys, tidegate
        with tidegate.open(os.environ["BUCKET"] + "/a", "wb") as file:
            file.write(bytes(20 << 20))
            text = tidegate.open(os.environ["BUCKET"] + "/b", "w")
            text.write("tide")
            {end}
        """
    )
    code, _, _ = running.ended()
    assert code != 0
    assert bucket.keys() == []


def test_a_generator_that_is_dropped_publishes_nothing(memory):
    def rows():
        with memory.writer("a") as file:
            while True:
                file.write(b"row")
                yield

    generator = rows()
    next(generator)
    del generator
    gc.collect()
    assert wrote(memory, "a") is None


# What is no accident.


def test_an_exception_that_was_handled_within_the_block_does_not_discard(memory):
    with memory.writer("a") as file:
        try:
            raise Trouble
        except Trouble:
            file.write(b"handled")
    assert memory.get("a") == b"handled"


def test_an_exception_that_was_handled_before_close_does_not_discard(memory):
    file = memory.writer("a")
    try:
        raise Trouble
    except Trouble:
        pass
    file.close()
    assert memory.exists("a")


def test_a_file_that_is_opened_in_an_except_block_is_published_there(memory):
    try:
        raise Trouble
    except Trouble:
        file = memory.writer("closed")
        file.write(b"1")
        file.close()
        with memory.writer("with") as file:
            file.write(b"2")
        with tidegate.open(f"{memory.url}/text", "w") as text:
            text.write("3")
    assert [entry.key for entry in memory.list()] == ["closed", "text", "with"]


def test_a_file_that_is_opened_in_nested_except_blocks_is_published_in_the_outer_one(memory):
    try:
        raise Trouble
    except Trouble:
        try:
            raise KeyError
        except KeyError:
            file = memory.writer("a")
        file.close()
    assert memory.exists("a")


def test_a_second_exception_discards_a_file_that_was_opened_in_an_except_block(memory):
    file = None
    with pytest.raises(KeyError):
        try:
            raise Trouble
        except Trouble:
            file = memory.writer("a")
            try:
                raise KeyError
            finally:
                file.close()
    assert wrote(memory, "a") is None


def test_a_block_that_is_entered_in_an_except_block_publishes_there(memory):
    file = memory.writer("a")
    try:
        raise Trouble
    except Trouble:
        with file:
            file.write(b"1")
    assert memory.get("a") == b"1"


def test_a_finalizer_may_write_a_file_of_its_own(memory):
    class Keeper:
        def __del__(self):
            with memory.writer("a") as file:
                file.write(b"last words")

    keeper = Keeper()
    del keeper
    gc.collect()
    assert memory.get("a") == b"last words"


def test_a_file_that_was_opened_before_is_discarded_by_a_finalizer(memory):
    class Keeper:
        def __init__(self):
            self.file = memory.writer("a")
            self.file.write(b"half")

        def __del__(self):
            self.file.close()

    keeper = Keeper()
    del keeper
    gc.collect()
    assert wrote(memory, "a") is None


# Close, discard and failures.


def test_discard_publishes_nothing_and_leaves_no_session(store, bucket):
    file = store.writer("a", part_size=5 << 20)
    file.write(bytes(12 << 20))
    file.discard()
    bucket.assert_untouched("a")
    file.discard()
    file.close()
    bucket.assert_untouched("a")
    with pytest.raises(tidegate.ClosedError):
        file.write(b"more")


def test_a_discarded_with_block_leaves_no_session(store, bucket):
    with pytest.raises(Trouble), store.writer("a", part_size=5 << 20) as file:
        file.write(bytes(12 << 20))
        raise Trouble
    assert store.tide.settled() == []
    bucket.assert_untouched("a")


def test_close_twice_is_close_once(memory):
    file = memory.writer("a")
    file.write(b"1")
    file.close()
    file.close()
    with pytest.raises(ValueError, match="published"):
        file.write(b"2")
    assert memory.get("a") == b"1"


def test_a_write_of_no_bytes_leaves_the_file_as_it_is(memory):
    with memory.writer("a") as file:
        file.write(b"1")
        with pytest.raises(TypeError, match="bytes-like"):
            file.write("text")
        file.write(b"2")
    assert memory.get("a") == b"12"


@pytest.mark.parametrize("face", ["binary", "text", "buffered"])
def test_close_after_a_failed_write_raises_and_publishes_nothing(memory, face):
    raw = memory.writer("a", exact_size=5)
    file = raw
    if face == "text":
        file = io.TextIOWrapper(raw, write_through=True)
    elif face == "buffered":
        file = io.BufferedWriter(raw, 1)
    data = "too much" if face == "text" else b"too much"
    with pytest.raises(OSError):
        file.write(data)
        file.flush()
    with pytest.raises((ValueError, OSError)):
        file.close()
    assert wrote(memory, "a") is None
    assert raw.closed
    raw.close()


def test_a_close_that_fails_publishes_nothing(memory):
    memory.put("a", b"first")
    file = memory.writer("a", create_only=True)
    file.write(b"second")
    with pytest.raises(FileExistsError):
        file.close()
    assert file.closed and file.object is None
    file.close()
    assert memory.get("a") == b"first"


def test_the_exception_of_a_block_is_not_hidden_by_a_failed_write(memory):
    with pytest.raises(tidegate.SourceError), memory.writer("a", exact_size=1) as file:
        file.write(b"12")
    assert wrote(memory, "a") is None


def test_nothing_keeps_a_file_alive_but_its_owner(memory):
    """Also not the exception that was handled when it was opened."""
    try:
        raise Trouble
    except Trouble:
        file = memory.writer(secrets.token_hex(4))
    assert sys.getrefcount(file) == 2
    file.discard()


# An exception that was being handled when the file was opened.


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_an_old_exception_that_ends_a_block_publishes_nothing(memory, mode):
    with pytest.raises(Trouble):
        try:
            raise Trouble
        except Trouble:
            with tidegate.open(f"{memory.url}/a", mode) as file:
                file.write("half" if mode == "w" else b"half")
                raise
    assert file.closed
    assert wrote(memory, "a") is None


@every_wrapper
def test_an_old_exception_that_ends_the_block_of_a_wrapper_publishes_nothing(memory, wrap):
    @contextlib.contextmanager
    def wrapped(file):
        layers = wrap(file)
        try:
            yield
        finally:
            close_all(layers)
            file.close()

    with pytest.raises(Trouble):
        try:
            raise Trouble
        except Trouble:
            with wrapped(memory.writer("a")):
                raise
    assert wrote(memory, "a") is None


def test_an_old_exception_that_ends_an_exit_stack_publishes_nothing(memory):
    with pytest.raises(Trouble):
        try:
            raise Trouble
        except Trouble:
            with contextlib.ExitStack() as stack:
                file = memory.writer("a")
                stack.callback(file.close)
                raise
    assert wrote(memory, "a") is None


def test_a_file_that_is_opened_while_a_block_fails_is_published(memory):
    class Log:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            with tidegate.open(f"{memory.url}/log", "w") as file:
                file.write("failed")
            file = memory.writer("closed")
            file.close()

    with pytest.raises(Trouble), Log():
        raise Trouble
    assert memory.get("log") == b"failed"
    assert memory.exists("closed")


def test_a_text_block_that_is_entered_in_an_except_block_publishes_there(memory):
    file = tidegate.open(f"{memory.url}/a", "w")
    try:
        raise Trouble
    except Trouble:
        with file:
            file.write("1")
    assert memory.get("a") == b"1"


def test_publish_does_not_ask_for_exceptions(memory):
    file = memory.writer("a")
    text = tidegate.open(f"{memory.url}/text", "w")
    try:
        queue.SimpleQueue().get_nowait()
    except queue.Empty:
        file.write(b"1")
        file.publish()
        text.write("2")
        text.flush()
        text.buffer.publish()
    file.publish()
    assert (memory.get("a"), memory.get("text")) == (b"1", b"2")
    file = memory.writer("b", exact_size=1)
    with pytest.raises(tidegate.SourceError):
        file.write(b"12")
    with pytest.raises(tidegate.ClosedError, match="failed before"):
        file.publish()
    assert wrote(memory, "b") is None


def test_an_ended_file_does_not_keep_the_exception_of_its_opening(memory):
    try:
        raise Trouble
    except Trouble as error:
        kept = weakref.ref(error)
        file = memory.writer("a")
        file.close()
    assert kept() is None


class Interrupted:
    """A native writer whose call is interrupted before it begins."""

    def __init__(self, native, call):
        self._native, self._call = native, call

    def __getattr__(self, name):
        if name == self._call:
            raise KeyboardInterrupt
        return getattr(self._native, name)


@pytest.mark.parametrize(("end", "call"), [("close", "finish"), ("discard", "abort")])
def test_an_interruption_before_the_end_leaves_no_session(store, bucket, end, call):
    file = store.writer("a", part_size=5 << 20)
    file.write(bytes(12 << 20))
    file._native = Interrupted(file._native, call)
    with pytest.raises(KeyboardInterrupt):
        getattr(file, end)()
    assert file.closed
    assert store.tide.settled() == []
    bucket.assert_untouched("a")


def test_the_last_call_of_progress_does_not_hide_that_the_object_is_published(memory):
    def progress(figures):
        raise Trouble

    file = memory.writer("a", progress=progress)
    file.write(b"1")
    with pytest.raises(Trouble):
        file.close()
    assert memory.get("a") == b"1"
    assert file.object == memory.head("a")
    assert "published" in repr(file)


def test_an_exception_of_progress_fails_a_write(memory):
    calls = []

    def progress(figures):
        calls.append(figures)
        raise Trouble

    file = memory.writer("a", progress=progress)
    with pytest.raises(Trouble):
        while True:
            file.write(b"1")
    assert calls[0].accepted > 0
    with pytest.raises(tidegate.ClosedError, match="failed before"):
        file.close()
    assert wrote(memory, "a") is None


def test_an_exception_of_progress_frees_the_memory_at_once(silent):
    store = tidegate.Store(
        "s3://bucket", endpoint_url=f"http://127.0.0.1:{silent}", access_key="a", secret_key="b", memory=16 << 20
    )

    def progress(figures):
        raise Trouble

    with pytest.raises(Trouble) as caught:
        store.put("a", bytes(1 << 20), progress=progress)
    assert store.tide.settled() == []
    assert store.tide.usage()["held"] == 0, caught
