"""Stores whose calls are awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from .. import _native
from .._settings import Range, check_range, native_options
from .._store import Tidegate
from .._wait import ProgressCallback
from ._calls import Calls
from ._files import Opening, Reader, Writer
from ._start import run

if TYPE_CHECKING:
    from typing import Unpack

    from .._options import WriteOptions


class Store(Calls):
    """One bucket or directory, or a prefix of it: ``s3://bucket/prefix``, ``gs://…``, ``az://…``, ``abfss://…``, a
    path, or ``memory://name``. Opening sends nothing.

    A store can be used by all threads, after a fork, and from a pickle. (The objects of ``memory://`` are in one
    process.)

    >>> import asyncio
    >>> import tidegate.aio
    >>> async def main():
    ...     store = tidegate.aio.Store("memory://docs")
    ...     await store.put("a/b.json", b'{"rows": 3}')
    ...     async for object in store.list("a/"):
    ...         print(object.key, await store.get(object.key))
    >>> asyncio.run(main())
    a/b.json b'{"rows": 3}'
    """

    @property
    def tide(self) -> Tidegate:
        """The engine."""
        return Tidegate.of(self._engine)

    def within(self, prefix: str) -> Store:
        return cast("Store", super().within(prefix))

    def writer(self, key: str, **options: Unpack[WriteOptions]) -> Opening[Writer]:
        """Opens ``key`` for writing, to be awaited or used with ``async with``; see :class:`Writer`."""
        progress = options.pop("progress", None)

        async def begin() -> Writer:
            native = cast("_native.Writer", await run(self.native().writer(key, native_options(options))))
            return Writer(native, progress)

        return Opening(begin)

    def resume(self, point: _native.Resumable, *, progress: ProgressCallback | None = None) -> Opening[Writer]:
        """Continues an upload that :meth:`Writer.persist` made a point of, in any process: a writer that goes on behind
        the point. :class:`SessionLostError` if the upload was published or given up, or its lifetime is over."""

        async def begin() -> Writer:
            return Writer(cast("_native.Writer", await run(self.native().resume(point))), progress)

        return Opening(begin)

    def reader(
        self,
        key: str,
        *,
        range: Range | None = None,
        if_unchanged: _native.Object | None = None,
        random: bool = False,
    ) -> Opening[Reader]:
        """Opens ``key``, or a range of it, for reading, to be awaited or used with ``async with``; see :class:`Reader`.

        Opening makes the first request, for the bytes from the beginning on. With ``random`` it only asks for the
        object's size, and each read is a request for just its bytes. With ``if_unchanged``, a description of the
        object, opening makes no request.
        """
        if range is not None:
            check_range(*range)
        return Opening(lambda: Reader._open(self, key, range, if_unchanged, random))
