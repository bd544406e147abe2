"""Files that are opened for reading: Tidegate's readers in a buffer, with what fsspec expects of a file."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

from fsspec.caching import caches

from .._errors import closed
from .._open import BUFFER
from .._reader import Reader

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from .. import _native
    from .._store import Store
    from ._filesystem import ObjectFileSystem


#: Requests a range, from the first byte until before the second.
Fetch = Callable[[int, int], bytes]


class ReadFile(io.BufferedReader):
    """Reads one object of a file system. All bytes are of one object; see :class:`tidegate.Reader`.

    A copy in another process, pickled, opens the same object again at the same position.
    """

    def __init__(
        self,
        fs: ObjectFileSystem,
        path: str,
        raw: Reader | CachedReader,
        block_size: int | None,
        options: Mapping[str, Any],
    ) -> None:
        self.fs = fs
        self.path = path
        #: Size in bytes of the buffer, or of a block of the cache.
        self.blocksize = block_size or BUFFER
        #: The object's description, as :meth:`ObjectFileSystem.info` gives it.
        self.details = fs.described(path, raw.object)
        #: The object's size in bytes.
        self.size = raw.size
        self._options = dict(options)
        self._reader = raw
        super().__init__(raw, raw.buffer if isinstance(raw, CachedReader) else self.blocksize)

    @property
    def full_name(self) -> str:
        """The URL that fsspec knows the file by."""
        return str(self.fs.unstrip_protocol(self.path))

    def info(self) -> dict[str, Any]:
        """The object's description."""
        return self.details

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
    fs: ObjectFileSystem, path: str, options: dict[str, Any], object: _native.Object, position: int
) -> ReadFile:
    file = fs.open_object(path, if_unchanged=object, **options)
    file.seek(position)
    return file


class _KnownParts:
    """Parts of an object that were read before. All else is requested when it is read; fsspec's cache of this name gives
    zeros instead."""

    def __init__(self, fetch: Fetch, data: Mapping[tuple[int, int], bytes]) -> None:
        self._fetch_range = fetch
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
        return self._fetch_range(start, end)


class CachedReader(io.RawIOBase):
    """Reads an object through one of fsspec's caches, each of whose misses is a request for a range."""

    mode = "rb"
    #: Size in bytes of the buffer in front: the cache is what reads ahead.
    buffer = 8 << 10

    def __init__(
        self,
        store: Store,
        key: str,
        object: _native.Object,
        block_size: int,
        cache_type: str,
        cache_options: Mapping[str, Any] | None,
    ) -> None:
        self.object = object
        self.size = object.size or 0
        self.name = store.url_of(key)
        self._position = 0

        def fetch(start: int, end: int) -> bytes:
            return store.get_range(key, start, min(end, self.size), if_unchanged=object)

        options = dict(cache_options or {})
        if cache_type == "parts":
            self.cache: Any = _KnownParts(fetch, options.get("data") or {})
            # No read is larger than it was asked for: a part that is known would be requested for what is behind it.
            self.buffer = 1
        elif cache_type in caches:
            self.cache = caches[cache_type](block_size, fetch, self.size, **options)
        else:
            raise ValueError(f"fsspec has no cache {cache_type!r}")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        data = self.read(memoryview(buffer).nbytes)
        memoryview(buffer).cast("B")[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1, /) -> bytes:
        self._check_open()
        left = max(self.size - self._position, 0)
        most = left if size is None or size < 0 else min(size, left)
        data = bytes(self.cache._fetch(self._position, self._position + most)) if most else b""
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._check_open()
        position = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence] + offset
        if position < 0:
            raise ValueError(f"there is no byte before the first: position {position}")
        self._position = position
        return position

    def tell(self) -> int:
        self._check_open()
        return self._position

    def _check_open(self) -> None:
        if self.closed:
            raise closed(self.name, "I/O operation on a closed file")
