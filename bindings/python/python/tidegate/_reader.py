"""Files that are read from a store."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

from . import _native
from ._errors import closed
from ._reading import Reading
from ._wait import wait

if TYPE_CHECKING:
    from typing import BinaryIO, Protocol

    from _typeshed import WriteableBuffer

    class _Store(Protocol):
        def native(self) -> _native.Store: ...

        def url_of(self, key: str) -> str: ...

    class _File(io.RawIOBase, BinaryIO):
        """What type checkers know Python's own binary files for."""

else:
    _File = io.RawIOBase


class Reader(Reading, _File):
    """Reads one object, or a range of it: a raw binary file that is open for reading.

    All bytes are of one object: if the key gets another one meanwhile, reads raise :class:`ReplacedError`. Reads that
    follow each other come from requests that read ahead in parallel; reads at other places are requests for just their
    bytes. :func:`tidegate.open` puts a buffer around it.

    A copy in another process, pickled or forked, opens the same object again at the same position.
    """

    mode: str

    def __init__(
        self,
        store: _Store,
        key: str,
        *,
        range: tuple[int, int | None] | None = None,
        if_unchanged: _native.Object | None = None,
        random: bool = False,
        native: _native.Reader | None = None,
    ) -> None:
        self._store, self._key, self._range, self._random = store, key, range, random
        self._native = native if native is not None else self._opened(if_unchanged)
        self._begin(self._native, store.url_of(key))
        self.mode = "rb"

    def _opened(self, if_unchanged: _native.Object | None) -> _native.Reader:
        operation = self._store.native().reader(self._key, self._range, if_unchanged, self._random)
        return cast("_native.Reader", wait(operation))

    def _own(self) -> _native.Reader:
        """The native half; opened again in a process that has inherited it."""
        if super().closed:
            raise closed(self.name, "I/O operation on a closed file")
        if not self._native.is_own():
            self._native = self._opened(self._object)
        return self._native

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Reads some bytes into ``buffer``: those that have arrived, at least one; 0 at the end."""
        count = self._own().read_into(self._position, buffer)
        self._position += count
        return count

    def read(self, size: int | None = -1, /) -> bytes:
        """Reads ``size`` bytes, fewer only at the end; all that are left if it is negative. They arrive in the memory
        of the ``bytes`` that is returned."""
        most = None if size is None or size < 0 else size
        data = self._own().read(self._position, most)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def close(self) -> None:
        if not super().closed:
            super().close()
            # Its requests are cancelled, and its memory is free, once nobody has the native half.
            native: Any = self.__dict__.pop("_native", None)
            del native

    def __getstate__(self) -> dict[str, Any]:
        self._own()
        return {
            "store": self._store,
            "key": self._key,
            "range": self._range,
            "random": self._random,
            "object": self._object,
            "position": self._position,
        }

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        return (_reader, (self.__getstate__(),))

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"at {self._position} of {self._size}"
        return f"<tidegate.Reader {self.name!r}, {state}>"


def _reader(state: dict[str, Any]) -> Reader:
    reader = Reader(
        state["store"], state["key"], range=state["range"], if_unchanged=state["object"], random=state["random"]
    )
    reader.seek(state["position"])
    return reader
