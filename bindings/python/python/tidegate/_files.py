"""Files of a store: what opens one by its mode."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ._local import is_directory
from ._options import UrlOptions, WriteOptions, no_option

if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO, Protocol, Self, Unpack

    from ._reader import Reader
    from ._writer import Writer

    class _Store(Protocol):
        def is_local(self) -> bool: ...

        def url_of(self, key: str) -> str: ...

        def reader(self, key: str) -> Reader: ...

        def writer(self, key: str, **options: Unpack[WriteOptions]) -> Writer: ...


#: What reads through a buffer ask for at a time: less would make more requests, and more would fetch bytes that a
#: program that reads at random does not want.
BUFFER = 64 << 10


def not_of_reading(options: Mapping[str, Any]) -> TypeError:
    """The exception for options that opening to read does not take."""
    name = next(iter(options))
    if name in WriteOptions.__optional_keys__:
        return TypeError(f"the option {name!r} is one of writing")
    return no_option(name, UrlOptions.__optional_keys__)


def checked_mode(mode: str) -> tuple[str, bool]:
    """What a mode asks for: ``r``, ``w`` or ``x``, and whether it is of text."""
    letters = set(mode)
    what = letters & set("rwxa")
    if len(letters) != len(mode) or len(what) != 1 or letters - set("rwxabt+") or {"b", "t"} <= letters:
        raise ValueError(f"invalid mode: {mode!r}")
    if "a" in letters or "+" in letters:
        raise ValueError(f"mode {mode!r}: an object is read, or written as a whole; it cannot be changed")
    return what.pop(), "b" not in letters


class TextFile(io.TextIOWrapper):
    """A text file over a file that is written, whose ``with`` blocks are those of that file."""

    def __enter__(self) -> Self:
        cast("BinaryIO", self.buffer).__enter__()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if kind is not None:
            cast("BinaryIO", self.buffer).__exit__(kind, error, traceback)
        super().__exit__(kind, error, traceback)

    def publish(self) -> None:
        """Publishes the file, also while an exception is being handled; see :meth:`tidegate.Writer.publish`."""
        if not self.closed:
            self.flush()
        cast("Writer", self.buffer).publish()

    def discard(self) -> None:
        """Publishes nothing; see :meth:`tidegate.Writer.discard`."""
        cast("Writer", self.buffer).discard()


def open_file(
    store: _Store,
    key: str,
    mode: str,
    buffering: int,
    encoding: str | None,
    errors: str | None,
    newline: str | None,
    options: dict[str, Any],
) -> Any:
    """Opens ``key`` as :func:`tidegate.open` opens a URL; ``options`` are those of a write."""
    what, is_text = checked_mode(mode)
    if not is_text and any(value is not None for value in (encoding, errors, newline)):
        raise ValueError("binary mode takes no encoding, errors or newline")
    if is_text and buffering == 0:
        raise ValueError("text mode needs a buffer")
    file: BinaryIO
    if what == "r":
        if options:
            raise not_of_reading(options)
        raw = store.reader(key)
        if buffering == 0:
            return raw
        file = cast("BinaryIO", io.BufferedReader(raw, buffering if buffering > 1 else BUFFER))
    else:
        if unknown := [name for name in options if name not in WriteOptions.__optional_keys__]:
            raise no_option(unknown[0], {*UrlOptions.__optional_keys__, *WriteOptions.__optional_keys__})
        # Not only when it is closed, as a store would.
        if store.is_local() and os.path.isdir(store.url_of(key)):
            raise is_directory(store.url_of(key))
        if what == "x":
            options["create_only"] = True
        file = store.writer(key, **cast("WriteOptions", options))
    if not is_text:
        return file
    made = io.TextIOWrapper if what == "r" else TextFile
    text: Any = made(file, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
    text.mode = mode
    if what != "r":
        text._CHUNK_SIZE = BUFFER
    return text
