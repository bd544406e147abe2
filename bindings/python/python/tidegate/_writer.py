"""Files that are written into a store: visible as a whole when they are closed, or never."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from . import _native, _wrappers
from ._upload import Upload
from ._wait import ProgressCallback

if TYPE_CHECKING:
    from typing import BinaryIO

    from _typeshed import ReadableBuffer

    class _File(io.BufferedIOBase, BinaryIO):
        """What type checkers know Python's own binary files for."""

else:
    _File = io.BufferedIOBase


class Writer(Upload, _File):
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

    mode: str

    def __init__(self, native: _native.Writer, progress: ProgressCallback | None = None) -> None:
        super().__init__(native, progress)
        if progress is not None:
            native.report_to(progress)
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
    def name(self) -> str:
        """The object's URL."""
        _wrappers.watch(self._ending, sys._getframe(1))
        return self._native.url

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

    def truncate(self, size: int | None = None, /) -> NoReturn:
        raise io.UnsupportedOperation("truncate")

    def detach(self) -> NoReturn:
        raise io.UnsupportedOperation("detach")

    # The end.

    def _ends(self) -> None:
        # From now on, `write` says how the file has ended.
        self.__dict__.pop("write", None)

    def _dealloc_warn(self, source: Any) -> None:
        """Called by Python's wrappers when they are garbage-collected, before they close."""
        self._ending.drop_forgotten()
        self._ends()

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
