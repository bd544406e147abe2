"""Streams of pyarrow that publish nothing when they are dropped: pyarrow's own destructors close what they write to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pyarrow


class _Stream:
    """What the streams have beside pyarrow's."""

    #: What discards the file, and tells so; and the stream between the two, if there is one.
    keeps: tuple[Callable[[], None], Any] | None = None

    def _dealloc_warn(self, source: Any) -> None:
        """Called by Python's wrappers when they are garbage-collected, before they close."""
        if self.keeps is not None:
            self.keeps[0]()

    def __del__(self) -> None:
        """Discards what nobody has closed. The destructor of Arrow's stream, which comes next, would close it, and so
        publish it."""
        if not self.closed:  # type: ignore[attr-defined]
            try:
                self._dealloc_warn(self)
            finally:
                # Otherwise that destructor would complain of what it cannot write.
                with suppress(Exception):
                    self.close()  # type: ignore[attr-defined]


class PlainStream(_Stream, pyarrow.PythonFile):  # type: ignore[misc]
    """To a file of Python."""


class BufferedStream(_Stream, pyarrow.BufferedOutputStream):  # type: ignore[misc]
    """To another stream, through a buffer. What is as large as the buffer is not copied into it."""


class CompressedStream(_Stream, pyarrow.CompressedOutputStream):  # type: ignore[misc]
    """To another stream, compressed."""


def compressed(stream: Any, compression: str | None, path: str) -> Any:
    """The stream through a compression, if there is one: ``detect`` is that which the ending of the path names."""
    if compression == "detect":
        try:
            compression = cast("str", pyarrow.Codec.detect(path).name)
        except (TypeError, ValueError):
            # Of an ending that names none, pyarrow 26 says that its own argument is no string.
            compression = None
    if compression is None:
        return stream
    outer: Any = CompressedStream(stream, compression)
    outer.keeps = (stream.keeps[0], stream)
    return outer
