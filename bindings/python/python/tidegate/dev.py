"""The embedded server, for trials and tests: the command ``tidegate serve``, which the package installs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from ._store import Store

if TYPE_CHECKING:
    from ._options import StoreOptions

#: Runs the server until the program that has started it closes its end of the pipe, which the kernel does however that
#: program ends.
_UNTIL_CLOSED = 'exec 3<&0; (read _ <&3; kill $$) & exec "$@" </dev/null 3<&-'

#: Seconds that the server gets to start, and to stop.
_PATIENCE = 30.0


class Server:
    """A server that runs until :meth:`stop`, the end of its ``with`` block, or that of the program, however that ends. It
    speaks S3 and Google Cloud Storage, and creates a bucket at the first write to it.

    >>> import tidegate.dev
    >>> with tidegate.dev.serve() as server:
    ...     store = server.store("demo")
    ...     store.put("hello.txt", b"hello, tide").size
    11
    """

    #: Its address, as ``http://127.0.0.1:PORT``.
    url: str

    def __init__(self, storage: str = "memory") -> None:
        self._log = tempfile.NamedTemporaryFile(prefix="tidegate-serve-", suffix=".log")  # noqa: SIM115
        command = ["sh", "-c", _UNTIL_CLOSED, "sh", binary(), "serve", "--listen", "127.0.0.1:0"]
        command += ["--storage", storage, "--auto-create-buckets"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True
        )
        if self._process.stdin is not None:
            _pipes.add(self._process.stdin)
        # Also when nobody calls it: once the server is garbage-collected, and at the exit of the program.
        self._stop = weakref.finalize(self, _stop, self._process, self._log, os.getpid())
        try:
            self.url = self._said_url()
        except BaseException:
            self.stop()
            raise

    def _said_url(self) -> str:
        deadline = time.monotonic() + _PATIENCE
        while True:
            text = Path(self._log.name).read_text(errors="replace")
            said = re.search(r"listening on (http://127[\d.]+:\d+)\n", text)
            if said:
                return said[1]
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the embedded server did not start: {text.strip()}")
            time.sleep(0.01)

    @property
    def options(self) -> StoreOptions:
        """The options by which a store of ``s3://`` is reached here."""
        return {
            "endpoint_url": self.url,
            "access_key": "tidegate",
            "secret_key": "tidegate",
            "region": "us-east-1",
            "kept_conditions": True,
        }

    def store(self, bucket: str, **options: Any) -> Store:
        """The store of a bucket, or of a prefix of it, such as ``bucket/prefix``."""
        return Store(f"s3://{bucket}", **{**self.options, **options})

    def stop(self) -> None:
        """Stops the server. Has no effect after the first time, nor in a forked child."""
        self._stop()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<tidegate.dev.Server {self.url}>"


def _stop(process: subprocess.Popen[bytes], log: IO[bytes], owner: int) -> None:
    if owner != os.getpid():
        return
    if process.stdin is not None:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    log.close()


#: The pipes to the servers of this program. A forked child closes them: it is not the program.
_pipes: weakref.WeakSet[IO[bytes]] = weakref.WeakSet()


def _close_in_child() -> None:
    for pipe in list(_pipes):
        pipe.close()


os.register_at_fork(after_in_child=_close_in_child)


def serve(storage: str = "memory") -> Server:
    """Starts an embedded server on a free port, with its objects in ``memory`` or in ``disk:PATH``."""
    return Server(storage)


def binary() -> str:
    """The program ``tidegate``: what ``TIDEGATE_BIN`` names, what this package has installed, or that on ``PATH``."""
    given = os.environ.get("TIDEGATE_BIN")
    scripts = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    found = given or shutil.which("tidegate", path=os.pathsep.join(scripts)) or shutil.which("tidegate")
    if not found:
        raise FileNotFoundError("the program tidegate is not installed beside this package, nor on PATH")
    return found
