"""Fixtures of the tests of the Python package, beside those of `harness.fixtures`: stores, and Python programs that are
interrupted and killed."""

import os
import secrets
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "bindings" / "python" / "python"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))

# The harness of the end-to-end tests, and the package beside its extension (scripts/python-develop).
sys.path[:0] = [str(ROOT / "tests"), str(SOURCES)]
os.environ.setdefault("TIDEGATE_BIN", str(TARGET / "debug" / "tidegate"))
import tidegate  # noqa: E402
from harness.command import clean_env  # noqa: E402
from harness.process import die_with_parent  # noqa: E402
from reach import reached  # noqa: E402

pytest_plugins = ["harness.fixtures"]


@pytest.fixture
def bucket(embedded_bucket):
    """A new bucket of the embedded server, asked through boto3."""
    return embedded_bucket


@pytest.fixture
def options(bucket):
    return reached(bucket)


@pytest.fixture
def store(bucket, options):
    return tidegate.Store(bucket.url().rstrip("/"), **options)


@pytest.fixture
def memory():
    """A store of this process, empty and with a name of its own."""
    return tidegate.Store(f"memory://{secrets.token_hex(6)}")


class Program:
    """A Python program that runs beside the test."""

    def __init__(self, text: str, env: dict, folder: Path):
        self._path = folder / f"program-{secrets.token_hex(4)}.py"
        self._path.write_text(textwrap.dedent(text))
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-X", "dev", "-W", "ignore::ResourceWarning", str(self._path)],
            env=env,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )

    def line(self) -> str:
        """The next line that it prints."""
        line = self.process.stdout.readline()
        assert line, f"the program ended without a word:\n{self.process.stderr.read()}"
        return line.rstrip("\n")

    def ended(self, timeout=30) -> tuple[int, str, str]:
        """Its exit code, the rest of its output, and its errors."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"not done after {timeout} s:\n{out}\n{err}") from None
        return self.process.returncode, out, err

    def succeeds(self, timeout=30) -> str:
        code, out, err = self.ended(timeout)
        assert code == 0, f"exit {code}:\n{out}\n{err}"
        return out


@pytest.fixture
def program(tmp_path, bucket):
    """Starts a program that reaches the bucket by its environment; `BUCKET` is the bucket's URL."""
    started = []

    def start(text, **env):
        environment = clean_env({**bucket.env, "BUCKET": bucket.url().rstrip("/"), "PYTHONPATH": str(SOURCES), **env})
        running = Program(text, environment, tmp_path)
        started.append(running)
        return running

    yield start
    for running in started:
        running.process.kill()
        running.process.wait()
        for pipe in (running.process.stdin, running.process.stdout, running.process.stderr):
            pipe.close()


@pytest.fixture
def silent():
    """A server that takes connections and bytes, and never answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    kept = []

    def accept():
        while True:
            try:
                kept.append(listener.accept()[0])
            except OSError:
                return

    thread = threading.Thread(target=accept)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()
    for connection in kept:
        connection.close()
