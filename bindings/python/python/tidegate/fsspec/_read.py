"""Files that are opened for reading: Tidegate's readers in a buffer, with what fsspec expects of a file."""

from __future__ import annotations

import io
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

from fsspec.caching import BaseCache
from fsspec.spec import AbstractBufferedFile

from .._files import BUFFER
from .._reader import Reader

if TYPE_CHECKING:
    from .. import _native
    from .._store import Store
    from ._listings import ListedFileSystem


#: The largest buffer of a file, which lies outside the memory budget. The engine reads ahead inside it.
_MOST_BUFFER = 1 << 20


class ReadFile(io.BufferedReader):
    """Reads one object of a file system. All bytes are of one object; see :class:`tidegate.Reader`.

    A copy in another process, pickled, opens the same object again at the same position.
    """

    def __init__(
        self,
        fs: ListedFileSystem,
        path: str,
        raw: Reader,
        options: Mapping[str, Any],
    ) -> None:
        self.fs = fs
        self.path = path
        #: Size in bytes of the buffer.
        self.blocksize: int = min(options["block_size"] or BUFFER, _MOST_BUFFER)
        #: The object's description, as :meth:`ObjectFileSystem.info` gives it.
        self.details = fs.described(path, raw.object)
        #: The object's size in bytes.
        self.size = raw.size
        self._options = dict(options)
        self._reader = raw
        super().__init__(raw, self.blocksize)

    @property
    def full_name(self) -> str:
        """The URL that fsspec knows the file by."""
        return str(self.fs.unstrip_protocol(self.path))

    def info(self) -> dict[str, Any]:
        """The object's description."""
        return self.details

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads ``size`` bytes, fewer only at the end; all that are left if it is negative, as other files of fsspec."""
        return super().read(-1 if size is None or size < 0 else size)

    def readuntil(self, char: bytes = b"\n", blocks: int | None = None) -> bytes:
        """Reads until after ``char``, or to the end; asks for ``blocks`` bytes at a time."""
        pieces = bytearray()
        start = self.tell()
        while True:
            searched = max(len(pieces) - len(char) + 1, 0)
            piece = self.read(blocks or self.blocksize)
            pieces += piece
            found = pieces.find(char, searched)
            if found >= 0:
                end = found + len(char)
                self.seek(start + end)
                return bytes(pieces[:end])
            if not piece:
                return bytes(pieces)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        return (_opened_again, (self.fs, self.path, self._options, self._reader.object, self.tell()))


def _opened_again(
    fs: ListedFileSystem, path: str, options: dict[str, Any], object: _native.Object, position: int
) -> ReadFile | CachedFile:
    file: ReadFile | CachedFile = fs.open_object(path, if_unchanged=object, **options)
    file.seek(position)
    return file


class CachedFile(AbstractBufferedFile):  # type: ignore[misc]
    """Reads one object through one of fsspec's caches, which decides which ranges are requested."""

    def __init__(
        self,
        fs: ListedFileSystem,
        path: str,
        store: Store,
        key: str,
        object: _native.Object,
        options: Mapping[str, Any],
    ) -> None:
        self._store, self._key, self._object, self._options = store, key, object, dict(options)
        block_size, cache_options = self._options["block_size"], self._options["cache_options"] or {}
        cache_type = self._options["cache_type"]
        known = cache_type == "parts"
        size: int = (object.size or 0) if self._options["size"] is None else self._options["size"]
        super().__init__(
            *(fs, path, "rb", block_size or "default"),
            cache_type="none" if known else cache_type,
            cache_options={} if known else dict(cache_options),
            size=size,
        )
        # This sets the size, too.
        self.details = fs.described(path, object)
        self.size = size
        if known:
            self.cache = _KnownParts(self.blocksize, self._fetch_range, self.size, cache_options.get("data") or {})

    def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self._object.size or 0)
        return self._store.get_range(self._key, start, end, if_unchanged=self._object) if start < end else b""

    def seek(self, loc: int, whence: int = 0) -> int:
        # fsspec rounds it.
        return cast("int", super().seek(operator.index(loc), whence))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_opened_again, (self.fs, self.path, self._options, self._object, self.tell()))


class _KnownParts(BaseCache):  # type: ignore[misc]
    """Parts of an object that were read before. All else is requested when it is read; fsspec's cache of this name gives
    zeros instead."""

    name = "parts"

    def __init__(
        self, blocksize: int, fetcher: Callable[[int, int], bytes], size: int, data: Mapping[tuple[int, int], bytes]
    ) -> None:
        super().__init__(blocksize, fetcher, size)
        self._parts: list[tuple[int, bytes]] = []
        for (start, _), part in sorted(data.items()):
            if self._parts and self._parts[-1][0] + len(self._parts[-1][1]) == start:
                before, known = self._parts.pop()
                self._parts.append((before, known + part))
            else:
                self._parts.append((start, part))

    def _fetch(self, start: int, end: int) -> bytes:
        for first, part in self._parts:
            if first <= start and end <= first + len(part):
                return part[start - first : end - first]
        return cast("bytes", self.fetcher(start, end))
