"""Out of a store: to a file, into a directory, to standard output; and between local paths."""

import errno
import hashlib
import os
import subprocess
import termios

import pytest

from harness import KIB, MIB
from harness.command import binary, clean_env
from harness.lines import one_sentence
from harness.process import until

SIZES = [0, 1, 20 * MIB + 3]


@pytest.fixture
def stored(any_bucket, make_file):
    """`stored(size)` puts an object of that size there by boto3, and answers its URL and sha256."""

    def store(size, key="dir/object.bin"):
        path, digest = make_file(size)
        any_bucket.put(key, path.read_bytes())
        return any_bucket.url(key), digest

    return store


@pytest.mark.parametrize("size", SIZES)
def test_to_a_file(tidegate, any_bucket, stored, tmp_path, size):
    url, digest = stored(size)
    run = tidegate("cp", url, tmp_path / "out.bin", env=any_bucket.env)
    assert run.exit == 0, run
    assert hashlib.sha256((tmp_path / "out.bin").read_bytes()).hexdigest() == digest
    assert os.listdir(tmp_path) == ["out.bin"]


def test_into_a_directory(tidegate, any_bucket, stored, tmp_path):
    url, digest = stored(1000)
    run = tidegate("cp", url, f"{tmp_path}/", env=any_bucket.env)
    assert run.exit == 0, run
    assert os.listdir(tmp_path) == ["object.bin"]
    assert hashlib.sha256((tmp_path / "object.bin").read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("words", [("cp", "{url}", "-"), ("cat", "{url}")])
def test_to_standard_output(tidegate, any_bucket, stored, size, words):
    url, digest = stored(size)
    run = tidegate(*(word.format(url=url) for word in words), env=any_bucket.env)
    assert run.exit == 0, run
    assert len(run.out) == size
    assert hashlib.sha256(run.out).hexdigest() == digest


@pytest.mark.parametrize(
    "asked, first, end", [("4-", 4, None), ("0-", 0, None), ("4-9", 4, 10), ("90-500", 90, None), ("99-", 99, None)]
)
def test_a_range_to_standard_output(tidegate, any_bucket, asked, first, end):
    body = bytes(range(100))
    any_bucket.put("k", body)
    run = tidegate("cat", "--range", asked, any_bucket.url("k"), env=any_bucket.env)
    assert (run.exit, run.out) == (0, body[first:end]), run


@pytest.mark.parametrize("asked", ["100-", "100-200"])
def test_a_range_behind_the_end(tidegate, any_bucket, asked):
    any_bucket.put("k", bytes(100))
    run = tidegate("cat", "--range", asked, any_bucket.url("k"), env=any_bucket.env)
    one_sentence(run, any_bucket.url("k"), exit=1)


def test_a_reader_that_goes_away_ends_cat(tidegate, any_bucket, stored):
    """`tidegate cat … | head -c 10`: no hang and no panic."""
    url, _ = stored(20 * MIB + 3)
    read, write = os.pipe()
    with os.fdopen(write, "wb") as stdout:
        run = tidegate.start("cat", url, stdout=stdout, env=any_bucket.env)
    with os.fdopen(read, "rb", buffering=0) as reader:
        assert len(reader.read(10)) == 10
    result = run.wait()
    assert result.exit != 0, result
    assert "panicked" not in result.err, result


def test_a_missing_object_makes_no_file(tidegate, any_bucket, tmp_path):
    run = tidegate("cp", any_bucket.url("missing"), tmp_path / "out", "--progress", "never", env=any_bucket.env)
    one_sentence(run, any_bucket.url("missing"), exit=3)
    assert os.listdir(tmp_path) == []


def test_a_missing_object_cannot_be_shown(tidegate, any_bucket):
    run = tidegate("cat", any_bucket.url("missing"), env=any_bucket.env)
    one_sentence(run, any_bucket.url("missing"), exit=3)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_local_path_is_a_store_too(tidegate, make_file, tmp_path, scheme):
    path, digest = make_file(20 * MIB + 3)
    target = tmp_path / "new" / "out.bin"
    run = tidegate("cp", f"{scheme}{path}", f"{scheme}{target}", "--part-size", "5MiB")
    assert run.exit == 0, run
    assert hashlib.sha256(target.read_bytes()).hexdigest() == digest
    assert os.listdir(target.parent) == ["out.bin"]


def test_create_only_keeps_a_local_file(tidegate, make_file, tmp_path):
    path, _ = make_file(1000)
    target = tmp_path / "out"
    target.write_bytes(b"kept")
    run = tidegate("cp", path, target, "--create-only", "--progress", "never")
    one_sentence(run, target, "exist", exit=1)
    assert target.read_bytes() == b"kept"
    assert os.listdir(tmp_path) == ["out"]


def on_a_terminal(*words, env):
    """What a run shows to somebody who looks on."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    command = [binary(), *words]
    shown = bytearray()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stderr=theirs, env=clean_env({"TERM": "xterm", **env})
    ) as run:
        os.close(theirs)
        with open(ours, "rb", buffering=0) as terminal:
            try:
                while piece := terminal.read(4096):
                    shown += piece
            except OSError as error:
                # So it ends where nobody has the other side any more.
                assert error.errno == errno.EIO, error
    return run.returncode, shown.decode()


def test_small_files_are_whole_or_not_there_when_the_program_is_killed(
    tidegate, embedded_bucket, knobs, tmp_path, put_many
):
    body = os.urandom(4 * KIB)
    put_many(embedded_bucket, "tree/", 2000, body)
    # So that the last come long after the first. Killed more than once, so that one of them is while files are made.
    knobs(latency={"fixed_ms": 200})
    for some in (100, 500, 1000):
        target = tmp_path / str(some)
        target.mkdir()
        run = tidegate.start("cp", "-r", embedded_bucket.url("tree/"), f"{target}/", env=embedded_bucket.env)
        until("some are there", lambda: sum(len(files) for _, _, files in os.walk(target)) >= some)
        run.killed()
        there = [file for file in target.rglob("*") if file.is_file()]
        assert some <= len(there) < 2000
        assert all(file.name.isdecimal() and file.read_bytes() == body for file in there)


@pytest.mark.parametrize("tree", [False, True])
def test_the_bar_knows_the_total(embedded, embedded_bucket, proxy_to, tmp_path, tree):
    proxy = proxy_to(embedded.address)
    proxy.bandwidth(4_000_000, "downstream")
    embedded_bucket.put("dir/k", bytes(2 * MIB))
    words = ("-r", embedded_bucket.url("dir/")) if tree else (embedded_bucket.url("dir/k"),)
    exit, shown = on_a_terminal("cp", *words, tmp_path / "out", env=embedded.endpoint.at(proxy.url).env)
    assert (exit, "/2.0 MiB" in shown) == (0, True), shown


def test_nobody_is_asked_for_a_total_that_nobody_sees(tidegate, embedded_bucket, counts, tmp_path):
    embedded_bucket.put("k", b"x" * 1000)
    counts.reset()
    run = tidegate("cp", embedded_bucket.url("k"), tmp_path / "out", env=embedded_bucket.env)
    assert run.exit == 0, run
    assert counts() == {"GetObject": 1}
