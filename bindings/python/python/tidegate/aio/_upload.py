"""The upload of one object: what a writer is besides a file. `scripts/python-blocking` makes the blocking one from this."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, SupportsIndex, cast

from .. import _native
from .._close_guard import is_called_by_name
from .._ending import Ended, Ending, State
from .._wait import ProgressCallback, report
from ._start import run, run_reporting

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Upload:
    """An object that is being written, and how that ends; see :class:`tidegate.Writer`."""

    #: The published object; ``None`` before it is closed, and if it was discarded.
    object: _native.Object | None

    def __init__(self, native: _native.Writer, progress: ProgressCallback | None = None) -> None:
        self._native = native
        self._ending = Ending(native)
        self._progress = progress
        self.object = None

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

    async def sync(self) -> int:
        """With the strategy ``journal``, makes all bytes survive the process and a loss of power; returns how many that
        are."""
        self._ending.check_open()
        return cast("int", await run(self._native.sync()))

    async def close(self) -> None:
        """Publishes the object, unless that would publish a torn one; see :class:`tidegate.Writer`. Has no effect after
        the first time."""
        await self._end()

    async def publish(self) -> None:
        """Publishes the object, as :meth:`close`, also while an exception is being handled: for code that knows that
        the file is whole. Wrappers such as text files have to be flushed before. Still raises after a failed write, and
        has no effect after the end."""
        await self._end(is_whole=True)

    async def prepare(self, *, lifetime: float | None = None) -> _native.Pending:
        """Ends the file with all bytes at the store and nothing visible. :meth:`Store.commit` publishes the result in any
        process, and :meth:`Store.abandon` gives it up. ``lifetime`` is in seconds, six days by default; a shorter life at
        the store is a :class:`UserWarning`. Raises :class:`ClosedError` after a failed call."""
        ending = self._ending
        ending.check_open()
        ending.begins_to_publish(None, is_whole=True)
        try:
            self._ends()
            pending = cast("_native.Pending", await run_reporting(self._native.prepare(lifetime), self._progress))
        except BaseException as failure:
            ending.abandon(failure)
            raise
        ending.prepared(pending.warning)
        return pending

    async def persist(self, *, lifetime: float | None = None) -> _native.Resumable:
        """Makes all bytes so far outlast this process and this machine, and goes on. :meth:`Store.resume` continues from
        the result in any process, and :meth:`Store.abandon` gives the upload up; from here on, only that, :meth:`discard`
        and the end of the lifetime end what the store has. Wrappers such as text files have to be flushed before.
        ``lifetime`` is in seconds, six days by default; a shorter life at the store is a :class:`UserWarning`."""
        self._ending.check_open()
        point = cast("_native.Resumable", await run(self._native.persist(lifetime)))
        self._ending.persisted(point.warning)
        return point

    async def discard(self) -> None:
        """Publishes nothing, and waits until the store has released what was sent; but not in the handler of a signal
        that has interrupted a write. Has no effect after the end, nor in a forked child."""
        ending, native = self._ending, self._native
        if ending.state is not State.OPEN or native.waits_here() or not native.is_own():
            self._drop()
            return
        try:
            ending.leave(State.DISCARDED)
            self._ends()
            await run(native.abort())
        except BaseException:
            ending.abandon()
            raise

    async def _end(self, error: Ended = None, *, is_whole: bool = False) -> None:
        ending, publishes = self._ending, False
        try:
            publishes = ending.begins_to_publish(error, is_whole=is_whole)
            self._ends()
            if not publishes:
                return
            operation = self._native.finish()
            self.object = cast("_native.Object", await run_reporting(operation, self._progress))
            ending.published()
        except BaseException as failure:
            ending.abandon(failure if publishes else None)
            raise
        # The object is published, whatever the callback raises.
        report(operation, self._progress)

    def _drop(self) -> None:
        """Discards without waiting."""
        self._ending.drop()
        self._ends()

    def _ends(self) -> None:
        """Called when the upload takes no more bytes."""

    async def __aenter__(self) -> Self:
        self._ending.check_open()
        self._ending.opening.renew()
        self._ending.entered += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if kind is None:
            await self._end(is_whole=not is_called_by_name(sys._getframe()))
        else:
            await self._end(error if error is not None else kind)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise TypeError("a writer cannot be pickled: open one in each process")


async def prepare_uploads(
    store: _native.Store, pointer: str, uploads: Sequence[Upload], lifetime: float | None
) -> _native.Manifest:
    """Ends the uploads of a set as :meth:`Upload.prepare` ends one; see :meth:`tidegate.Store.prepare_all`."""
    for upload in uploads:
        upload._ending.check_open()
    try:
        for upload in uploads:
            upload._ending.begins_to_publish(None, is_whole=True)
            upload._ends()
        natives = [upload._native for upload in uploads]
        manifest = cast("_native.Manifest", await run(store.prepare_all(pointer, natives, lifetime)))
    except BaseException as failure:
        for upload in uploads:
            upload._ending.abandon(failure)
            upload._drop()
        raise
    for upload, pending in zip(uploads, manifest.pending, strict=True):
        upload._ending.prepared(pending.warning)
    return manifest
