"""Fixtures shared by every suite under tests/. Servers live for one pytest run, or for one of its processes where several
run the tests; buckets live for one test."""

import hashlib
import os
import random
import shutil

import pytest
from playwright.sync_api import sync_playwright

from harness import GIB, ROOT, TOOLS, google
from harness.command import CommandLine, binary
from harness.s3 import Bucket, GoogleBucket
from harness.servers import Azurite, Embedded, Minio, Versitygw
from harness.toxiproxy import Toxiproxy
from harness.turns import turn

# What the tests have on disk at a time, at most.
DISK = 4 * GIB

# A developer's proxy is not for servers on this machine.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"


@pytest.fixture(scope="session", autouse=True)
def built(tmp_path_factory):
    """The program under test: target/release/tidegate, or what TIDEGATE_BIN names."""
    if not binary().exists():
        pytest.exit(f"{binary()} is not there: cargo build --release -p tidegate-cli", returncode=2)
    # A server on a full disk refuses what it is sent, in many ways: better one reason than a hundred failures.
    place = tmp_path_factory.getbasetemp()
    free = shutil.disk_usage(place).free
    if free < DISK:
        pytest.exit(f"{place} has {free / GIB:.1f} GiB free, and the tests need {DISK // GIB}", returncode=2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the ends of the servers' logs to the report of a test that failed."""
    report = yield
    if report.when != "setup" and report.failed:
        for name in ("minio", "versitygw", "embedded", "azurite"):
            server = item.funcargs.get(name)
            if server is not None:
                report.sections.append((f"end of the log of {name}", server.log))
    return report


def is_alone(item):
    return item.get_closest_marker("alone") is not None


def pytest_collection_modifyitems(items):
    """Those that run alone come last: each has all the other processes wait."""
    items.sort(key=is_alone)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    with turn(is_alone(item)):
        return (yield)


@pytest.fixture(autouse=True)
def emptied():
    """The servers live for the whole run: what each test leaves in buckets would be many GiB of disk at its end."""
    Bucket.made.clear()
    yield
    for bucket in Bucket.made:
        bucket.empty()


@pytest.fixture(scope="module")
def browser():
    program = shutil.which("chromium", path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    assert program, "there is no chromium: scripts/install chromium"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, timeout=60_000)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def minio(tmp_path_factory):
    server = Minio(tmp_path_factory.mktemp("minio"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory):
    server = Versitygw(tmp_path_factory.mktemp("versitygw"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory):
    """The embedded server, keeping objects on disk."""
    server = Embedded(tmp_path_factory.mktemp("embedded"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def azurite(tmp_path_factory):
    server = Azurite(tmp_path_factory.mktemp("azurite"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def _toxiproxy(tmp_path_factory):
    server = Toxiproxy(tmp_path_factory.mktemp("toxiproxy"))
    yield server
    server.stop()


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
def bucket(minio):
    """A new, empty bucket on MinIO."""
    return Bucket(minio.endpoint)


@pytest.fixture(params=["minio", "embedded"])
def any_bucket(request):
    """A new, empty bucket, once on MinIO and once on the embedded server."""
    return Bucket(request.getfixturevalue(request.param).endpoint)


@pytest.fixture
def embedded_bucket(embedded):
    return Bucket(embedded.endpoint)


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
