# Made from aio/_left.py by scripts/python-blocking: change that file.
"""Uploads that were left in journals by processes that ended before them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from . import _native
from ._wait import ProgressCallback, wait
from ._writer import Writer

if TYPE_CHECKING:
    from typing import Protocol

    class _Store(Protocol):
        def native(self) -> _native.Store: ...


class LeftUpload:
    """An upload that was left in a journal, or that is being written now."""

    def __init__(self, native: _native.LeftUpload, store: _Store | None = None) -> None:
        self._native = native
        self._store = store

    @property
    def id(self) -> str:
        """The upload's id: the name of its journal file without the extension."""
        return self._native.id

    @property
    def path(self) -> str:
        """The journal file."""
        return os.fspath(self._native.path)

    @property
    def url(self) -> str | None:
        """The object's URL; ``None`` if the journal cannot be read."""
        return self._native.url

    @property
    def length(self) -> int:
        """Bytes of the object that are in the journal, or that the store has acknowledged."""
        return self._native.length

    @property
    def is_finished(self) -> bool:
        """Whether its producer had finished, so that the upload can be completed without the producer."""
        return self._native.is_finished

    @property
    def problem(self) -> str | None:
        """Why it cannot be resumed: it is being written, or damaged."""
        return self._native.problem

    def resume(
        self, store: _Store | None = None, *, progress: ProgressCallback | None = None
    ) -> Writer | _native.Object:
        """Resumes the upload. If its producer had finished, publishes the object and returns it. Otherwise returns a
        writer: continue from its :meth:`Writer.tell`.

        A journal does not keep how a store is reached: give ``store`` if that is not as the environment says.
        """
        store = store or self._store
        resumed = wait(self._native.resume(store.native() if store else None))
        if isinstance(resumed, _native.Writer):
            return Writer(resumed, progress)
        return cast("_native.Object", resumed)

    def abort(self, store: _Store | None = None) -> _native.Object | None:
        """Ends the upload without an object, and removes its journal. If its object turns out to have been published,
        it stays and is returned."""
        store = store or self._store
        return cast("_native.Object | None", wait(self._native.abort(store.native() if store else None)))

    def forget(self) -> None:
        """Removes the journal with all its bytes, and sends nothing to the store."""
        wait(self._native.forget())

    def __repr__(self) -> str:
        if self.problem is not None:
            return f"<tidegate.LeftUpload {self.id}: {self.problem}>"
        return f"<tidegate.LeftUpload of {self.url!r}, {self.length} bytes>"
