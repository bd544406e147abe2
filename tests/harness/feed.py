"""Standard inputs that a test steers: a pipe that stays open, a source that fails in the middle."""

import os
import socket
import struct
import threading
from contextlib import contextmanager


class Pipe:
    """A pipe whose writing end the test holds: what is sent arrives, and the end comes when the test says so."""

    def __init__(self):
        read, self._write = os.pipe()
        self.stdin = os.fdopen(read, "rb", buffering=0)
        self._thread = None

    def started(self):
        """To be called when the program has its own copy of the reading end."""
        self.stdin.close()

    def send(self, data: bytes):
        """Sends in the background: a pipe holds 64 KiB and the program may be slow."""
        self.join()
        self._thread = threading.Thread(target=self._send, args=(data,), daemon=True)
        self._thread.start()

    def _send(self, data):
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._write, view) :]
        except BrokenPipeError:
            pass  # The program ended first; how it ended is what the test looks at.

    def join(self):
        if self._thread is not None:
            self._thread.join(60)
            assert not self._thread.is_alive(), "the program stopped reading its standard input"
            self._thread = None

    def end(self):
        """All was sent: the program reads its end."""
        self.join()
        self.close()

    def close(self):
        if self._write is not None:
            os.close(self._write)
            self._write = None
        if not self.stdin.closed:
            self.stdin.close()


@contextmanager
def open_pipe():
    pipe = Pipe()
    try:
        yield pipe
    finally:
        # The reader is gone or about to be killed; a sender that is still blocked ends with it.
        thread, pipe._thread = pipe._thread, None
        if thread is not None:
            thread.join(5)
        pipe.close()


class FailingSource:
    """A standard input whose reading fails, after some bytes, with an error (not an end): a TCP connection that
    the other side resets."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._sender = socket.create_connection(listener.getsockname())
            self.stdin, _ = listener.accept()

    def started(self):
        self.stdin.close()

    def send(self, data: bytes):
        self._sender.settimeout(60)
        self._sender.sendall(data)

    def fail(self):
        self._sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sender.close()

    def close(self):
        self.stdin.close()
        self._sender.close()


@contextmanager
def failing_source():
    source = FailingSource()
    try:
        yield source
    finally:
        source.close()
