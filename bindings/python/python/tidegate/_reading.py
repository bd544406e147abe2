"""The object that a file reads, and the position in it: what both readers have."""

from __future__ import annotations

import operator
import os

from . import _native


class Reading:
    """An object that is being read, or a range of it, and the position of the next byte."""

    #: The object's URL.
    name: str
    _object: _native.Object
    _size: int
    _position: int

    def _begin(self, native: _native.Reader, name: str) -> None:
        self._object, self._size, self._position = native.object, native.size, 0
        self.name = name

    def _own(self) -> _native.Reader:
        """The native half. Raises :class:`ClosedError` if the file is closed."""
        raise NotImplementedError

    @property
    def object(self) -> _native.Object:
        """The object that is being read, as the store described it."""
        return self._object

    @property
    def size(self) -> int:
        """How many bytes there are to read."""
        return self._size

    def progress(self) -> _native.Progress:
        """The figures of the read now."""
        return self._own().progress()

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Continues at another position. Waits for nothing."""
        self._own()
        match whence:
            case os.SEEK_SET:
                start = 0
            case os.SEEK_CUR:
                start = self._position
            case os.SEEK_END:
                start = self._size
            case _:
                raise ValueError(f"whence {whence} is none of SEEK_SET, SEEK_CUR, SEEK_END")
        if (position := start + operator.index(offset)) < 0:
            raise ValueError(f"there is no byte before the first: position {position}")
        self._position = position
        return position

    def tell(self) -> int:
        self._own()
        return self._position
