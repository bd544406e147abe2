"""Writers and readers whose calls are awaited."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .. import _native
from .._close_guard import is_called_by_name
from .._errors import closed
from .._reading import Reading
from .._wait import REPORT_EVERY, ProgressCallback
from ._start import run
from ._upload import Upload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from _typeshed import ReadableBuffer

    from .._settings import StoreSettings

#: The most bytes that an iteration over a reader gives at a time.
_PIECE = 1 << 20


class Writer(Upload):
    """Writes one object, as :class:`tidegate.Writer`: visible as a whole when :meth:`close` has ended, or never. It is
    discarded in the same cases; a cancelled task is one of them."""

    #: The object's URL.
    name: str

    def __init__(self, native: _native.Writer, progress: ProgressCallback | None = None) -> None:
        super().__init__(native, progress)
        self._reported = time.monotonic()
        self.name = native.url

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

    # `close` and `__aexit__` are plain functions that return coroutines: the task that runs the coroutine may be another
    # one, in which no exception is in flight. So they decide when they are called.

    def close(self) -> Coroutine[Any, Any, None]:
        """Publishes the object, unless that would publish a torn one; see :class:`tidegate.Writer`. Has no effect after
        the first time. The call decides, and awaiting its result publishes: ``asyncio.shield(file.close())`` in a
        ``finally`` discards after an exception, whichever task publishes."""
        self._ending.drop_if_stopped()
        return super().close()

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> Coroutine[Any, Any, None]:
        if kind is None and is_called_by_name(sys._getframe()):
            self._ending.drop_if_stopped()
        return super().__aexit__(kind, error, traceback)

    def __del__(self) -> None:
        ending = getattr(self, "_ending", None)
        if ending is not None:
            ending.drop_forgotten()

    def __repr__(self) -> str:
        return f"<tidegate.aio.Writer {self.name!r}, {self._ending.state.value}>"


class Reader(Reading):
    """Reads one object, or a range of it, as :class:`tidegate.Reader`. Iterating gives its bytes as they arrive."""

    def __init__(self, native: _native.Reader, name: str) -> None:
        self._native: _native.Reader | None = native
        self._begin(native, name)

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
    def closed(self) -> bool:
        return self._native is None

    async def read(self, size: int | None = -1, /) -> bytes:
        """Reads ``size`` bytes, fewer only at the end; all that are left if it is negative."""
        most = None if size is None or size < 0 else size
        data = cast("bytes", await run(self._own().read_later(self._position, most)))
        self._position += len(data)
        return data

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

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> Coroutine[Any, Any, None]:
        # A plain function, as that of the writer, which looks at its callers.
        return self._file.__aexit__(kind, error, traceback) if self._file is not None else _nothing()


async def _nothing() -> None:
    pass
