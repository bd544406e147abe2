"""Small things that programs expect of a package for files."""

import asyncio
import errno
import os
import pickle
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import pytest

import tidegate
import tidegate.aio
from harness.process import until


def test_a_store_opens_files_and_reads_and_writes_text(memory):
    with memory as store:
        store.write_text("a", "tide ü\n", content_type="text/x-demo")
        assert store.read_text("a") == "tide ü\n"
        assert store.head("a").content_type == "text/x-demo"
        with store.open("b", "w") as file:
            file.write("tide")
        with store.open("b") as file:
            assert file.read() == "tide"
        with store.open("b", "rb") as file:
            assert file.read() == b"tide"
        with pytest.raises(FileExistsError), store.open("b", "x") as file:
            file.write("again")
    assert store.get("b") == b"tide"


def test_a_store_of_asyncio_too(memory):
    async def main():
        async with tidegate.aio.Store(memory.url) as store:
            await store.write_text("a", "tide")
            assert await store.read_text("a") == "tide"
            async with store.writer("b") as file:
                await file.write(b"1")
            file = await store.writer("c")
            await file.close()
            async with store.reader("b") as reader:
                assert await reader.read() == b"1"

    asyncio.run(main())
    assert [entry.key for entry in memory.list()] == ["a", "b", "c"]


def test_the_version_is_that_of_the_library():
    manifest = (Path(__file__).parents[3] / "Cargo.toml").read_text()
    assert f'version = "{tidegate.__version__}"' in manifest


def test_urls_of_files(tmp_path, monkeypatch):
    path = tmp_path / "a b%ü.txt"
    path.write_text("tide")
    for url in (path.as_uri(), path.as_uri().replace("file://", "file://localhost")):
        assert tidegate.open(url).read() == "tide"
    with tidegate.open((tmp_path / "c d").as_uri(), "w") as file:
        file.write("written")
    assert (tmp_path / "c d").read_text() == "written"
    assert tidegate.Store(tmp_path.as_uri() + "/").get("c d") == b"written"
    for call in (tidegate.open, tidegate.Store):
        with pytest.raises(ValueError, match="'other' is not this machine"):
            call("file://other/tmp/a")


def written(file):
    with file:
        file.write(b"1")


async def read_async(store, key):
    async with store.reader(key) as reader:
        return await reader.read()


async def written_async(store, key):
    async with store.writer(key) as writer:
        await writer.write(b"1")


#: Calls that read the file `path`, whose key in the store `local` is `key`. `other` is a URL in memory.
READS = {
    "open": lambda path, key, local, other: tidegate.open(path),
    "get": lambda path, key, local, other: local.get(key),
    "get_range": lambda path, key, local, other: local.get_range(key, 0, 1),
    "get_ranges": lambda path, key, local, other: local.get_ranges(key, [(0, 1)]),
    "head": lambda path, key, local, other: local.head(key),
    "reader": lambda path, key, local, other: local.reader(key),
    "copy": lambda path, key, local, other: local.copy(key, "to"),
    "copy by URL": lambda path, key, local, other: tidegate.copy(path, other),
    "rename": lambda path, key, local, other: local.rename(key, "to"),
    "upload": lambda path, key, local, other: tidegate.upload(path, other),
    "download": lambda path, key, local, other: local.download(key, f"{path}.to"),
    "aio get": lambda path, key, local, other: asyncio.run(tidegate.aio.Store(local.url).get(key)),
    "aio reader": lambda path, key, local, other: asyncio.run(read_async(tidegate.aio.Store(local.url), key)),
    "aio upload": lambda path, key, local, other: asyncio.run(tidegate.aio.upload(path, other)),
}
#: Calls that write it.
WRITES = {
    "open": lambda path, key, local, other: written(tidegate.open(path, "wb")),
    "put": lambda path, key, local, other: local.put(key, b"1"),
    "writer": lambda path, key, local, other: written(local.writer(key)),
    "copy": lambda path, key, local, other: local.copy("file", key),
    "copy by URL": lambda path, key, local, other: tidegate.copy(other, path),
    "rename": lambda path, key, local, other: local.rename("file", key),
    "download": lambda path, key, local, other: tidegate.download(other, path),
    "aio put": lambda path, key, local, other: asyncio.run(tidegate.aio.Store(local.url).put(key, b"1")),
    "aio writer": lambda path, key, local, other: asyncio.run(written_async(tidegate.aio.Store(local.url), key)),
    "aio download": lambda path, key, local, other: asyncio.run(tidegate.aio.download(other, path)),
}


def errors(calls, kind, number, path, local, other):
    """The calls whose exception is not `kind` with the number."""
    wrong = {}
    for name, call in calls.items():
        try:
            wrong[name] = call(str(path), str(path.relative_to(local.url)), local, other)
        except Exception as error:
            again = pickle.loads(pickle.dumps(error))
            for each in (error, again):
                if not isinstance(each, kind) or each.errno != number or str(each) != str(error):
                    wrong[name] = repr(each)
            # Of a copy within the store, either of its files.
            if error.filename not in (str(path), f"{local.url}/file", f"{local.url}/to"):
                wrong[name] = error.filename
    return wrong


@pytest.fixture
def local(tmp_path):
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "directory").mkdir()
    return tidegate.Store(tmp_path)


def test_errors_of_local_files_are_those_of_python(memory, tmp_path, local):
    memory.put("there", b"1")
    source, target = f"{memory.url}/there", f"{memory.url}/target"
    directory, below = tmp_path / "directory", tmp_path / "file" / "below"
    assert errors(READS, FileNotFoundError, errno.ENOENT, tmp_path / "nothing", local, target) == {}
    assert errors(READS, IsADirectoryError, errno.EISDIR, directory, local, target) == {}
    assert errors(WRITES, IsADirectoryError, errno.EISDIR, directory, local, source) == {}
    assert errors(READS | WRITES, NotADirectoryError, errno.ENOTDIR, below, local, source) == {}
    with pytest.raises(FileNotFoundError):
        list(tidegate.Store(tmp_path / "nothing").list())
    with pytest.raises(NotADirectoryError):
        list(tidegate.Store(tmp_path / "file").list())
    with pytest.raises(IsADirectoryError):
        local.delete("directory")
    assert not memory.exists("target")
    assert [entry.key for entry in local.list()] == ["file"]


@pytest.fixture
def unprivileged():
    """The rights of a user who is not root, to whom nothing is forbidden."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_is_forbidden_is_a_permission_error(memory, unprivileged):
    memory.put("there", b"1")
    source, target = f"{memory.url}/there", f"{memory.url}/target"
    # The folders of pytest belong to the user who has started it.
    with tempfile.TemporaryDirectory() as name:
        folder, local = Path(name), tidegate.Store(name)
        (folder / "file").touch(0)
        (folder / "directory").mkdir(0)
        reads = {name: call for name, call in READS.items() if name not in ("head", "rename")}
        assert errors(reads, PermissionError, errno.EACCES, folder / "file", local, target) == {}
        inside = folder / "directory" / "inside"
        assert errors(READS | WRITES, PermissionError, errno.EACCES, inside, local, source) == {}
        with pytest.raises(PermissionError):
            list(tidegate.Store(folder / "directory").list())


@pytest.mark.parametrize("mode", ["r", "rb", "w", "wb", "xb"])
def test_a_directory_is_no_file(tmp_path, mode):
    with pytest.raises(IsADirectoryError):
        tidegate.open(tmp_path, mode)


CALLS = {
    "open to read": lambda url: tidegate.open(url, endpont_url="http://127.0.0.1"),
    "open to write": lambda url: tidegate.open(url, "wb", endpont_url="http://127.0.0.1"),
    "put": lambda url: tidegate.Store(url).put("a", b"1", endpont_url="http://127.0.0.1"),
    "store": lambda url: tidegate.Store(url, endpont_url="http://127.0.0.1"),
    "upload": lambda url: tidegate.upload(__file__, url, endpont_url="http://127.0.0.1"),
    "download": lambda url: tidegate.download(url, "nothing", endpont_url="http://127.0.0.1"),
    "copy": lambda url: tidegate.copy(url, url, endpont_url="http://127.0.0.1"),
    "engine": lambda url: tidegate.Tidegate(endpont_url="http://127.0.0.1"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_misspelt_option_is_named(memory, call):
    memory.put("a", b"1")
    with pytest.raises(TypeError, match="no option ['\"]endpont_url['\"]"):
        call(f"{memory.url}/a")


def test_a_position_is_a_whole_number(memory):
    memory.put("a", b"123")
    reader = memory.reader("a")
    with pytest.raises(TypeError):
        reader.seek(1.5)
    assert reader.read() == b"123"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: tidegate.trees.copy("a", "b/", delete=True), "delete"),
        (lambda: tidegate.trees.copy("a", "b/", move=True), "move"),
        (lambda: tidegate.trees.check("a", "b", delete=True), "delete"),
        (lambda: tidegate.trees.remove("a", preserve=True), "preserve"),
        (lambda: tidegate.trees.sync("a", "b", recursive=True), "recursive"),
        (lambda: tidegate.sync("a", "b", if_exists="skip"), "if_exists"),
        (lambda: tidegate.trees.sync("a", "b", max_delete=1), "max_delete"),
        (lambda: tidegate.trees.sync("a", "b", delete_all=True, delete=False), "delete_all"),
    ],
)
def test_an_option_of_another_operation_on_trees_is_refused(call, name):
    with pytest.raises((TypeError, ValueError), match=repr(name)):
        call()


def test_sync_takes_the_options_of_both_stores(bucket, options, tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    url = bucket.url("t").rstrip("/")
    assert tidegate.sync(tmp_path, url, target_options=options).copied == 1
    assert tidegate.sync(url, f"{url}2", source_options=options, target_options=options).copied == 1
    assert len(bucket.keys()) == 2


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)", "sys.exit(0)", "raise KeyError"])
def test_the_embedded_server_ends_with_its_program(program, end):
    running = program(
        f"""
        import os, sys, tidegate.dev
        server = tidegate.dev.serve()
        if os.fork() == 0:
            # A child that goes on is not the program.
            sys.stdin.read()
            os._exit(0)
        print(server.url, flush=True)
        {end}
        """,
        TIDEGATE_BIN=os.environ["TIDEGATE_BIN"],
    )
    url = running.line()

    def is_gone():
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return False
        except OSError:
            return True
        return False

    until("the server is gone", is_gone)


def test_types_fit_without_a_cast(tmp_path):
    (tmp_path / "program.py").write_text(
        """
from typing import BinaryIO
import tidegate

def copy(source: BinaryIO, target: BinaryIO) -> None:
    target.write(source.read())

store = tidegate.Store("memory://types")
copy(store.reader("a"), store.writer("b"))
total = 0
for entry in store.list():
    total += entry.size or 0
    print(entry.key.upper(), entry.etag, entry.modified)
"""
    )
    env = {**os.environ, "MYPYPATH": str(Path(tidegate.__file__).parents[1])}
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "program.py"]
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
