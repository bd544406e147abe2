"""A server process: started, asked until it is ready, killed whatever happens, its log shown if it failed."""

import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Runs in the child: the kernel kills it when the test run dies, even by SIGKILL."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


# A socket for each port that `free_port` has given: while it is open, other processes know that the port is taken.
_claims: list[socket.socket] = []


def free_port():
    """A port for a server that is about to start. No other process gets the same port here while this process lives. The
    port is below those that the kernel gives to connections, if it leaves any: a server that was killed finds the port
    free when it starts again."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        claim = socket.socket(socket.AF_UNIX)
        try:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", random.randrange(10_000, first) if first > 12_000 else 0))
                port = probe.getsockname()[1]
            claim.bind(f"\0tidegate-tests-port-{port}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port


def until(what, ask, timeout=30.0, every=0.02):
    """Asks until the answer is true, and returns it. Past the timeout it fails with `what`."""
    deadline = time.monotonic() + timeout
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout} s still not true: {what}")
        time.sleep(every)


class Server:
    """A running program. `ready` is asked until it answers true; a program that ends first is an error."""

    def __init__(self, name, command, log: Path, env=None):
        self.name = name
        self.log = log
        with open(log, "wb") as out:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def wait_ready(self, ready, timeout=30.0):
        def ask():
            if self._child.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self._child.returncode}:\n{self.log_end()}")
            return ready()

        try:
            return until(f"{self.name} is ready", ask, timeout)
        except AssertionError as late:
            raise RuntimeError(f"{late}\n{self.log_end()}") from None

    @property
    def running(self):
        return self._child.poll() is None

    def cpu_seconds(self):
        """User and system time of the program until now."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log_end(self, lines=40):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def kill(self):
        """`kill -9` to it and to what it started."""
        try:
            os.killpg(self._child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._child.wait()

    def stop(self):
        """Asks it to end, and kills it and what it started if it does not."""
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(5)
            except subprocess.TimeoutExpired:
                pass
        self.kill()
