"""Transactions: files that are published together at their end."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from fsspec.transaction import Transaction

from .._close_guard import Opening, Stopped, is_called_by_name
from .._unpublished import says_success

if TYPE_CHECKING:
    from ._listings import ListedFileSystem
    from ._written import DeferredFile

_HOW = "end_transaction() after the `except` block publishes it, and so does the end of a `with` block"


class ObjectTransaction(Transaction):  # type: ignore[misc]
    """The files of one transaction. The end publishes them, or discards them all if an exception stopped the code
    between the start and the end.

    Whatever happens at the end, writes after it are published when they are closed. Some versions of fsspec leave the
    file system in the transaction if publishing fails, and nothing would publish the files that are written then.
    """

    def __init__(self, fs: ListedFileSystem, **options: Any) -> None:
        super().__init__(fs, **options)
        #: ``None`` once it has ended.
        self.fs: ListedFileSystem | None = fs
        # ``start_transaction`` begins here, and a ``with`` block at `start`.
        self._opening = Opening()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if kind is None and is_called_by_name(sys._getframe()):
            self.complete()
        else:
            is_silent = kind is not None and says_success(error if error is not None else kind)
            self._end(kind is None, _HOW if is_silent else None)

    def start(self) -> None:
        if self.files:
            raise RuntimeError("a transaction of this file system has files already: they are published at its end")
        if self.fs is None:
            raise RuntimeError("this transaction has ended: begin another with `fs.transaction`")
        self._opening = Opening()
        self.fs._intrans = True

    def has_file(self, path: str) -> bool:
        """Whether a file of this path waits for the end."""
        return any(file.path == path and file.is_waiting for file in cast("list[DeferredFile]", list(self.files)))

    def complete(self, commit: bool = True) -> None:
        """Publishes the files, one after the other, once all are known to be complete. Where publishing one fails, those
        before it are published, and the others are discarded."""
        stopped = self._opening.stopped() if commit else None
        is_silent = stopped is not None and (stopped is not Stopped.BLOCK or says_success(sys.exception()))
        self._end(commit and stopped is None, _HOW if is_silent else None)

    def _end(self, publishes: bool, how: str | None) -> None:
        fs = self.fs
        if fs is None:
            return
        files = cast("list[DeferredFile]", list(self.files))
        try:
            if publishes:
                for file in files:
                    file.check_complete()
                while files:
                    files[0].publish_complete()
                    del files[0]
        finally:
            try:
                for file in files:
                    file.drop(how)
            finally:
                self.files.clear()
                self.fs = None
                fs._intrans, fs._transaction = False, None
                fs._invalidated_caches_in_transaction.clear()
