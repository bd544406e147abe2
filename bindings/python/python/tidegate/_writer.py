"""Files that are written into a store: visible as a whole when they are closed, or never."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, cast

from . import _native
from ._ending import Ending, State
from ._errors import ForkError
from ._wait import REPORT_EVERY, ProgressCallback, wait

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Writer(io.BufferedIOBase):
    """Writes one object: a binary file that is open for writing.

    :meth:`close` publishes the object, and the end of a ``with`` block closes. Nothing is visible before. Nothing ever
    becomes visible, and the upload is aborted, if

    - an exception ends the ``with`` block,
    - :meth:`close` is called while an exception is being handled that was not being handled when the file was opened,
    - a call has failed,
    - the writer is garbage-collected, or the interpreter exits, before it is closed,
    - :meth:`discard` is called,
    - the process is killed.

    With the strategy ``journal`` the upload then stays in its journal, for :func:`tidegate.recover`; only
    :meth:`discard` removes it.

    Only the process that opened a writer can use it. In a forked child it is inert: writing raises :class:`ForkError`,
    and dropping it does nothing to the upload.
    """

    #: The published object; ``None`` before it is closed, and if it was discarded.
    object: _native.Object | None
    #: The object's URL.
    name: str
    mode: str

    def __init__(self, native: _native.Writer, progress: ProgressCallback | None = None) -> None:
        self._native = native
        self._ending = Ending(native)
        self._progress = progress
        self._reported = time.monotonic()
        self.object = None
        self.name = native.url
        self.mode = "wb"

    # What a file can do.

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return self._ending.is_closed

    @property
    def strategy(self) -> str:
        """The strategy in use; never ``auto``."""
        return self._native.strategy

    def tell(self) -> int:
        """How many bytes were written; of a resumed upload, with those that its journal has."""
        self._ending.check_open()
        return self._native.position()

    def progress(self) -> _native.Progress:
        """The figures of the upload now."""
        return self._native.progress()

    # Bytes.

    def write(self, data: ReadableBuffer, /) -> int:
        """Takes all of ``data``. Waits while the memory budget is used up, or as many parts are in flight as the
        strategy allows. The bytes of a ``bytes`` of 64 KiB or more are not copied."""
        ending = self._ending
        if ending.state is not State.OPEN:
            ending.check_open()
        try:
            taken = self._native.write(data)
            if type(taken) is not int:
                taken = wait(cast("_native.Operation", taken))
        except (TypeError, BufferError, ForkError):
            raise  # nothing was taken
        except BaseException:
            ending.fail()
            raise
        if self._progress is not None:
            self._report(self._progress)
        return cast("int", taken)

    def writelines(self, lines: Iterable[ReadableBuffer], /) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Does nothing: nothing is visible before :meth:`close`. See :meth:`sync`."""
        if not self.closed:
            self._ending.check_open()

    def sync(self) -> int:
        """With the strategy ``journal``, makes all bytes survive the process and a loss of power; returns how many that
        are."""
        self._ending.check_open()
        return cast("int", wait(self._native.sync()))

    def truncate(self, size: int | None = None, /) -> NoReturn:
        raise io.UnsupportedOperation("truncate")

    def detach(self) -> NoReturn:
        raise io.UnsupportedOperation("detach")

    # The end.

    def close(self) -> None:
        """Publishes the object, unless that would publish a torn one; see :class:`Writer`. Has no effect after the
        first time."""
        self._end(None)

    def discard(self) -> None:
        """Publishes nothing, and waits until the store has released what was sent. Has no effect after the end, nor in
        a forked child."""
        if self._ending.state is State.OPEN:
            self._ending.leave(State.DISCARDED)
            if self._native.is_own():
                wait(self._native.abort())
        else:
            self._ending.drop()

    def _end(self, error: type[BaseException] | None) -> None:
        if self._ending.begins_to_publish(error):
            self.object = cast("_native.Object", wait(self._native.finish(), self._progress))
            self._ending.published()

    def _report(self, progress: ProgressCallback) -> None:
        now = time.monotonic()
        if now - self._reported >= REPORT_EVERY:
            self._reported = now
            progress(self._native.progress())

    def __enter__(self) -> Writer:
        self._ending.check_open()
        self._ending.opening.renew()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self._end(kind)

    def _dealloc_warn(self, source: Any) -> None:
        """Called by Python's wrappers when they are garbage-collected, before they close."""
        self._ending.drop()

    def __del__(self) -> None:
        ending = getattr(self, "_ending", None)
        if ending is not None:
            ending.drop()

    def __repr__(self) -> str:
        return f"<tidegate.Writer {self.name!r}, {self._ending.state.value}>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise TypeError("a writer cannot be pickled: open one in each process")
