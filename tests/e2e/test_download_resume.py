"""Downloads into files that are cut: nothing half-done has the file's name, and the next call goes on."""

import hashlib
import os
import signal

import pytest

from harness import MIB
from harness.process import until
from harness.s3 import Bucket
from said import one_sentence

SIZE = 64 * MIB + 7
QUIET = ("--progress", "never")
TWO = ("--concurrency", "2")


@pytest.fixture(params=["minio", "embedded"])
def slow_bucket(request, proxy_to):
    """A bucket, and the environment that reaches it at 4 MB/s a connection."""
    server = request.getfixturevalue(request.param)
    proxy = proxy_to(server.address)
    proxy.bandwidth(4_000_000, "downstream")
    return Bucket(server.endpoint), server.endpoint.at(proxy.url).env


def noted(folder):
    """How many chunks the file that is being downloaded tells of, by the specified format: entries of 16 bytes behind
    the object and its description."""
    for left in folder.glob(".tidegate-*.part"):
        content = left.read_bytes()
        if content[SIZE : SIZE + 8] != b"TIDEGET1":
            return 0
        entries = SIZE + 20 + int.from_bytes(content[SIZE + 8 : SIZE + 12], "little")
        chunks = -(-SIZE // (8 * MIB))
        return sum(any(content[entries + 16 * at : entries + 16 * at + 16]) for at in range(chunks))
    return 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_it_goes_on_where_it_was_cut(tidegate, slow_bucket, make_file, tmp_path, how):
    bucket, slow = slow_bucket
    path, digest = make_file(SIZE)
    bucket.put("k", path.read_bytes())
    folder = tmp_path / "to"
    folder.mkdir()
    run = tidegate.start("cp", bucket.url("k"), folder / "out", *QUIET, *TWO, env=slow)
    until("chunks are there", lambda: noted(folder) >= 2, 60)
    assert not run.ended
    os.kill(run.pid, how)
    result = run.wait(20)
    if how == signal.SIGINT:
        one_sentence(result, "interrupted", "goes on", exit=130)
    assert [name.endswith("-out.part") for name in os.listdir(folder)] == [True]
    there = noted(folder)

    again = tidegate("cp", bucket.url("k"), folder / "out", "--json", *QUIET, env=bucket.env)
    assert again.exit == 0, again
    assert hashlib.sha256((folder / "out").read_bytes()).hexdigest() == digest
    assert os.listdir(folder) == ["out"]
    assert again.json[0]["requests"] <= 9 - there, "what was there was asked for again"


def test_one_of_another_object_is_not_gone_on_with(tidegate, slow_bucket, make_file, tmp_path):
    bucket, slow = slow_bucket
    bucket.put("k", make_file(SIZE)[0].read_bytes())
    folder = tmp_path / "to"
    folder.mkdir()
    run = tidegate.start("cp", bucket.url("k"), folder / "out", *QUIET, *TWO, env=slow)
    until("chunks are there", lambda: noted(folder) >= 1, 60)
    run.killed()
    other = (b"another" * (SIZE // 7 + 1))[:SIZE]
    bucket.put("k", other)
    again = tidegate("cp", bucket.url("k"), folder / "out", *QUIET, env=bucket.env)
    assert again.exit == 0, again
    assert (folder / "out").read_bytes() == other
    assert os.listdir(folder) == ["out"]


def test_a_directory_goes_on(tidegate, slow_bucket, make_file, tmp_path):
    bucket, slow = slow_bucket
    path, digest = make_file(SIZE)
    for key in ("d/a", "d/e/b"):
        bucket.put(key, path.read_bytes())
    bucket.put("d/small", b"small")
    folder = tmp_path / "to"
    folder.mkdir()
    run = tidegate.start("cp", "-r", bucket.url("d"), folder, *QUIET, *TWO, env=slow)
    until("chunks are there", lambda: noted(folder / "d") >= 1 or noted(folder / "d" / "e") >= 1, 60)
    run.interrupt()
    assert run.wait(20).exit == 130
    there = {"d/a": noted(folder / "d"), "d/e/b": noted(folder / "d" / "e")}
    assert sum(there.values()) >= 1
    again = tidegate("cp", "-r", bucket.url("d"), folder, "--json", *QUIET, env=bucket.env)
    assert again.exit == 0, again
    requests = {said["source"].removeprefix(bucket.url()): said["requests"] for said in again.json}
    for key, chunks in there.items():
        assert requests[key] <= 9 - chunks, f"what was there of {key} was asked for again"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert names == {"d/a", "d/e/b", "d/small"}
    for name in ("d/a", "d/e/b"):
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("key", ["d/../../out", "d/./out", "d//out"])
def test_a_key_that_is_no_path_below_the_directory(tidegate, minio, embedded, tmp_path, key):
    bucket = Bucket(embedded.endpoint)
    bucket.put(key, b"x")
    folder = tmp_path / "a" / "b" / "to"
    run = tidegate("cp", "-r", bucket.url("d"), folder, *QUIET, env=bucket.env)
    assert run.exit == 1, run
    assert "out" in run.err and "panicked" not in run.err, run
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_create_only_keeps_what_is_there(tidegate, slow_bucket, tmp_path):
    bucket, _ = slow_bucket
    bucket.put("k", b"new")
    (tmp_path / "out").write_bytes(b"kept")
    run = tidegate("cp", bucket.url("k"), tmp_path / "out", "--create-only", *QUIET, env=bucket.env)
    one_sentence(run, tmp_path / "out", "exist", exit=1)
    assert (tmp_path / "out").read_bytes() == b"kept"


def test_to_disk(tidegate, slow_bucket, tmp_path):
    bucket, _ = slow_bucket
    bucket.put("k", b"x" * 1000)
    run = tidegate("cp", bucket.url("k"), tmp_path / "out", "--sync", *QUIET, env=bucket.env)
    assert run.exit == 0, run
    assert (tmp_path / "out").read_bytes() == b"x" * 1000
