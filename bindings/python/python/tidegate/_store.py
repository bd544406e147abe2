"""Stores: one bucket or directory, or a prefix of it. And the engines that open them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from . import _native
from ._calls import Calls
from ._engine_settings import EngineSettings
from ._files import open_file
from ._reader import Reader
from ._settings import Range, check_range, native_options
from ._wait import ProgressCallback, wait
from ._writer import Writer

if TYPE_CHECKING:
    import os
    from typing import Self, Unpack

    from ._engine_options import ReachOptions
    from ._options import WriteOptions


class Store(Calls):
    """One bucket or directory, or a prefix of it: ``s3://bucket/prefix``, ``gs://…``, ``az://…``, ``abfss://…``, a
    path, or ``memory://name``. Opening sends nothing.

    A store can be used by all threads, after a fork, and from a pickle. (The objects of ``memory://`` are in one
    process.)

    >>> import tidegate
    >>> store = tidegate.Store("memory://docs")
    >>> store.put("a/b.json", b'{"rows": 3}').size
    11
    >>> store.get("a/b.json")
    b'{"rows": 3}'
    >>> [object.key for object in store.list("a/")]
    ['a/b.json']
    """

    @property
    def tide(self) -> Tidegate:
        """The engine."""
        return Tidegate.of(self._engine)

    def within(self, prefix: str) -> Store:
        return cast("Store", super().within(prefix))

    def open(
        self,
        key: str,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> Any:
        """Opens ``key`` as a file; see :func:`tidegate.open`."""
        return open_file(self, key, mode, buffering, encoding, errors, newline, cast("dict[str, Any]", options))

    def writer(self, key: str, **options: Unpack[WriteOptions]) -> Writer:
        """Opens ``key`` for writing; see :class:`Writer`."""
        progress = options.pop("progress", None)
        native = cast("_native.Writer", wait(self.native().writer(key, native_options(options))))
        return Writer(native, progress)

    def resume(self, point: _native.Resumable, *, progress: ProgressCallback | None = None) -> Writer:
        """Continues an upload that :meth:`Writer.persist` made a point of, in any process: a writer that goes on behind
        the point. :class:`SessionLostError` if the upload was published or given up, or its lifetime is over."""
        return Writer(cast("_native.Writer", wait(self.native().resume(point))), progress)

    def reader(
        self,
        key: str,
        *,
        range: Range | None = None,
        if_unchanged: _native.Object | None = None,
        random: bool = False,
    ) -> Reader:
        """Opens ``key``, or a range of it, for reading; see :class:`Reader`.

        Opening makes the first request, for the bytes from the beginning on. With ``random`` it only asks for the
        object's size, and each read is a request for just its bytes. With ``if_unchanged``, a description of the
        object, opening makes no request.
        """
        if range is not None:
            check_range(*range)
        return Reader(self, key, range=range, if_unchanged=if_unchanged, random=random)


class Tidegate(EngineSettings):
    """The settings of an engine: one memory budget, and one limiter for each endpoint.

    All stores of one process with equal settings share one engine, which is made when it is first needed, and anew
    after a fork. So this can be compared, hashed, and pickled.

    >>> import tidegate
    >>> tide = tidegate.Tidegate(memory=64 << 20)
    >>> store = tide.open("memory://demo")
    >>> store.put("a/b.json", b"{}").size
    2
    """

    __slots__ = ()

    @classmethod
    def of(cls, settings: EngineSettings) -> Self:
        """The engine of these settings."""
        return settings if isinstance(settings, cls) else cls(**settings.options)

    def open(self, url: str | os.PathLike[str], **options: Unpack[ReachOptions]) -> Store:
        """Opens a store of this engine; see :class:`tidegate.Store`."""
        return Store(url, tide=self, **options)
