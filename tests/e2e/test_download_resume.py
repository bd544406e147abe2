"""Downloads into files that are cut: nothing half-done has the file's name, and the next call goes on."""

import hashlib
import os
import signal
import socket
import threading
import time

import pytest

from harness import MIB
from harness.lines import one_sentence
from harness.process import until
from harness.s3 import Bucket

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


def entries(folder):
    """How many bytes of each chunk the note of a download says are there, by the specified format: entries of 24 bytes
    behind a head and the description."""
    for note in folder.glob(".tidegate-note-*.part"):
        content = note.read_bytes()
        if not content.startswith(b"TIDEGET2"):
            return []
        behind = 36 + int.from_bytes(content[24:28], "little")
        return [int.from_bytes(content[at : at + 8], "little") for at in range(behind, len(content), 24)]
    return []


def noted(folder):
    """How many chunks are there as a whole."""
    return sum(covers == 8 * MIB for covers in entries(folder))


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
        one_sentence(result, "interrupted", "MiB of 64.0 MiB kept; run the same command again to resume", exit=130)
    assert [name.endswith("-out.part") for name in os.listdir(folder)] == [True, True]
    there = noted(folder)

    again = tidegate("cp", bucket.url("k"), folder / "out", "--json", *QUIET, env=bucket.env)
    assert again.exit == 0, again
    assert hashlib.sha256((folder / "out").read_bytes()).hexdigest() == digest
    assert os.listdir(folder) == ["out"]
    assert again.json[0]["requests"] <= 9 - there, "what was there was asked for again"


class Counting:
    """A way to a server that counts the bytes which the server sends."""

    def __init__(self, address):
        self._address, self.sent, self._lock = address, 0, threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            host, port = self._address.split(":")
            far = socket.create_connection((host, int(port)))
            for source, sink, counts in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._carry, args=(source, sink, counts), daemon=True).start()

    def _carry(self, source, sink, counts):
        try:
            while data := source.recv(16384):
                if counts:
                    with self._lock:
                        self.sent += len(data)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        source.close()

    def close(self):
        self._listener.close()


@pytest.mark.alone
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_however_often_it_is_cut_the_store_sends_the_object_once(tidegate, embedded, knobs, make_file, tmp_path, how):
    size, rate = 20 * MIB, 8_000_000
    bucket = Bucket(embedded.endpoint)
    path, digest = make_file(size)
    bucket.put("k", path.read_bytes())
    knobs(bandwidth={"total_out": rate})
    way = Counting(embedded.address)
    env = embedded.endpoint.at(way.url).env
    cuts = 0
    while True:
        run = tidegate.start("cp", bucket.url("k"), tmp_path / "out", *QUIET, env=env)
        before = way.sent
        # Within its first half second a download has no note yet, and one that is killed then is left to a sweep.
        has_note = lambda: any(tmp_path.glob(".tidegate-note-*"))
        enough = before + 4_000_000 + 500_000 * (cuts % 3)
        until("bytes come, or it ends", lambda: run.ended or (way.sent > enough and has_note()), 60)
        if run.ended:
            break
        os.kill(run.pid, how)
        told = time.monotonic()
        result = run.wait(20)
        assert time.monotonic() - told < 2
        if how == signal.SIGINT:
            one_sentence(result, "interrupted", " of 20.0 MiB kept; run the same command again to resume", exit=130)
        cuts += 1
        assert cuts < 30, "it makes no progress"
    way.close()
    assert run.wait(20).exit == 0
    assert cuts >= 2
    assert hashlib.sha256((tmp_path / "out").read_bytes()).hexdigest() == digest
    assert os.listdir(tmp_path) == ["out"]
    assert way.sent <= size * 1.05 + (cuts * rate if how == signal.SIGKILL else 0), f"{way.sent} of {size}, {cuts} cuts"


def test_what_others_put_in_its_place_is_left_alone(tidegate, slow_bucket, make_file, tmp_path):
    """A name that was foreseen, as a link to a file elsewhere."""
    bucket, slow = slow_bucket
    path, digest = make_file(SIZE)
    bucket.put("k", path.read_bytes())
    folder = tmp_path / "to"
    folder.mkdir()
    run = tidegate.start("cp", bucket.url("k"), folder / "out", *QUIET, *TWO, env=slow)
    until("a chunk is there", lambda: noted(folder) >= 1, 60)
    run.killed()
    (note,) = folder.glob(".tidegate-note-*")
    note.unlink()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    note.symlink_to(victim)
    again = tidegate("cp", bucket.url("k"), folder / "out", *QUIET, env=bucket.env)
    assert again.exit == 0 and again.err.startswith("warning: ") and "symbolic link" in again.err, again
    assert victim.read_text() == "precious" and note.is_symlink()
    assert hashlib.sha256((folder / "out").read_bytes()).hexdigest() == digest


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
    run = tidegate("cp", bucket.url("k"), tmp_path / "out", "--fsync", *QUIET, env=bucket.env)
    assert run.exit == 0, run
    assert (tmp_path / "out").read_bytes() == b"x" * 1000
