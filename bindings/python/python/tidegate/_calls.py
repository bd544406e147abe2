# Made from aio/_calls.py by scripts/python-blocking: change that file.
"""The calls of a store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from . import _native
from ._errors import SourceError
from ._left import LeftUpload
from ._local import local_path
from ._settings import (
    AbandonedSet,
    DeleteReport,
    Range,
    StoreSettings,
    Versioning,
    check_range,
    native_options,
    several,
)
from ._upload import Upload, prepare_uploads
from ._wait import ProgressCallback, wait

if TYPE_CHECKING:
    from typing import Self, Unpack

    from _typeshed import ReadableBuffer

    from ._options import CopyOptions, DownloadOptions, UploadOptions, WriteOptions

#: What a method that stands after `Calls.list` calls `list`.
List = list


class Calls(StoreSettings):
    """What a store can be asked for, but for its open files."""

    def __enter__(self) -> Self:
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
        """Reads the whole object ``key``. Its bytes are the caller's own memory, beside the memory budget. The system zeroes
        new memory before it is filled: of several gigabytes, ``readinto`` of a reader is faster, into memory that was
        written before."""
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

    def copy(
        self, key: str, to_key: str, *, to: StoreSettings | None = None, **options: Unpack[CopyOptions]
    ) -> _native.Object:
        """Has the store copy ``key`` to ``to_key`` of ``to``, or of this store. :class:`UnsupportedError` if both are
        not in one store that makes copies; :func:`tidegate.copy` then moves the bytes through this machine. Attributes
        that are given replace the source's; with ``{}`` as metadata or tags the copy has none."""
        progress = options.pop("progress", None)
        target = (to or self).native()
        return cast("_native.Object", wait(self.native().copy(key, target, to_key, native_options(options)), progress))

    def rename(self, key: str, to_key: str, *, create_only: bool = False) -> _native.Object:
        """Gives an object another key."""
        return cast("_native.Object", wait(self.native().rename(key, to_key, create_only)))

    def commit(self, pending: _native.Pending) -> _native.Object:
        """Publishes an upload that :meth:`Writer.prepare` prepared in this bucket, in any process. May be repeated: the
        object is there once. :class:`SessionLostError` if it was abandoned, or its lifetime is over."""
        return cast("_native.Object", wait(self.native().commit(pending)))

    def prepare_all(
        self, pointer: str, writers: Sequence[Upload], *, lifetime: float | None = None
    ) -> _native.Manifest:
        """Ends the files of all writers as :meth:`Writer.prepare` ends one: a set, which :meth:`commit_all` publishes.
        ``pointer`` is the key of the object by which readers find the set. If one upload fails, the others are given
        up."""
        return prepare_uploads(self.native(), pointer, writers, lifetime)

    def commit_all(self, manifest: _native.Manifest) -> List[_native.Object]:
        """Publishes a set: checks all uploads, then publishes all and writes the pointer, which names them. May be
        repeated by any process. :class:`SessionLostError`, :class:`AlreadyExistsError` or :class:`ReplacedError` if an
        upload cannot be published; the message says whether the set was begun."""
        return cast("list[_native.Object]", wait(self.native().commit_all(manifest)))

    def roll_forward(self, pointer: str) -> List[_native.Object] | None:
        """Completes a set that :meth:`commit_all` has begun in any process, from the store alone. ``None`` if the set is
        complete. :class:`NotFoundError` if no set was begun."""
        return cast("list[_native.Object] | None", wait(self.native().roll_forward(pointer)))

    def abandon_all(self, manifest: _native.Manifest) -> None:
        """Gives up a set that was not begun. :class:`ClosedError` if it was begun; see :meth:`abandon_set`."""
        wait(self.native().abandon_all(manifest))

    def abandon_set(self, pointer: str) -> AbandonedSet:
        """Ends a set that was begun and cannot be completed: gives up what is not published. :class:`ClosedError` if the
        set can be completed: :meth:`roll_forward`."""
        return AbandonedSet(*cast("tuple[Any, Any]", wait(self.native().abandon_set(pointer))))

    def abandon(self, upload: _native.Pending | _native.Resumable) -> None:
        """Gives up an upload that was prepared, or that has a point: nothing of it will be published. :class:`ClosedError`
        if it was published."""
        wait(self.native().abandon(upload))

    def forget(self, point: _native.Resumable) -> None:
        """Removes what is kept for this point alone, once a later point takes its place. The upload goes on."""
        wait(self.native().forget(point))

    def presign(self, key: str, expires: float = 3600, *, method: Literal["GET", "PUT"] = "GET") -> str:
        """A URL by which anyone can read (or write) the object for so many seconds: a secret like a password."""
        return cast("str", wait(self.native().presign(key, expires, method)))

    def read_text(self, key: str, encoding: str = "utf-8") -> str:
        """Reads the whole object ``key`` as text."""
        return (self.get(key)).decode(encoding)

    def write_text(
        self, key: str, text: str, encoding: str = "utf-8", **options: Unpack[WriteOptions]
    ) -> _native.Object:
        """Writes ``text`` as the object ``key``; see :meth:`put`."""
        return self.put(key, text.encode(encoding), **options)

    def upload(self, path: str | os.PathLike[str], key: str, **options: Unpack[UploadOptions]) -> _native.Object:
        """Uploads the file at ``path``, or of a ``file:`` URL, as ``key``: streamed from the disk, in parallel parts if it
        is large."""
        progress = options.pop("progress", None)
        file = local_path(path)
        upload = self.native().upload(file, key, native_options(options))
        try:
            return cast("_native.Object", wait(upload, progress))
        except SourceError as error:
            error.filename = file
            raise

    def download(self, key: str, path: str | os.PathLike[str], **options: Unpack[DownloadOptions]) -> _native.Object:
        """Downloads ``key`` to the file at ``path``, or of a ``file:`` URL, in parallel. The file appears, or is replaced, once all bytes are
        there. A download that was cut off is resumed."""
        progress = options.pop("progress", None)
        return cast(
            "_native.Object",
            wait(self.native().download(key, local_path(path), native_options(options)), progress),
        )

    def left(self, key: str) -> List[LeftUpload]:
        """The uploads of ``key`` that were left in the journal directories; see :func:`tidegate.recover`."""
        return [LeftUpload(each, self) for each in cast("list[_native.LeftUpload]", wait(self.native().left(key)))]


def _entries(listing: _native.Listing) -> Iterator[_native.Object | _native.Prefix | _native.Other]:
    while batch := cast("list[Any]", wait(listing.next_batch())):
        yield from batch
