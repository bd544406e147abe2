"""Stores that give nothing to know an object by, that ignore ranges, that never answer, and attributes that no copy
carries."""

import http.server
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from harness import MIB
from harness.lines import one_sentence
from harness.process import until

SIZE = 40 * MIB
QUIET = ("--progress", "never")
OLD, NEW = b"o" * SIZE, b"n" * SIZE


def env_of(address):
    """The environment that reaches a store at this address."""
    return {
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "us-east-1",
        "STORAGE_EMULATOR_HOST": f"http://{address}",
        "STORAGE_EMULATOR_HOST_GRPC": address,
    }


class Strange(http.server.ThreadingHTTPServer):
    """A store of one object, which is replaced after `replaced_after` requests."""

    daemon_threads = True

    def __init__(self, headers, ignores_ranges=False, replaced_after=None, content=OLD):
        super().__init__(("127.0.0.1", 0), Handler)
        self.headers, self.ignores_ranges, self.replaced_after = headers, ignores_ranges, replaced_after
        self.content, self.asked, self.sent, self.lock = content, [], 0, threading.Lock()

    @property
    def env(self):
        return env_of(f"127.0.0.1:{self.server_address[1]}")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(None)

    def do_GET(self):
        self.answer(None if self.server.ignores_ranges else self.headers.get("Range"))

    def answer(self, asked):
        store = self.server
        with store.lock:
            store.asked.append(self.command)
            is_new = store.replaced_after is not None and len(store.asked) > store.replaced_after
        content = NEW if is_new else store.content
        first, last = 0, len(content) - 1
        if asked:
            begin, end = asked.removeprefix("bytes=").split("-")
            first, last = int(begin), min(int(end or last), last)
        self.send_response(206 if asked else 200)
        for name, value in store.headers.items():
            self.send_header(name, value)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        for at in range(first, last + 1, 64 << 10) if self.command == "GET" else ():
            piece = content[at : min(at + (64 << 10), last + 1)]
            try:
                self.wfile.write(piece)
            except OSError:
                self.close_connection = True
                return
            with store.lock:
                store.sent += len(piece)


@contextmanager
def strange(*args, **kwargs):
    with Strange(*args, **kwargs) as store:
        threading.Thread(target=store.serve_forever, daemon=True).start()
        yield store
        store.shutdown()


NAMELESS = {"x-amz-request-id": "1"}
TIMED = {**NAMELESS, "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}


@pytest.mark.parametrize("headers", [NAMELESS, TIMED], ids=["nothing", "a time"])
def test_two_objects_are_never_spliced(tidegate, tmp_path, headers):
    out = tmp_path / "out"
    with strange(headers, replaced_after=2) as store:
        run = tidegate("cp", "s3://bucket/k", out, *QUIET, env=store.env)
        assert run.exit == 0, run
        assert out.read_bytes() in (OLD, NEW)
        assert store.asked.count("GET") == 1, store.asked


@pytest.mark.parametrize(
    "words", [("cp", "s3://bucket/k", "{out}"), ("cp", "s3://bucket/k", "-"), ("cat", "s3://bucket/k")]
)
def test_a_store_that_ignores_ranges_sends_an_object_twice_at_most(tidegate, tmp_path, words):
    out = tmp_path / "out"
    quiet = QUIET if words[0] == "cp" else ()
    with strange({"ETag": '"e"'}, ignores_ranges=True) as store:
        run = tidegate(*[word.format(out=out) for word in words], *quiet, env=store.env)
        assert run.exit == 0, run.err
        assert (out.read_bytes() if out.exists() else run.out) == OLD
        assert store.sent <= 2.2 * SIZE, f"{store.sent / SIZE:.2f} times the object, {store.asked}"


@pytest.fixture
def silent():
    """The address of a server that takes connections and never answers."""
    taken = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take():
            while True:
                try:
                    taken.append(listener.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        for connection in taken:
            connection.close()


SILENT = [
    ("ls", "s3://bucket/"),
    ("cp", "-", "s3://bucket/k", *QUIET),
    ("ls", "gs://bucket/"),
    ("ls", "gs://bucket/", "--gcs-transport", "grpc"),
]


def test_silence_is_told_within_two_seconds_and_once(tidegate, silent):
    runs = [tidegate.start(*words, env=env_of(silent), stdin=b"hello") for words in SILENT]
    for run in runs:
        until("it is told", lambda run=run: "waiting: " in run.error_so_far())
    time.sleep(2)
    for run in runs:
        os.kill(run.pid, signal.SIGTERM)
        result = run.wait(20)
        lines = [line for line in result.err.splitlines() if line.startswith("waiting: ")]
        assert len(lines) == 1 and silent in lines[0] and "1.6 s" in lines[0], result


def test_a_server_that_does_not_speak_http_was_reached(tidegate):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            while True:
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n")
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        env = env_of(f"127.0.0.1:{listener.getsockname()[1]}")
        said = one_sentence(tidegate("stat", "s3://bucket/k", env=env), "s3://bucket/k", exit=1)
        assert "after 1 attempt" in said and "not an object store's" in said


class HostsOnly(http.server.BaseHTTPRequestHandler):
    """Refuses path-style addresses, as Alibaba's store does. The refusal of a HEAD has no body."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(b"")

    def do_GET(self):
        code = b"<Code>SecondLevelDomainForbidden</Code><Message>Please use virtual hosted style</Message>"
        self.answer(b"<Error>" + code + b"</Error>")

    def answer(self, body):
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("words", [("stat", "s3://bucket/k"), ("cat", "s3://bucket/k"), ("ls", "s3://bucket/")])
def test_a_refused_address_is_a_usage_error_that_names_the_option(tidegate, words):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), HostsOnly) as store:
        threading.Thread(target=store.serve_forever, daemon=True).start()
        run = tidegate(*words, env=env_of(f"127.0.0.1:{store.server_address[1]}"))
        store.shutdown()
    one_sentence(run, "--addressing virtual", exit=2)


def test_what_no_copy_carries_is_named(tidegate, tmp_path):
    headers = {
        "ETag": '"e"',
        "Expires": "Sun, 06 Nov 1994 08:49:37 GMT",
        "x-amz-website-redirect-location": "/other",
        "x-amz-object-lock-legal-hold": "ON",
    }
    with strange(headers, content=b"hello") as store:
        run = tidegate("cp", "s3://bucket/k", tmp_path / "out", *QUIET, env=store.env)
        assert run.exit == 0, run
        warnings = [line for line in run.err.splitlines() if line.startswith("warning: ")]
        assert len(warnings) == 1, run
        for name in ("expires", "website redirect", "legal hold"):
            assert name in warnings[0], run


@pytest.mark.parametrize("option, pairs", [("--metadata", ("a=1", "A=2")), ("--tag", ("t=1", "t=2"))])
def test_a_name_that_is_given_twice_is_a_usage_error(tidegate, make_file, option, pairs):
    path, _ = make_file(10)
    words = [word for pair in pairs for word in (option, pair)]
    one_sentence(tidegate("cp", path, "s3://bucket/k", *words), option, pairs[1].split("=")[0], exit=2)
