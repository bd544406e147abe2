"""The command line, run as a person runs it and measured by the kernel."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from . import ROOT
from .lines import LINES, MESSAGES, as_text, checked
from .process import die_with_parent

_MEASURE = Path(__file__).with_name("measure.py")

# What a developer has set for real stores must not reach the tests.
_FOREIGN = (
    "AWS_",
    "TIDEGATE_",
    "GOOGLE_",
    "GCE_",
    "STORAGE_",
    "AZURE_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "no_proxy",
    "http_proxy",
    "https_proxy",
    "all_proxy",
)


# Where the programs under test write down what they have open: not in the developer's home.
_STATE = tempfile.TemporaryDirectory(prefix="tidegate-state-")


def binary() -> Path:
    """The program under test; a relative TIDEGATE_BIN is taken from the repository's root."""
    return ROOT / os.environ.get("TIDEGATE_BIN", "target/release/tidegate")


def clean_env(extra=None):
    env = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    env["AWS_EC2_METADATA_DISABLED"] = "true"
    env["AWS_CONFIG_FILE"] = os.devnull
    env["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    env["XDG_STATE_HOME"] = _STATE.name
    env.update(extra or {})
    return env


@dataclass
class Result:
    """How one run ended. `peak_kib` is the kernel's own peak of resident memory; at least the ~10 MiB of the
    process that starts the program."""

    command: list
    exit: int
    out: bytes
    err: str
    peak_kib: int
    cpu_seconds: float
    seconds: float

    @property
    def text(self):
        return self.out.decode()

    @property
    def json(self):
        """The JSON objects on stdout, one a line."""
        return [json.loads(line) for line in self.text.splitlines() if line.strip()]

    @property
    def messages(self):
        """The JSON objects on stderr, one a line."""
        return [json.loads(line) for line in self.err.splitlines()]

    @property
    def said(self):
        """What is on stderr, as text with --json too."""
        return "".join(f"{as_text(line)}\n" for line in self.err.splitlines())

    def check_lines(self):
        """Whether every line is one of those that the schema of --json describes."""
        checked(self.text, LINES.keys() - MESSAGES)
        checked(self.err, MESSAGES)

    def __str__(self):
        shown = self.out[:2000].decode(errors="replace")
        return f"{' '.join(self.command)}\nexit {self.exit}\nstdout: {shown}\nstderr: {self.err}"


class Run:
    """A program under way. Its output goes to files, so it never waits for a reader."""

    # Whether it is `tidegate --json`, whose lines are checked.
    prints_lines = False

    def __init__(self, command, env, stdin, cwd, stdout):
        self.command = [str(word) for word in command]
        self._out = tempfile.TemporaryFile()
        self._err = tempfile.TemporaryFile()
        report, report_end = os.pipe()
        self._started = time.monotonic()
        data = stdin if isinstance(stdin, bytes) else None
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", _MEASURE, str(report_end), *self.command],
            stdin=subprocess.PIPE if data is not None else (subprocess.DEVNULL if stdin is None else stdin),
            stdout=self._out if stdout is None else stdout,
            stderr=self._err,
            env=clean_env(env),
            cwd=cwd,
            pass_fds=[report_end],
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        os.close(report_end)
        self._report = os.fdopen(report)
        self.pid = int(self._report.readline())
        if data is not None:
            threading.Thread(target=self._feed, args=(data,), daemon=True).start()

    def _feed(self, data):
        try:
            with self._child.stdin as pipe:
                pipe.write(data)
        except BrokenPipeError:
            pass  # It ended before it read all; how it ended is what the test looks at.

    @property
    def ended(self):
        return self._child.poll() is not None

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def killed(self):
        """Kills the program as the system would, and waits for its end."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait(20).exit == -signal.SIGKILL

    def kill(self):
        try:
            os.killpg(self._child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def output_so_far(self):
        return os.pread(self._out.fileno(), 1 << 20, 0).decode(errors="replace")

    def error_so_far(self):
        return os.pread(self._err.fileno(), 1 << 20, 0).decode(errors="replace")

    def close(self):
        """Nobody asks any more how it ended."""
        if not self.ended:
            self.kill()
            self._child.wait()
        for file in (self._out, self._err, self._report):
            file.close()

    def wait(self, timeout=60.0) -> Result:
        try:
            self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self._child.wait()
            raise AssertionError(
                f"not done after {timeout} s: {' '.join(self.command)}\n{self.error_so_far()}"
            ) from None
        seconds = time.monotonic() - self._started
        with self._report as report:
            status, peak, user, system = report.readline().split()
        with self._out, self._err:
            self._out.seek(0)
            self._err.seek(0)
            result = Result(
                command=self.command,
                exit=os.waitstatus_to_exitcode(int(status)),
                out=self._out.read(),
                err=self._err.read().decode(errors="replace"),
                peak_kib=int(peak),
                cpu_seconds=float(user) + float(system),
                seconds=seconds,
            )
        # What is killed may be in the middle of a line.
        if self.prints_lines and result.exit != -signal.SIGKILL:
            result.check_lines()
        return result


class CommandLine:
    """Starts `tidegate`, or another program, and remembers what it started, so that a failed test leaves nothing
    running."""

    def __init__(self, program=None):
        self._program = program or binary()
        self._runs = []

    def start(self, *arguments, env=None, stdin=None, stdout=None, cwd=None) -> Run:
        """`stdin` is bytes, a file or pipe, or None for an empty one; `stdout` a file or pipe, or None to have it
        in the result."""
        run = Run([self._program, *arguments], env, stdin, cwd, stdout)
        run.prints_lines = self._program == binary() and "--json" in arguments
        self._runs.append(run)
        return run

    def __call__(self, *arguments, env=None, stdin=None, stdout=None, cwd=None, timeout=60.0) -> Result:
        return self.start(*arguments, env=env, stdin=stdin, stdout=stdout, cwd=cwd).wait(timeout)

    def stop(self):
        for run in self._runs:
            run.close()
