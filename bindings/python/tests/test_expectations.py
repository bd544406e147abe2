"""Small things that programs expect of a package for files."""

import asyncio
import os
import subprocess
import sys
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


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_errors_of_local_files_are_those_of_python(memory, tmp_path, face):
    if face == "blocking":
        upload, download = tidegate.upload, tidegate.download
    else:

        def upload(*given):
            return asyncio.run(tidegate.aio.upload(*given))

        def download(*given):
            return asyncio.run(tidegate.aio.download(*given))

    memory.put("a", b"1")
    with pytest.raises(FileNotFoundError) as caught:
        upload(tmp_path / "nothing", f"{memory.url}/b")
    assert caught.value.filename == str(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        upload(tmp_path, f"{memory.url}/b")
    with pytest.raises(IsADirectoryError):
        download(f"{memory.url}/a", tmp_path)
    assert not memory.exists("b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_a_permission_error(memory, tmp_path):
    (tmp_path / "a").touch(0)
    with pytest.raises(PermissionError):
        tidegate.upload(tmp_path / "a", f"{memory.url}/b")


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
