"""Fixtures shared by every suite under tests/, beside those of `harness.fixtures`. Buckets live for one test."""

import fcntl
import hashlib
import os
import random
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import ROOT, google
from harness.command import CommandLine
from harness.s3 import Bucket, GoogleBucket

pytest_plugins = ["harness.fixtures"]

# Nothing is written to these files: they are what the locks are on.
_ROOM, _DOOR = Path(__file__), Path(__file__).with_name("pytest.ini")


@contextmanager
def turn(alone: bool):
    """Whose turn it is among the processes that run the tests of this clone: waits until nobody else runs, where `alone`; or
    until nobody runs alone."""
    with open(_ROOM) as room, open(_DOOR) as door:
        # One who waits to be alone keeps the door shut: else there would always be somebody in the room.
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


def is_alone(item):
    return item.get_closest_marker("alone") is not None


def pytest_collection_modifyitems(items):
    """Those that run alone come last: each has all the other processes wait."""
    items.sort(key=is_alone)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with turn(is_alone(item)):
        return (yield)


@pytest.fixture
def proxy_to(_toxiproxy):
    """`proxy_to("127.0.0.1:9000")` is a new way there, to be slowed or broken; gone after the test."""
    made = []

    def make(upstream):
        proxy = _toxiproxy.proxy(f"p{len(made)}", upstream)
        made.append(proxy)
        return proxy

    yield make
    for proxy in made:
        proxy.close()


@pytest.fixture
def tidegate():
    """Runs the command line: `tidegate("cp", source, target, env=…)`, or `tidegate.start(…)` to watch it run."""
    commands = CommandLine()
    yield commands
    commands.stop()


@pytest.fixture(scope="module")
def bench():
    """Runs the program of measurements: target/release/tidegate-bench, or what TIDEGATE_BENCH_BIN names."""
    program = ROOT / os.environ.get("TIDEGATE_BENCH_BIN", "target/release/tidegate-bench")
    assert program.exists(), f"{program} is not there: cargo build --release -p tidegate-bench, or TIDEGATE_BENCH_BIN"
    commands = CommandLine(program)
    yield commands
    commands.stop()


@pytest.fixture
def put_many(tidegate, tmp_path_factory):
    """`put_many(bucket, "a/", 1000, b"x")` puts objects a/0000 to a/0999 there, by the program: boto3 takes long for that."""

    def put(bucket, prefix, count, body):
        folder = tmp_path_factory.mktemp("many")
        for number in range(count):
            (folder / f"{number:04}").write_bytes(body)
        run = tidegate("cp", "-r", f"{folder}/", bucket.url(prefix), "--progress", "never", env=bucket.env)
        assert run.exit == 0, run
        shutil.rmtree(folder)

    return put


@pytest.fixture
def bucket(minio_bucket):
    return minio_bucket


@pytest.fixture(params=["minio", "embedded"])
def any_bucket(request):
    """A new, empty bucket, once on MinIO and once on the embedded server."""
    return Bucket(request.getfixturevalue(request.param).endpoint)


@pytest.fixture(params=["http", "grpc"])
def google_bucket(embedded, request):
    return GoogleBucket(embedded.endpoint, request.param)


@pytest.fixture
def google_counts(counts):
    """The same in HTTP's words, over gRPC too."""
    return google.Counts(counts)


@pytest.fixture
def counts(embedded):
    """`counts()` is what the embedded server was asked since `counts.reset()`, by operation."""
    counts = Counts(embedded)
    counts.reset()
    return counts


class Counts:
    def __init__(self, embedded):
        self._embedded = embedded

    def reset(self):
        self._embedded.control("DELETE", "counts")

    def __call__(self):
        return self._embedded.control("GET", "counts")["requests"]


@pytest.fixture
def knobs(embedded):
    """`knobs(faults=[…])` sets what the embedded server does badly, until the end of the test."""

    def turn(**settings):
        embedded.control("PUT", "knobs", settings)

    yield turn
    turn()


@pytest.fixture(scope="module")
def make_file(tmp_path_factory):
    """`make_file(size)` is a file of that many bytes that do not compress, and its sha256. One per size and module."""
    folder = tmp_path_factory.mktemp("sources")
    made = {}

    def make(size, name=None):
        if (size, name) not in made:
            path = folder / (name or f"{size}.bin")
            path.parent.mkdir(parents=True, exist_ok=True)
            digest = hashlib.sha256()
            source = random.Random(size)
            with open(path, "wb") as out:
                left = size
                while left:
                    piece = source.randbytes(min(left, 1 << 20))
                    digest.update(piece)
                    out.write(piece)
                    left -= len(piece)
            made[size, name] = (path, digest.hexdigest())
        return made[size, name]

    yield make
    shutil.rmtree(folder)
