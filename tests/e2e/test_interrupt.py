"""Ctrl-C, a source that fails, a store that goes away: nothing is published and no session stays behind."""

import os
import subprocess
import sys

import pytest

from harness import MIB
from harness.feed import failing_source, open_pipe
from harness.lines import one_sentence
from harness.process import until
from harness.s3 import Bucket

PART = 5 * MIB
OPTIONS = ("--part-size", "5MiB", "--progress", "never")


@pytest.fixture(params=["minio", "embedded"])
def server(request):
    """Each server. After the test MinIO's disk holds no session that it did not hold before."""
    server = request.getfixturevalue(request.param)
    before = server.sessions_on_disk() if request.param == "minio" else set()
    yield server
    if request.param == "minio":
        assert server.sessions_on_disk() <= before, "MinIO still holds a session on its disk"


@pytest.fixture
def slow_bucket(server, proxy_to):
    """A bucket, and the environment that reaches it at 1 MB/s a connection. Questions go straight."""
    proxy = proxy_to(server.address)
    proxy.bandwidth(1_000_000)
    bucket = Bucket(server.endpoint)
    return bucket, server.endpoint.at(proxy.url).env


def test_ctrl_c_in_the_middle_of_a_pipe(tidegate, server):
    bucket = Bucket(server.endpoint)
    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", bucket.url("cut"), *OPTIONS, stdin=pipe.stdin, env=bucket.env)
        pipe.started()
        pipe.send(b"a" * (3 * PART))
        until("a part is stored", lambda: bucket.parts("cut") >= 1)
        assert not run.ended
        run.interrupt()
        result = run.wait(20)
    one_sentence(result, "abort", exit=130)
    bucket.assert_untouched("cut")


def test_ctrl_c_before_the_first_part_is_full(tidegate, server):
    bucket = Bucket(server.endpoint)
    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", bucket.url("early"), *OPTIONS, stdin=pipe.stdin, env=bucket.env)
        pipe.started()
        pipe.send(b"a" * MIB)
        pipe.join()
        run.interrupt()
        result = run.wait(20)
    assert result.exit == 130, result
    bucket.assert_untouched("early")


# Two parts, then a little so often that a reader never finds the pipe empty for long.
TRICKLE = """
import os, time
os.write(1, b"a" * (10 << 20))
while True:
    os.write(1, b"a")
    time.sleep(0.0002)
"""


def test_ctrl_c_while_each_read_finds_something(tidegate, embedded):
    """A pipe is waited for in place: that may not keep a signal from being seen."""
    bucket = Bucket(embedded.endpoint)
    command = [sys.executable, "-c", TRICKLE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as producer:
        run = tidegate.start("cp", "-", bucket.url("cut"), *OPTIONS, stdin=producer.stdout, env=bucket.env)
        producer.stdout.close()
        until("a part is stored", lambda: bucket.parts("cut") >= 1)
        run.interrupt()
        result = run.wait(10)
    one_sentence(result, "abort", exit=130)
    bucket.assert_untouched("cut")


def test_ctrl_c_in_the_middle_of_a_file(tidegate, server, slow_bucket, make_file):
    bucket, env = slow_bucket
    path, _ = make_file(200 * MIB)
    run = tidegate.start("cp", path, bucket.url("cut"), *OPTIONS, env=env)
    until("the session is open", lambda: bucket.sessions("cut"))
    assert not run.ended
    run.interrupt()
    result = run.wait(20)
    one_sentence(result, "abort", exit=130)
    bucket.assert_untouched("cut")


def test_ctrl_c_in_the_middle_of_a_directory(tidegate, server, slow_bucket, tmp_path):
    bucket, env = slow_bucket
    keys = [f"f{number}" for number in range(8)]
    for key in keys:
        with open(tmp_path / key, "wb") as file:
            file.truncate(20 * MIB)
    run = tidegate.start("cp", "-r", f"{tmp_path}/", bucket.url(""), *OPTIONS, env=env)
    until("a session is open", lambda: any(bucket.sessions(key) for key in keys))
    assert not run.ended
    run.interrupt()
    result = run.wait(20)
    assert result.exit == 130, result
    assert "abort" in result.err.lower(), result
    published = bucket.keys()
    for key in keys:
        assert bucket.sessions(key) == []
        assert key not in published or bucket.head(key)["ContentLength"] == 20 * MIB


def test_a_source_that_fails_in_the_middle(tidegate, server):
    bucket = Bucket(server.endpoint)
    with failing_source() as source:
        run = tidegate.start("cp", "-", bucket.url("broken"), *OPTIONS, stdin=source.stdin, env=bucket.env)
        source.started()
        source.send(b"a" * (3 * PART))
        until("a part is stored", lambda: bucket.parts("broken") >= 1)
        source.fail()
        result = run.wait(20)
    one_sentence(result, bucket.url("broken"), "stdin", exit=1)
    bucket.assert_untouched("broken")


def test_a_file_truncated_while_its_parts_are_sent(tidegate, server, slow_bucket, tmp_path):
    bucket, env = slow_bucket
    path = tmp_path / "shrinking.bin"
    path.write_bytes(b"s" * (100 * MIB))
    run = tidegate.start("cp", path, bucket.url("shrunk"), *OPTIONS, env=env)
    until("the session is open", lambda: bucket.sessions("shrunk"))
    os.truncate(path, MIB)
    result = run.wait(60)
    one_sentence(result, path, exit=1)
    bucket.assert_untouched("shrunk")


def bytes_read(pid):
    """What the process has read so far, by the kernel's count."""
    with open(f"/proc/{pid}/io") as io:
        return int(io.readline().removeprefix("rchar: "))


def test_a_file_truncated_while_one_put_sends_it(tidegate, slow_bucket, tmp_path):
    bucket, env = slow_bucket
    path = tmp_path / "shrinking.bin"
    path.write_bytes(b"s" * (60 * MIB))
    options = ("--strategy", "put", "--progress", "never")
    run = tidegate.start("cp", path, bucket.url("shrunk"), *options, env=env)
    until("the body is under way", lambda: bytes_read(run.pid) > MIB)
    os.truncate(path, MIB // 2)
    result = run.wait(60)
    one_sentence(result, path, exit=1)
    bucket.assert_untouched("shrunk")


def test_a_connection_cut_in_the_middle_is_made_again(tidegate, server, proxy_to, make_file):
    """Every connection is closed while parts are under way; the upload goes on and the object is whole."""
    bucket = Bucket(server.endpoint)
    proxy = proxy_to(server.address)
    proxy.bandwidth(4_000_000)
    path, digest = make_file(100 * MIB)
    run = tidegate.start("cp", path, bucket.url("mended"), *OPTIONS, "--json", env=server.endpoint.at(proxy.url).env)
    until("a part is stored, and others follow", lambda: bucket.parts("mended") >= 1)
    proxy.cut()
    proxy.mend()
    result = run.wait(60)
    assert result.exit == 0, result
    assert result.json[0]["retries"] >= 1
    assert bucket.sha256("mended") == digest
    assert bucket.sessions("mended") == []


UNABORTED = "warning: 1 upload could not be aborted and may hold parts: see `tidegate sessions ls {}`"
NO_ABORT = {"operation": "AbortMultipartUpload", "action": {"error": {"status": 403, "code": "AccessDenied"}}}


def test_ctrl_c_where_the_store_lets_nothing_be_aborted(tidegate, embedded_bucket, knobs):
    bucket = embedded_bucket
    knobs(faults=[NO_ABORT])
    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", bucket.url("left"), *OPTIONS, stdin=pipe.stdin, env=bucket.env)
        pipe.started()
        pipe.send(b"a" * (2 * PART + 1))
        until("a part is stored", lambda: bucket.parts("left") >= 1)
        run.interrupt()
        result = run.wait(20)
    assert result.exit == 130, result
    (session,) = bucket.sessions("left")
    assert f"warning: not aborted: {bucket.url('left')} (upload id {session})" in result.err.splitlines(), result
    assert f"tidegate sweep {bucket.url('left')}" in result.err, result
    knobs()
    listed = tidegate("sessions", "ls", bucket.url("left"), env=bucket.env)
    assert bucket.url("left") in listed.text, listed


def test_an_error_where_the_store_lets_nothing_be_aborted(tidegate, embedded_bucket, knobs, make_file):
    bucket = embedded_bucket
    path, _ = make_file(3 * PART)
    knobs(faults=[NO_ABORT, {**NO_ABORT, "operation": "UploadPart"}])
    result = tidegate("cp", path, bucket.url("left"), *OPTIONS, env=bucket.env)
    assert result.exit == 4, result
    said, error = result.err.splitlines()
    assert said == UNABORTED.format(bucket.url("left")), result
    assert bucket.url("left") in error and "denied" in error.lower(), result
