"""Writers and readers whose calls are awaited."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, SupportsIndex, TypeVar, cast

from .. import _native
from .._close_guard import is_by_stack_close
from .._ending import Ended, Ending, State
from .._errors import closed
from .._reader import sought
from .._wait import REPORT_EVERY, ProgressCallback, report
from ._start import run, run_reporting

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from _typeshed import ReadableBuffer

    from .._settings import StoreSettings

#: The most bytes that an iteration over a reader gives at a time.
_PIECE = 1 << 20


class Writer:
    """Writes one object, as :class:`tidegate.Writer`: visible as a whole when :meth:`close` has ended, or never. It is
    discarded in the same cases; a cancelled task is one of them."""

    #: The published object; ``None`` before it is closed, and if it was discarded.
    object: _native.Object | None
    #: The object's URL.
    name: str

    def __init__(self, native: _native.Writer, progress: ProgressCallback | None = None) -> None:
        self._native = native
        self._ending = Ending(native)
        self._progress = progress
        self._reported = time.monotonic()
        self.object = None
        self.name = native.url

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

    async def write(self, data: ReadableBuffer, /) -> int:
        """Takes all of ``data``. Waits while the memory budget is used up, or as many parts are in flight as the
        strategy allows. A write that is cancelled discards the upload."""
        ending = self._ending
        ending.check_open()
        # An exception of this call says that nothing was taken, or it was a failure that `ending` knows from the native
        # half.
        taken = self._native.write_later(data)
        try:
            if type(taken) is not int:
                taken = await run(cast("_native.Operation", taken))
            if self._progress is not None and time.monotonic() - self._reported >= REPORT_EVERY:
                self._reported = time.monotonic()
                self._progress(self._native.progress())
        except BaseException:
            ending.fail()
            raise
        return cast("int", taken)

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
        the file is whole. Still raises after a failed write, and has no effect after the end."""
        await self._end(is_whole=True)

    async def discard(self) -> None:
        """Publishes nothing, and waits until the store has released what was sent. Has no effect after the end, nor in
        a forked child."""
        ending, native = self._ending, self._native
        if ending.state is not State.OPEN or not native.is_own():
            ending.drop()
            return
        try:
            ending.leave(State.DISCARDED)
            await run(native.abort())
        except BaseException:
            ending.abandon()
            raise

    async def _end(self, error: Ended = None, *, is_whole: bool = False) -> None:
        ending, publishes = self._ending, False
        try:
            publishes = ending.begins_to_publish(error, is_whole=is_whole)
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

    async def __aenter__(self) -> Writer:
        self._ending.check_open()
        self._ending.opening.renew()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if kind is None:
            await self._end(is_whole=not is_by_stack_close(sys._getframe()))
        else:
            await self._end(error if error is not None else kind)

    def __del__(self) -> None:
        ending = getattr(self, "_ending", None)
        if ending is not None:
            ending.drop_forgotten()

    def __repr__(self) -> str:
        return f"<tidegate.aio.Writer {self.name!r}, {self._ending.state.value}>"

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise TypeError("a writer cannot be pickled: open one in each process")


class Reader:
    """Reads one object, or a range of it, as :class:`tidegate.Reader`. Iterating gives its bytes as they arrive."""

    #: The object's URL.
    name: str

    def __init__(self, native: _native.Reader, name: str) -> None:
        self._native: _native.Reader | None = native
        self._object, self._size = native.object, native.size
        self._position = 0
        self.name = name

    @classmethod
    async def _open(
        cls,
        store: StoreSettings,
        key: str,
        range: tuple[int, int | None] | None,
        if_unchanged: _native.Object | None,
        random: bool,
    ) -> Reader:
        native = await run(store.native().reader(key, range, if_unchanged, random))
        return cls(cast("_native.Reader", native), store.url_of(key))

    def _own(self) -> _native.Reader:
        if self._native is None:
            raise closed(self.name, "I/O operation on a closed file")
        return self._native

    @property
    def object(self) -> _native.Object:
        """The object that is being read, as the store described it."""
        return self._object

    @property
    def size(self) -> int:
        """How many bytes there are to read."""
        return self._size

    @property
    def closed(self) -> bool:
        return self._native is None

    def progress(self) -> _native.Progress:
        """The figures of the read now."""
        return self._own().progress()

    async def read(self, size: int | None = -1, /) -> bytes:
        """Reads ``size`` bytes, fewer only at the end; all that are left if it is negative."""
        most = None if size is None or size < 0 else size
        data = cast("bytes", await run(self._own().read_later(self._position, most)))
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Continues at another position. Waits for nothing, so it is not awaited."""
        self._own()
        self._position = sought(offset, whence, self._position, self._size)
        return self._position

    def tell(self) -> int:
        self._own()
        return self._position

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := cast("bytes", await run(self._own().piece_later(self._position, _PIECE))):
            self._position += len(piece)
            yield piece

    async def close(self) -> None:
        """Cancels what was requested."""
        self._native = None

    async def __aenter__(self) -> Reader:
        self._own()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"at {self._position} of {self._size}"
        return f"<tidegate.aio.Reader {self.name!r}, {state}>"


File = TypeVar("File", Reader, Writer)


class Opening(Generic[File]):
    """A file that is being opened: await it, or use it with ``async with``."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, File]]) -> None:
        self._begin: Callable[[], Coroutine[Any, Any, File]] = begin
        self._file: File | None = None

    def __await__(self) -> Generator[Any, Any, File]:
        return self._begin().__await__()

    async def __aenter__(self) -> File:
        self._file = await self._begin()
        await self._file.__aenter__()
        return self._file

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if self._file is not None:
            await self._file.__aexit__(kind, error, traceback)
