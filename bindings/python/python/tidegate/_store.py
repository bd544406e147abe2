"""Stores: one bucket or directory, or a prefix of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from . import _native
from ._engine_options import TIDE_OPTIONS, ReachOptions
from ._errors import Error
from ._files import open_file
from ._local import check_source, check_target, path_of
from ._options import no_option
from ._reader import Reader
from ._recover import LeftUpload
from ._tide import Tidegate, frozen
from ._wait import ProgressCallback, wait
from ._writer import Writer

if TYPE_CHECKING:
    from typing import Unpack

    from _typeshed import ReadableBuffer

    from ._options import CopyOptions, DownloadOptions, StoreOptions, UploadOptions, WriteOptions

#: Options whose values are never shown.
_SECRETS = frozenset({"secret_key", "session_token", "token", "account_key", "sas", "connection_string"})

#: What a method that stands after `Store.list` calls `list`.
List = list
#: A range of bytes: the first, and the one after the last; ``None`` is the end of the object.
Range = tuple[int, int | None]
#: Whether a bucket keeps the versions of its objects.
Versioning = Literal["off", "enabled", "suspended"]


class DeleteReport(NamedTuple):
    """What a removal of many objects has done."""

    #: How many keys have no object any more.
    deleted: int
    #: The other keys, each with the reason.
    failed: list[tuple[str | None, Error]]


def split_engine(options: Mapping[str, Any]) -> tuple[Tidegate, dict[str, Any]]:
    """The engine that the options of a store name or describe, and the other options: how the store is reached."""
    reach = dict(options)
    tide = reach.pop("tide", None)
    engine = {name: reach.pop(name) for name in list(reach) if name in TIDE_OPTIONS}
    if tide is not None and engine:
        raise TypeError(f"the option {next(iter(engine))!r} belongs to an engine, and `tide` is given too")
    if unknown := [name for name in reach if name not in ReachOptions.__optional_keys__]:
        raise no_option(unknown[0], {*ReachOptions.__optional_keys__, *TIDE_OPTIONS})
    return cast("Tidegate", tide if tide is not None else Tidegate(**engine)), reach


class StoreSettings:
    """How a store is reached: what both faces of a store have. A pickle has just this; so credentials that were found
    in the environment are not in it."""

    def __init__(self, url: str | os.PathLike[str], **options: Unpack[StoreOptions]) -> None:
        text = os.fspath(url)
        self.url = path_of(text) or text
        self.tide, reach = split_engine(options)
        self._options = frozen(reach)
        self._prefix: tuple[str, ...] = ()
        # At once, so that a mistake in the URL or in the options is known here.
        self._opened: tuple[int, _native.Store] | None = (os.getpid(), self._open())

    def _open(self) -> _native.Store:
        store = _native.Store(self.tide.engine(), self.url, dict(self._options))
        for prefix in self._prefix:
            store = store.within(prefix)
        return store

    def native(self) -> _native.Store:
        """The native half of this process."""
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            opened = self._opened = (os.getpid(), self._open())
        return opened[1]

    @property
    def location(self) -> str:
        """The store's URL without a trailing slash; of a local directory its path."""
        return self.native().location()

    def url_of(self, key: str) -> str:
        """The URL of a key."""
        return f"{self.location}/{key}"

    def in_flight_limit(self) -> int:
        """How many requests to the store's endpoint may be in flight now."""
        return self.native().in_flight_limit()

    def within(self, prefix: str) -> Any:
        """The part of this store below ``prefix``: keys are relative to it."""
        state = self.__getstate__()
        state["prefix"] = (*state["prefix"], prefix)
        made = type(self).__new__(type(self))
        made.__setstate__(state)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "tide": self.tide, "options": self._options, "prefix": self._prefix}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.url, self.tide = state["url"], state["tide"]
        self._options, self._prefix = state["options"], state["prefix"]
        # A process that only passes a store on needs no engine.
        self._opened = None

    def _identity(self) -> tuple[Any, ...]:
        return (type(self), self.url, self.tide, self._options, self._prefix)

    def is_local(self) -> bool:
        """Whether the store is a directory of the local disk."""
        return "://" not in self.location

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreSettings) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        shown = [repr(self.location)]
        shown += [f"{name}=…" if name in _SECRETS else f"{name}={value!r}" for name, value in self._options]
        return f"tidegate.{type(self).__name__}({', '.join(shown)})"


class Store(StoreSettings):
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

    def within(self, prefix: str) -> Store:
        return cast("Store", super().within(prefix))

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        """Does nothing: stores share the connections of their engine, and their files end by themselves."""

    # Whole objects.

    def put(self, key: str, data: ReadableBuffer, **options: Unpack[WriteOptions]) -> _native.Object:
        """Writes ``data`` as the object ``key``: when this returns it is visible as a whole, otherwise not at all."""
        progress = options.pop("progress", None)
        return cast("_native.Object", wait(self.native().put(key, data, native_options(options)), progress))

    def get(
        self,
        key: str,
        *,
        if_unchanged: _native.Object | None = None,
        progress: ProgressCallback | None = None,
    ) -> bytes:
        """Reads the whole object ``key``. Its bytes are the caller's own memory, beside the memory budget."""
        return self._bytes(key, None, if_unchanged, progress)

    def get_range(
        self,
        key: str,
        start: int,
        end: int | None = None,
        *,
        if_unchanged: _native.Object | None = None,
        progress: ProgressCallback | None = None,
    ) -> bytes:
        """Reads the bytes from ``start`` until before ``end``, or until the end of the object: fewer if the object ends
        before ``end``. Raises :class:`InvalidInputError` if the object has no byte at ``start``."""
        check_range(start, end)
        return self._bytes(key, (start, end), if_unchanged, progress)

    def _bytes(
        self,
        key: str,
        range: Range | None,
        if_unchanged: _native.Object | None,
        progress: ProgressCallback | None,
    ) -> bytes:
        found = wait(self.native().get_bytes(key, range, if_unchanged), progress)
        if isinstance(found, _native.Reader):
            found = wait(found.read_later(0, None), progress)
        return cast("bytes", found)

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, if_unchanged: _native.Object | None = None
    ) -> List[bytes]:
        """Reads several ranges of one object, each from its first byte until before its second number, in parallel.
        Ranges that lie close together share a request. Unlike :meth:`get_range`, raises :class:`InvalidInputError` for
        a range that is not all in the object."""
        asked = list(ranges)
        for start, end in asked:
            check_range(start, end)
        return cast("list[bytes]", wait(self.native().get_ranges(key, asked, if_unchanged)))

    def head(self, key: str) -> _native.Object:
        """Describes an object; :class:`NotFoundError` if the key has none."""
        return cast("_native.Object", wait(self.native().head(key)))

    def exists(self, key: str) -> bool:
        """Whether the key has an object."""
        return cast("bool", wait(self.native().exists(key)))

    def tags(self, key: str) -> dict[str, str]:
        """The tags of an object."""
        return cast("dict[str, str]", wait(self.native().tags(key)))

    def versioning(self) -> Versioning:
        """Whether the bucket keeps the versions of its objects: ``"off"``, ``"enabled"``, or ``"suspended"`` where it keeps
        no new ones. :class:`UnsupportedError` if the store does not say; only S3 and its compatibles do."""
        return cast("Versioning", wait(self.native().versioning()))

    def is_directory(self, key: str) -> bool:
        """Whether the store has a directory of this name, which is no object: in Azure, an empty blob with the metadata
        ``hdi_isfolder``, or a directory of a hierarchical namespace. Other stores are not asked."""
        return cast("bool", wait(self.native().is_directory(key)))

    def delete(self, key: str, *, if_unchanged: _native.Object | None = None) -> None:
        """Removes an object, with ``if_unchanged`` only if it is still that one. Succeeds if the key has no object."""
        wait(self.native().delete(key, if_unchanged))

    def delete_many(self, keys: Iterable[str]) -> DeleteReport:
        """Removes objects, many at a time. A key without an object counts as removed. The report has the failures."""
        removed = wait(self.native().delete_many(several(keys)))
        return DeleteReport(*cast("tuple[int, list[Any]]", removed))

    def list(
        self, prefix: str = "", *, recursive: bool = True, start_after: str | None = None
    ) -> Iterator[_native.Object | _native.Prefix | _native.Other]:
        """Lists the objects whose keys begin with ``prefix``, in the order of their keys. If ``recursive`` is false,
        keys with a further ``/`` are listed only as the :class:`Prefix` up to it."""
        return _entries(self.native().list(prefix, recursive, start_after))

    def copy(self, key: str, to_key: str, *, to: Store | None = None, **options: Unpack[CopyOptions]) -> _native.Object:
        """Has the store copy ``key`` to ``to_key`` of ``to``, or of this store. :class:`UnsupportedError` if both are
        not in one store that makes copies; :func:`tidegate.copy` then moves the bytes through this machine."""
        progress = options.pop("progress", None)
        target = (to or self).native()
        return cast("_native.Object", wait(self.native().copy(key, target, to_key, native_options(options)), progress))

    def rename(self, key: str, to_key: str, *, create_only: bool = False) -> _native.Object:
        """Gives an object another key."""
        return cast("_native.Object", wait(self.native().rename(key, to_key, create_only)))

    def presign(self, key: str, expires: float = 3600, *, method: Literal["GET", "PUT"] = "GET") -> str:
        """A URL by which anyone can read (or write) the object for so many seconds: a secret like a password."""
        return cast("str", wait(self.native().presign(key, expires, method)))

    def read_text(self, key: str, encoding: str = "utf-8") -> str:
        """Reads the whole object ``key`` as text."""
        return self.get(key).decode(encoding)

    def write_text(
        self, key: str, text: str, encoding: str = "utf-8", **options: Unpack[WriteOptions]
    ) -> _native.Object:
        """Writes ``text`` as the object ``key``; see :meth:`put`."""
        return self.put(key, text.encode(encoding), **options)

    # Files.

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

    def upload(self, path: str | os.PathLike[str], key: str, **options: Unpack[UploadOptions]) -> _native.Object:
        """Uploads the file at ``path`` as ``key``: streamed from the disk, in parallel parts if it is large. A file that cannot
        be read raises what ``open`` would raise."""
        progress = options.pop("progress", None)
        check_source(path)
        return cast(
            "_native.Object", wait(self.native().upload(os.fspath(path), key, native_options(options)), progress)
        )

    def download(self, key: str, path: str | os.PathLike[str], **options: Unpack[DownloadOptions]) -> _native.Object:
        """Downloads ``key`` to the file at ``path``, in parallel. The file appears, or is replaced, once all bytes are
        there. A download that was cut off is resumed."""
        progress = options.pop("progress", None)
        check_target(path)
        return cast(
            "_native.Object", wait(self.native().download(key, os.fspath(path), native_options(options)), progress)
        )

    def left(self, key: str) -> List[LeftUpload]:
        """The uploads of ``key`` that were left in the journal directories; see :func:`tidegate.recover`."""
        return [LeftUpload(each, self) for each in cast("list[_native.LeftUpload]", wait(self.native().left(key)))]


def _entries(listing: _native.Listing) -> Iterator[_native.Object | _native.Prefix | _native.Other]:
    while batch := cast("list[Any]", wait(listing.next_batch())):
        yield from batch


def native_options(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Options as the native half takes them: most calls have none."""
    return dict(options) if options else None


def several(keys: Iterable[str]) -> list[str]:
    """The keys. One string, whose letters would be keys, is a mistake."""
    if isinstance(keys, str):
        raise TypeError(f"`keys` is one string, {keys!r}: give a list of keys")
    return list(keys)


def check_range(start: int, end: int | None) -> None:
    """Raises ``ValueError`` for bytes that no object has."""
    for name, value in (("start", start), ("end", end)):
        if value is not None and value < 0:
            raise ValueError(f"`{name}` is {value}: bytes are counted from 0 at the beginning of the object")
