"""Files for random access, as pyarrow reads them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ._reader import Reader

if TYPE_CHECKING:
    from ._native import Object
    from ._store import Store


class InputFile:
    """A file for random access. Its beginning was read when it was opened, and is not read a second time until a read goes
    past it: what is kept lies outside the memory budget."""

    closed = False

    def __init__(self, store: Store, key: str, described: Object, beginning: bytes) -> None:
        self._reader = Reader(store, key, if_unchanged=described)
        self._beginning = memoryview(beginning)
        self._position = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        match whence:
            case os.SEEK_CUR:
                offset += self._position
            case os.SEEK_END:
                offset += self._reader.size
        if offset < 0:
            raise ValueError(f"there is no byte before the first: position {offset}")
        self._position = offset
        return offset

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1, /) -> bytes | memoryview:
        start = self._position
        until = self._reader.size if size < 0 else min(start + size, self._reader.size)
        data: bytes | memoryview
        if until <= len(self._beginning):
            data = self._beginning[start:until]
        else:
            self._beginning = memoryview(b"")
            self._reader.seek(start)
            data = self._reader.read(max(until - start, 0))
        self._position = start + len(data)
        return data

    def close(self) -> None:
        self.closed = True
        self._reader.close()
