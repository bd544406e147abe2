"""SIGINT and SIGTERM end any command within two seconds, whatever it is blocked in."""

import fcntl
import os
import signal
import socket
import termios
import threading
import time

import pytest

from harness.feed import open_pipe
from harness.process import free_port, until

SOON = 2.0
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Listening:
    """A server that does with each connection what the test says; `met` counts those that it has taken."""

    def __init__(self, serve, backlog=64):
        self.met, self.socket = 0, socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(backlog)
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self._serve = serve
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._meet, args=(connection,), daemon=True).start()

    def _meet(self, connection):
        self.met += 1
        with connection:
            try:
                self._serve(connection)
            except OSError:
                pass  # The program ended: that is what the test is about.

    def env(self, scheme="http"):
        return KEYS | {"AWS_ENDPOINT_URL": f"{scheme}://{self.address}"}


def silent(connection):
    """Reads and never answers."""
    while connection.recv(1 << 16):
        pass


def page(keys, token=""):
    more = (
        f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
        if token
        else ("<IsTruncated>false</IsTruncated>")
    )
    one = "<Contents><Key>{}</Key><Size>5</Size><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>"
    body = f"<ListBucketResult>{more}{''.join(map(one.format, keys))}</ListBucketResult>"
    return f"HTTP/1.1 200 OK\r\nx-amz-request-id: 1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def endless(connection):
    """A listing that never ends: each page has 1000 keys and another token."""
    number = 0
    with connection.makefile("rb") as asked:
        while asked.readline():
            while asked.readline().strip():
                pass
            number += 1
            connection.sendall(page([f"k{number:06}-{at:04}-{'x' * 80}" for at in range(1000)], f"token{number}"))


@pytest.fixture
def black_hole():
    """An address that takes no connection and refuses none: its backlog is full."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    waiting = [socket.socket() for _ in range(4)]
    for one in waiting:
        one.setblocking(False)
        one.connect_ex(listener.getsockname())
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    for one in (listener, *waiting):
        one.close()


def ends(run, number):
    """The run ends in time, by its own exit code."""
    assert not run.ended, run.error_so_far()
    began = time.monotonic()
    os.kill(run.pid, number)
    result = run.wait(20)
    took = time.monotonic() - began
    assert result.exit == CODES[number], result
    # Nothing else ends it so soon; a machine that is busy takes a moment of its own for each process.
    assert took < SOON + 1.5, f"{took:.2f} s: {result}"
    return result


SIGNALS = pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)


@SIGNALS
@pytest.mark.parametrize("words", [("ls", "-r"), ("ls", "-r", "--json"), ("rm", "-r", "--dry-run")], ids=" ".join)
def test_a_listing_without_an_end(tidegate, number, words):
    """Into a pipe that nobody reads, which is full long before."""
    server = Listening(endless)
    reader, writer = os.pipe()
    run = tidegate.start(*words, "s3://bucket/", env=server.env(), stdout=writer)
    os.close(writer)
    until("the listing is under way", lambda: server.met)
    buffered = lambda: int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), "little")
    # A pipe takes 64 KiB, or fewer in small pieces.
    until("the pipe is full", lambda: buffered() >= 30_000)
    ends(run, number)
    os.close(reader)


@SIGNALS
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_says_nothing(tidegate, number, scheme):
    """Over https that is a TLS handshake that stalls."""
    server = Listening(silent)
    run = tidegate.start("stat", "s3://bucket/k", env=server.env(scheme))
    until("it is connected", lambda: server.met)
    ends(run, number)


@pytest.mark.alone
def test_an_address_that_does_not_answer_is_named_in_time(tidegate, black_hole):
    env = KEYS | {"AWS_ENDPOINT_URL": f"http://{black_hole}"}
    run = tidegate.start("cp", "s3://bucket/k", "/dev/null", env=env)
    until("it is said", lambda: f"{black_hole} is not reachable" in run.error_so_far(), timeout=SOON)
    ends(run, signal.SIGINT)


@pytest.mark.alone
@SIGNALS
def test_the_pause_before_a_retry(tidegate, number):
    env = KEYS | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}
    run = tidegate.start("cp", "s3://bucket/k", "/dev/null", env=env)
    said = until(
        "it is said",
        lambda: "s3://bucket/k is not reachable" in run.error_so_far() and run.error_so_far(),
        timeout=SOON,
    )
    assert "connection refused" in said and "trying again until" in said
    result = ends(run, number)
    assert sum("not reachable" in line for line in result.err.splitlines()) <= 2, result


@SIGNALS
def test_a_standard_input_that_gives_nothing(tidegate, embedded_bucket, number):
    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", embedded_bucket.url("k"), stdin=pipe.stdin, env=embedded_bucket.env)
        pipe.started()
        until("it runs", lambda: len(os.listdir(f"/proc/{run.pid}/task")) > 3)
        ends(run, number)


@SIGNALS
def test_a_named_pipe_that_nobody_writes_to(tidegate, embedded_bucket, tmp_path, number):
    os.mkfifo(tmp_path / "fifo")
    run = tidegate.start("cp", tmp_path / "fifo", embedded_bucket.url("k"), env=embedded_bucket.env)
    until("it runs", lambda: len(os.listdir(f"/proc/{run.pid}/task")) > 3)
    ends(run, number)


@pytest.mark.alone
def test_a_second_signal_ends_it_at_once(tidegate, embedded_bucket, knobs):
    knobs(faults=[{"operation": "AbortMultipartUpload", "action": {"delay_ms": 8000}}])
    with open_pipe() as pipe:
        words = ("cp", "-", embedded_bucket.url("k"), "--part-size", "5MiB", "--progress", "never")
        run = tidegate.start(*words, stdin=pipe.stdin, env=embedded_bucket.env)
        pipe.started()
        pipe.send(b"a" * (11 << 20))
        until("a part is stored", lambda: embedded_bucket.parts("k") >= 1)
        run.interrupt()
        until("it has heard", lambda: "interrupted" in run.error_so_far())
        began = time.monotonic()
        run.interrupt()
        result = run.wait(20)
    assert result.exit == 130 and time.monotonic() - began < 1, result
    (session,) = embedded_bucket.sessions("k")
    assert f"not aborted: {embedded_bucket.url('k')} (upload id {session})" in result.err, result


def test_a_completion_in_flight_is_uncertain(tidegate, embedded_bucket, knobs, counts, make_file):
    knobs(
        faults=[
            {"operation": "CompleteMultipartUpload", "action": {"delay_ms": 8000}},
            {"operation": "AbortMultipartUpload", "action": {"delay_ms": 8000}},
        ]
    )
    path, _ = make_file(11 << 20)
    counts.reset()
    words = ("cp", path, embedded_bucket.url("k"), "--part-size", "5MiB", "--progress", "never")
    run = tidegate.start(*words, env=embedded_bucket.env)
    until("it is being completed", lambda: counts().get("CompleteMultipartUpload"))
    result = ends(run, signal.SIGINT)
    assert f"uncertain: {embedded_bucket.url('k')}" in result.err and "may be there" in result.err, result
