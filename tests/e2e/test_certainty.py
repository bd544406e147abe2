"""Answers that are lost between a real store and us. Answers are late here, so that there is a moment at which MinIO
has the object and its answer is still on the way. What each case says and asks is in docs/CERTAINTY.md."""

import contextlib

import pytest

from harness import MIB
from harness.process import until

PART = 5 * MIB
PUT, PARTS = 1000, 2 * PART + 1
# By the second attempt the first answer is lost; ten of each of three requests would take minutes.
OPTIONS = ("--part-size", "5MiB", "--progress", "never", "--attempts", "4")
# How long each answer is on its way, in milliseconds.
LATE = 700

SIZES = pytest.mark.parametrize("size", [PUT, PARTS], ids=["put", "parts"])
CREATE_ONLY = pytest.mark.parametrize("create_only", [False, True], ids=["replace", "create-only"])


@pytest.fixture
def upload(tidegate, minio, bucket, proxy_to, make_file):
    """`with upload(size, create_only) as run:` begins one; the block runs when MinIO has the object, and the writer
    has no answer yet. `run.wait()` afterwards."""
    proxy = proxy_to(minio.address)

    @contextlib.contextmanager
    def begin(size, create_only):
        path, digest = make_file(size)
        proxy.toxic("latency", "downstream", latency=LATE)
        env = minio.endpoint.at(proxy.url).env
        run = tidegate.start("cp", path, bucket.url("k"), *OPTIONS, *["--create-only"] * create_only, env=env)
        run.proxy, run.digest = proxy, digest
        until("MinIO has the object", lambda: bucket.head("k"))
        assert not run.ended, "the answer was not late enough"
        yield run

    return begin


def uncertain(run, bucket, size):
    """It says so, and by what the object can be known. A session that could not be aborted either has a line of its
    own before that."""
    result = run.wait(timeout=120)
    *before, last = [line for line in result.err.splitlines() if not line.startswith("waiting: ")]
    assert all("could not be aborted" in line for line in before), result
    assert result.exit == 1 and result.out == b"", result
    for name in (bucket.url("k"), f"{size} bytes", "tidegate-writer: ", " GMT", "look at the object"):
        assert name in last, f"{name!r} is not named: {result}"


@SIZES
@CREATE_ONLY
def test_an_answer_that_is_cut_off_is_settled(upload, bucket, size, create_only):
    with upload(size, create_only) as run:
        run.proxy.cut()
        run.proxy.mend()
    result = run.wait()
    assert result.exit == 0, result
    assert bucket.sha256("k") == run.digest
    assert bucket.sessions("k") == []


@pytest.mark.parametrize("size, create_only", [(PARTS, False), (PARTS, True), (PUT, True)])
def test_an_object_that_was_replaced_meanwhile(upload, bucket, size, create_only):
    """Ours was there, and nobody but the other writer knows: neither `committed` nor `exists` would be true to us."""
    with upload(size, create_only) as run:
        run.proxy.cut()
        bucket.put("k", b"another's")
        run.proxy.mend()
    uncertain(run, bucket, size)
    assert bucket.get("k") == b"another's"
    assert bucket.sessions("k") == []


def test_a_put_that_is_made_again_replaces_what_came_between(upload, bucket):
    with upload(PUT, False) as run:
        run.proxy.cut()
        bucket.put("k", b"another's")
        run.proxy.mend()
    assert run.wait().exit == 0
    assert bucket.sha256("k") == run.digest


def test_an_object_that_was_removed_meanwhile(upload, bucket):
    with upload(PARTS, False) as run:
        run.proxy.cut()
        bucket.client.delete_object(Bucket=bucket.name, Key="k")
        run.proxy.mend()
    uncertain(run, bucket, PARTS)
    assert bucket.head("k") is None


@SIZES
@pytest.mark.parametrize(
    "kind, attributes",
    [("limit_data", {"bytes": 1}), ("timeout", {"timeout": 50}), ("reset_peer", {"timeout": 0})],
    ids=["first-byte", "timeout", "reset"],
)
def test_a_store_that_can_be_heard_no_more(upload, bucket, size, kind, attributes):
    """Requests arrive and no answer comes back, whatever is asked: not even whether it was committed."""
    with upload(size, False) as run:
        run.proxy.cut()
        run.proxy.toxic(kind, "downstream", **attributes)
        run.proxy.mend()
    uncertain(run, bucket, size)
    assert bucket.sha256("k") == run.digest


@SIZES
def test_a_store_that_is_down_when_asked(upload, bucket, size):
    with upload(size, False) as run:
        run.proxy.cut()
    uncertain(run, bucket, size)
    assert bucket.sha256("k") == run.digest
