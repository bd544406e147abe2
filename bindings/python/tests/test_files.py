"""Objects as files."""

import array
import asyncio
import io
import os
import random

import pandas
import pyarrow.parquet
import pytest

import tidegate
import tidegate.aio
from harness.s3 import Bucket
from harness.servers import Embedded
from reach import reached_by


@pytest.fixture
def url(memory):
    return memory.url


@pytest.fixture
def asked(embedded):
    """How many requests of a kind the embedded server was asked since the last call."""
    seen = {}

    def count(kind):
        counts = embedded.control("GET", "counts")
        now = sum(number for name, number in flat(counts) if name.rsplit(".", 1)[-1] == kind or name == kind)
        fresh = now - seen.get(kind, 0)
        seen[kind] = now
        return fresh

    return count


def flat(counts, prefix=""):
    for name, value in counts.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        elif isinstance(value, int):
            yield f"{prefix}{name}", value


def test_binary_modes(url):
    with tidegate.open(f"{url}/a", "wb") as file:
        assert (file.readable(), file.writable(), file.seekable(), file.closed) == (False, True, False, False)
        assert file.name == f"{url}/a" and file.mode == "wb"
        assert file.write(b"0123456789") == 10
        assert file.tell() == 10
        file.flush()
        assert not tidegate.Store(url).exists("a")
    assert file.closed and file.object.size == 10
    with tidegate.open(f"{url}/a", "rb") as file:
        assert isinstance(file, io.BufferedReader)
        assert (file.readable(), file.writable(), file.seekable()) == (True, False, True)
        assert file.read(3) == b"012"
        assert file.seek(-2, os.SEEK_END) == 8
        assert file.read() == b"89"
        assert file.read() == b""
        assert file.raw.size == 10
        assert file.raw.object.size == 10


def test_an_unbuffered_file(url):
    tidegate.Store(url).put("a", b"0123456789")
    with tidegate.open(f"{url}/a", "rb", buffering=0) as file:
        assert isinstance(file, io.RawIOBase) and isinstance(file, tidegate.Reader)
        buffer = bytearray(4)
        assert file.readinto(buffer) == 4 and buffer == b"0123"
        assert file.readall() == b"456789"
        assert file.readinto(buffer) == 0
        with pytest.raises(TypeError, match="read-only"):
            file.readinto(b"read-only")
        with pytest.raises(BufferError, match="together"):
            file.readinto(memoryview(bytearray(8))[::2])
        # Items of any type, as for every file of Python.
        numbers = array.array("i", [0, 0])
        file.seek(0)
        assert file.readinto(numbers) == 8 and numbers.tobytes() == b"01234567"
        with pytest.raises(ValueError):
            file.seek(-1)
    for call in (file.read, file.tell, lambda: file.seek(0), lambda: file.readinto(buffer)):
        with pytest.raises(ValueError):
            call()


def test_exclusive_creation(url):
    with tidegate.open(f"{url}/a", "xb") as file:
        file.write(b"1")
    second = tidegate.open(f"{url}/a", "xb")
    second.write(b"2")
    with pytest.raises(FileExistsError) as caught:
        second.close()
    assert caught.value.filename == f"{url}/a"
    assert tidegate.Store(url).get("a") == b"1"
    with pytest.raises(FileExistsError), tidegate.open(f"{url}/a", "x") as text:
        text.write("3")


def test_text(url):
    with tidegate.open(f"{url}/a.txt", "w", newline="") as file:
        assert file.mode == "w"
        file.write("hällo\r\nwörld\n")
    assert tidegate.Store(url).get("a.txt") == "hällo\r\nwörld\n".encode()
    with tidegate.open(f"{url}/a.txt") as file:
        assert list(file) == ["hällo\n", "wörld\n"]
    with tidegate.open(f"{url}/b.txt", "w", encoding="latin-1") as file:
        print("hällo", file=file)
    assert tidegate.Store(url).get("b.txt") == "hällo\n".encode("latin-1")
    with pytest.raises(UnicodeDecodeError):
        tidegate.open(f"{url}/b.txt", "r").read()
    assert tidegate.open(f"{url}/b.txt", "r", errors="replace").read() == "h\ufffdllo\n"


@pytest.mark.parametrize("mode", ["a", "r+", "w+b", "rw", "", "q", "rbt", "bb"])
def test_modes_that_no_object_has(url, mode):
    with pytest.raises(ValueError):
        tidegate.open(f"{url}/a", mode)


def test_arguments_that_do_not_fit_the_mode(url):
    with pytest.raises(ValueError, match="binary mode"):
        tidegate.open(f"{url}/a", "rb", encoding="utf-8")
    with pytest.raises(ValueError, match="buffer"):
        tidegate.open(f"{url}/a", "r", buffering=0)
    with pytest.raises(TypeError, match="writing"):
        tidegate.open(f"{url}/a", "rb", create_only=True)
    with pytest.raises(TypeError, match="no option"):
        tidegate.open(f"{url}/a", "wb", nonsense=True)
    with pytest.raises(ValueError, match="key is missing"):
        tidegate.open(url, "rb")
    with pytest.raises(FileNotFoundError):
        tidegate.open(f"{url}/missing", "rb")


def test_local_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ["a.txt", "sub/a.txt", str(tmp_path / "b.txt"), f"file://{tmp_path}/c.txt"]:
        with tidegate.open(name, "w") as file:
            file.write(name)
        assert tidegate.open(name).read() == name
    assert (tmp_path / "sub" / "a.txt").read_text() == "sub/a.txt"
    with pytest.raises(IsADirectoryError):
        tidegate.open("sub/", "w")


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_a_relative_path_is_below_the_directory_of_the_call(tmp_path, monkeypatch, memory, face):
    def copy(url, path):
        if face == "blocking":
            tidegate.copy(url, path)
        else:
            asyncio.run(tidegate.aio.copy(url, path))

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        memory.put("a", name.encode())
        copy(f"{memory.url}/a", "a")
    assert [(tmp_path / name / "a").read_text() for name in ("one", "two")] == ["one", "two"]


def test_options_of_store_and_write_by_url(bucket, options):
    with tidegate.open(bucket.url("a"), "wb", content_type="text/x", metadata={"a": "b"}, **options) as file:
        file.write(b"1")
    assert bucket.head("a")["ContentType"] == "text/x"
    tide = tidegate.Tidegate(memory=20 << 20)
    assert tidegate.open(bucket.url("a"), "rb", tide=tide, **options).read() == b"1"


def test_reads_at_random_return_the_right_bytes(store):
    data = os.urandom(5 << 20)
    store.put("a", data)
    dice = random.Random(7)
    for buffering in (0, 1 << 16, 1000):
        with tidegate.open(f"{store.url}/a", "rb", buffering, **dict(store._options)) as file:
            for _ in range(60):
                at = dice.randrange(len(data))
                length = dice.choice([1, 100, 70_000])
                if dice.random() < 0.6:
                    file.seek(at)
                else:
                    at = file.tell()
                assert file.read(length) == data[at : at + length]
    reader = store.reader("a", random=True)
    reader.seek(100)
    assert reader.read(100) == data[100:200]
    part = store.reader("a", range=(1000, 2000))
    assert part.size == 1000
    part.seek(10)
    assert part.read(5) == data[1010:1015]
    assert part.read() == data[1015:2000]


def test_random_reads_ask_for_just_their_bytes(store, embedded):
    store.put("a", bytes(20 << 20))
    object = store.head("a")
    reader = store.reader("a", if_unchanged=object, random=True)
    before = store.tide.progress()
    for number in range(10):
        reader.seek(number * (1 << 20))
        assert len(reader.read(64 << 10)) == 64 << 10
    after = store.tide.progress()
    assert after.requests - before.requests == 10
    assert after.acknowledged - before.acknowledged == 10 * (64 << 10)


def test_a_small_object_is_read_by_one_request(store):
    store.put("a", bytes(1000))
    before = store.tide.progress().requests
    assert len(tidegate.open(f"{store.url}/a", "rb", **dict(store._options)).read()) == 1000
    assert store.get("a") == bytes(1000)
    assert store.tide.progress().requests - before == 2


def test_a_reader_keeps_to_the_object_that_it_opened(store):
    store.put("a", b"1" * (9 << 20))
    reader = store.reader("a", random=True)
    assert reader.read(2) == b"11"
    store.put("a", b"2" * (9 << 20))
    with pytest.raises(tidegate.ReplacedError):
        reader.seek(4 << 20)
        reader.read(2)


def test_lines_of_a_large_text(store):
    lines = [f"{number}: tide\n" for number in range(200_000)]
    with tidegate.open(f"{store.url}/a", "w", **dict(store._options)) as file:
        file.writelines(lines)
    with tidegate.open(f"{store.url}/a", **dict(store._options)) as file:
        assert all(line == expected for line, expected in zip(file, lines, strict=True))


def test_parquet_through_pyarrow_and_pandas(store):
    frame = pandas.DataFrame({"number": range(100_000), "word": ["tide"] * 100_000})
    with tidegate.open(f"{store.url}/a.parquet", "wb", **dict(store._options)) as file:
        frame.to_parquet(file)
    with tidegate.open(f"{store.url}/a.parquet", "rb", **dict(store._options)) as file:
        assert pandas.read_parquet(file).equals(frame)
    table = pyarrow.parquet.read_table(store.reader("a.parquet", random=True), columns=["number"])
    assert table.num_rows == 100_000


def test_a_writer_that_is_no_file_of_python(memory):
    with memory.writer("a") as file:
        for call in (file.read, file.readline, file.truncate, file.detach, lambda: file.seek(0), file.fileno):
            with pytest.raises((io.UnsupportedOperation, OSError)):
                call()
        file.writelines([b"1", b"2"])
    assert memory.get("a") == b"12"


def test_an_option_that_does_not_exist_is_not_one_of_writing(url):
    with pytest.raises(TypeError, match="there is no option 'part_sise'"):
        tidegate.open(f"{url}/a", "rb", part_sise=5)
    with pytest.raises(TypeError, match="'part_size' is one of writing"):
        tidegate.open(f"{url}/a", "rb", part_size=5)


@pytest.mark.parametrize(
    "view", [bytearray, lambda data: memoryview(bytearray(data)), lambda data: array.array("Q", data)]
)
def test_a_large_buffer_may_change_after_a_write_has_returned(url, view):
    whole = random.Random(7).randbytes(5 << 20)
    with tidegate.open(f"{url}/a", "wb") as file:
        for at in range(0, len(whole), 1 << 20):
            piece = view(whole[at : at + (1 << 20)])
            assert file.write(piece) == 1 << 20
            memoryview(piece).cast("B")[:] = bytes(1 << 20)
    assert tidegate.Store(url).get("a") == whole


def test_damaged_bytes_are_not_read_and_a_later_read_asks_again(tmp_path):
    server = Embedded(tmp_path)
    bucket = Bucket(server.endpoint)
    try:
        store = tidegate.Store(bucket.url(), **reached_by(server.endpoint))
        whole = bytes(range(256)) * 4096
        store.put("a", whole)
        few = store.put("few", b"0123456789")
        # The store damages one byte of every answer, also when Tidegate retries.
        damage = {"operation": "GetObject", "action": {"corrupt_response": {"at": len(whole) - 1}}}
        server.control("PUT", "knobs", {"faults": [damage]})
        reader = store.reader("a")
        for _ in range(2):
            reader.seek(0)
            with pytest.raises(tidegate.IntegrityError):
                reader.read()
        reader.seek(0)
        buffer, at = bytearray(len(whole)), 0
        with pytest.raises(tidegate.IntegrityError):
            while count := reader.readinto(memoryview(buffer)[at:]):
                at += count
        assert buffer[:at] == whole[:at] and at < len(whole)
        damage["action"]["corrupt_response"]["at"] = 3
        server.control("PUT", "knobs", {"faults": [damage]})
        for described in (None, few):
            with pytest.raises(tidegate.IntegrityError):
                store.get("few", if_unchanged=described)
        server.control("PUT", "knobs", {})
        assert store.get("few", if_unchanged=few) == b"0123456789"
        reader.seek(0)
        assert reader.read() == whole
    finally:
        Bucket.made.remove(bucket)  # its server ends here
        server.stop()


def test_a_server_that_nobody_stops_ends_with_the_program(program):
    running = program(
        """
        import os, tidegate.dev
        server = tidegate.dev.serve()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        server.store("demo").put("a", b"1")
        print(server._process.pid)
        """,
        TIDEGATE_BIN=os.environ["TIDEGATE_BIN"],
    )
    process = int(running.line())
    running.succeeds()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
