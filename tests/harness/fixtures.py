"""A plugin of pytest with what every suite has: the program under test, the servers, and buckets on them. Servers live for one
run, or for one of its processes where several run the tests; what a test leaves in buckets is removed when it ends."""

import os
import shutil

import pytest

from . import GIB
from .command import binary
from .s3 import Bucket
from .servers import Azurite, Embedded, FakeGcs, Minio, Versitygw
from .toxiproxy import Toxiproxy

# What the tests have on disk at a time, at most.
DISK = 4 * GIB
SERVERS = {
    "minio": Minio,
    "versitygw": Versitygw,
    "embedded": Embedded,
    "azurite": Azurite,
    "fake_gcs": FakeGcs,
    "_toxiproxy": Toxiproxy,
}

# A developer's proxy is not for servers on this machine.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"


def pytest_addoption(parser):
    parser.addoption(
        "--servers", metavar="NAME,…", help=f"leave out tests of other servers than these ({', '.join(SERVERS)})"
    )


def pytest_collection_modifyitems(config, items):
    wanted = config.getoption("--servers")
    if wanted is None:
        return
    others = SERVERS.keys() - set(wanted.split(","))
    left_out = [item for item in items if needs(item) & others]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def needs(item):
    """The fixtures of a test, those that its parameters name among them."""
    named = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {*item.fixturenames, *(name for name in named if isinstance(name, str))}


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
        for name in SERVERS:
            server = item.funcargs.get(name)
            if server is not None and name != "_toxiproxy":
                report.sections.append((f"end of the log of {name}", server.log))
    return report


@pytest.fixture(autouse=True)
def emptied():
    """The servers live for the whole run: what each test leaves in buckets would be many GiB of disk at its end."""
    Bucket.made.clear()
    yield
    for bucket in Bucket.made:
        bucket.empty()


def _fixture(name, start):
    @pytest.fixture(scope="session", name=name)
    def started(tmp_path_factory):
        server = start(tmp_path_factory.mktemp(name))
        yield server
        server.stop()

    return started


minio, versitygw, embedded, azurite, fake_gcs, _toxiproxy = (_fixture(*server) for server in SERVERS.items())


@pytest.fixture
def minio_bucket(minio):
    """A new, empty bucket on MinIO."""
    return Bucket(minio.endpoint)


@pytest.fixture
def embedded_bucket(embedded):
    """A new, empty bucket on the embedded server."""
    return Bucket(embedded.endpoint)
