"""What version 0.1 left is resumed or swept: journals, records and partial downloads of every store and strategy."""

import fcntl
import shutil

import pytest

from formats import ADDRESS, ARCHIVES, BUCKET, ENV, ROOT, SIZE, STORES, STRATEGIES, data, unpack
from harness import MIB
from harness.servers import Embedded

QUIET = ("--progress", "never")
REMOTE = [store for store in STORES if store != "file"]


@pytest.fixture(params=["0.1"])
def left(request, tmp_path):
    """`left("journals")` puts that fixture in its place and starts the store that it is of."""
    servers = []

    def place(name):
        unpack(ARCHIVES / request.param / f"{name}.tar.xz")
        servers.append(Embedded(ROOT, listen=ADDRESS, storage="store"))
        return servers[0]

    # There is one such place on the machine.
    with open(ROOT.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(ROOT, ignore_errors=True)
        yield place
        for server in servers:
            server.stop()
        shutil.rmtree(ROOT, ignore_errors=True)


def content(server, store, key):
    if store == "file":
        return (ROOT / "target" / key).read_bytes()
    return server.endpoint.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()


def test_journals_are_resumed(tidegate, left, tmp_path):
    server = left("journals")
    before = server.control("GET", "counts")["bytes_in"]
    for store in REMOTE:
        url, options = STORES[store]
        # The first half of each object is at the store already.
        run = tidegate(
            "journal", "resume", ROOT / "journal", *ids(tidegate, url + f"finished-{store}"), *options, env=ENV
        )
        assert run.exit == 0, run
        assert content(server, store, f"finished-{store}") == data(f"finished-{store}")
    source = tmp_path / "source"
    for store, (url, options) in STORES.items():
        key = f"open-{store}"
        source.write_bytes(data(key))
        cp = ("cp", source, url + key, *options, "--part-size", "5MiB", "--journal", ROOT / "journal", *QUIET)
        run = tidegate(*cp, env=ENV)
        assert run.exit == 0, run
        assert content(server, store, key) == data(key)
    received = server.control("GET", "counts")["bytes_in"] - before
    assert received <= 2 * len(REMOTE) * SIZE * 3 // 4, f"acknowledged bytes were sent again: {received / MIB:.0f} MiB"
    assert list((ROOT / "journal").glob("*.journal")) == []


def ids(tidegate, url):
    """The journals of uploads to `url`."""
    run = tidegate("journal", "ls", ROOT / "journal", "--json", env=ENV)
    assert run.exit == 0, run
    found = [left["id"] for left in run.json if left.get("url") == url]
    assert len(found) == 1, run
    return found


def test_records_are_swept(tidegate, left):
    server = left("records")
    swept = 0
    # An upload that was begun over gRPC can't be ended over HTTP, so gRPC comes first.
    for store in ("s3", "gs-grpc", "gs", "file"):
        place, options = STORES[store]
        run = tidegate("sweep", place, "--older-than", "0s", "--json", *options, env=ENV)
        assert run.exit == 0, run
        *found, total = run.json
        assert total["failed"] == total["live"] == 0, run
        swept += total["ended"]
    assert swept == len(REMOTE) * len(STRATEGIES) + 2
    client = server.endpoint.client()
    assert "Uploads" not in client.list_multipart_uploads(Bucket=BUCKET)
    assert list((ROOT / "target").iterdir()) == []
    # The records name nothing any more.
    for place in ("s3", "gs"):
        run = tidegate("sessions", "ls", STORES[place][0], "--json", env=ENV)
        assert run.exit == 0 and run.json == [], run


@pytest.mark.parametrize("store", REMOTE)
def test_downloads_are_resumed(tidegate, left, store):
    server = left("downloads")
    url, options = STORES[store]
    key = f"download-{store}"
    before = server.control("GET", "counts")["bytes_out"]
    run = tidegate("cp", url + key, f"to/{key}", *options, *QUIET, env=ENV, cwd=ROOT)
    assert run.exit == 0, run
    assert (ROOT / "to" / key).read_bytes() == data(key)
    sent = server.control("GET", "counts")["bytes_out"] - before
    assert sent < SIZE * 3 // 4, f"{sent / MIB:.0f} MiB of {SIZE / MIB:.0f} were asked for again"
    assert [name for name in (ROOT / "to").iterdir() if name.name.endswith(f"-{key}.part")] == []
