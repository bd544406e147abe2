"""Files that are written into a store: visible as a whole when they are closed, or never."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, cast

from . import _native, _wrappers
from ._close_guard import is_by_stack_close
from ._ending import Ended, Ending, State
from ._wait import ProgressCallback, report, wait, wait_reporting

if TYPE_CHECKING:
    from typing import BinaryIO

    from _typeshed import ReadableBuffer

    class _File(io.BufferedIOBase, BinaryIO):
        """What type checkers know Python's own binary files for."""

else:
    _File = io.BufferedIOBase


class Writer(_File):
    """Writes one object: a binary file that is open for writing.

    :meth:`close` publishes the object, and the end of a ``with`` block closes. Nothing is visible before. Nothing ever
    becomes visible, and the upload is aborted, if

    - an exception ends the ``with`` block, or one around a wrapper of the file,
    - :meth:`close` is called while an exception is in flight that was not in flight when the file was opened
      (:meth:`publish` does not ask for that),
    - a call has failed,
    - the writer is garbage-collected, or the program ends, before it is closed,
    - :meth:`discard` is called,
    - the process is killed.

    Each of them but :meth:`discard` and a killed process is a record of the logger ``tidegate``, and
    :class:`NotPublishedWarning` if no ordinary exception says so.

    With the strategy ``journal`` the upload then stays in its journal, for :func:`tidegate.recover`; only
    :meth:`discard` removes it.

    Only the process that opened a writer can use it. In a forked child it is inert: writing raises :class:`ForkError`,
    and dropping it does nothing to the upload.
    """

    #: The published object; ``None`` before it is closed, and if it was discarded.
    object: _native.Object | None
    mode: str

    def __init__(self, native: _native.Writer, progress: ProgressCallback | None = None) -> None:
        self._native = native
        self._ending = Ending(native)
        self._progress = progress
        if progress is not None:
            native.report_to(progress)
        self.object = None
        self.mode = "wb"
        if type(self).write is Writer.write:
            # A wrapper that is written in C calls the native method itself. At the beginning of a Python function,
            # Python may handle a signal: an exception of its handler would lose the wrapper's bytes, and nothing here
            # would know.
            self.write = native.write  # type: ignore[method-assign]

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
    def name(self) -> str:
        """The object's URL."""
        _wrappers.watch(self._ending, sys._getframe(1))
        return self._native.url

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
        self._ending.check_open()
        return self._native.write(data)

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
        self._end()

    def publish(self) -> None:
        """Publishes the object, as :meth:`close`, also while an exception is being handled: for code that knows that
        the file is whole. Wrappers such as text files have to be flushed before. Still raises after a failed write, and
        has no effect after the end."""
        self._end(is_whole=True)

    def discard(self) -> None:
        """Publishes nothing, and waits until the store has released what was sent; but not in the handler of a signal
        that has interrupted a write. Has no effect after the end, nor in a forked child."""
        ending, native = self._ending, self._native
        if ending.state is not State.OPEN or native.waits_here() or not native.is_own():
            self._drop()
            return
        try:
            ending.leave(State.DISCARDED)
            self._use_own_write()
            wait(native.abort())
        except BaseException:
            ending.abandon()
            raise

    def _end(self, error: Ended = None, *, is_whole: bool = False) -> None:
        ending, publishes = self._ending, False
        try:
            publishes = ending.begins_to_publish(error, is_whole=is_whole)
            self._use_own_write()
            if not publishes:
                return
            operation = self._native.finish()
            self.object = cast("_native.Object", wait_reporting(operation, self._progress))
            ending.published()
        except BaseException as failure:
            ending.abandon(failure if publishes else None)
            raise
        # The object is published, whatever the callback raises.
        report(operation, self._progress)

    def _drop(self) -> None:
        """Discards without waiting."""
        self._ending.drop()
        self._use_own_write()

    def _use_own_write(self) -> None:
        """Has `write` say how the file has ended."""
        self.__dict__.pop("write", None)

    def __enter__(self) -> Writer:
        self._ending.check_open()
        self._ending.opening.renew()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if kind is None:
            self._end(is_whole=not is_by_stack_close(sys._getframe()))
        else:
            self._end(error if error is not None else kind)

    def _dealloc_warn(self, source: Any) -> None:
        """Called by Python's wrappers when they are garbage-collected, before they close."""
        self._ending.drop_forgotten()
        self._use_own_write()

    def __del__(self) -> None:
        ending = getattr(self, "_ending", None)
        if ending is None:
            return
        if ending.dropped is not None and not ending.is_closed:
            ending.dropped.append(self)
        else:
            ending.drop_forgotten()

    def __repr__(self) -> str:
        return f"<tidegate.Writer {self.name!r}, {self._ending.state.value}>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise TypeError("a writer cannot be pickled: open one in each process")
