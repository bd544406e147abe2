"""Files by their URLs."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TextIO, cast, overload

from ._options import UrlOptions, WriteOptions
from ._store import Store
from ._tide import frozen

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, Unpack

    from ._options import OpenOptions
    from ._reader import Reader
    from ._writer import Writer

#: What reads through a buffer ask for at a time: less would make more requests, and more would fetch bytes that a
#: program that reads at random does not want.
BUFFER = 64 << 10

_URL_OPTIONS = UrlOptions.__optional_keys__


def split(url: str | os.PathLike[str]) -> tuple[str, str]:
    """The store of an object's URL, and the object's key there.

    >>> split("s3://bucket/a/b.csv")
    ('s3://bucket', 'a/b.csv')
    >>> split("data/b.csv")
    ('data', 'b.csv')
    """
    text = os.fspath(url)
    scheme, separator, rest = text.partition("://")
    if not separator or scheme == "file":
        directory, name = os.path.split(rest if separator else text)
        if not name:
            raise IsADirectoryError(f"{text} names no file")
        return directory or ("/" if text.startswith("/") else "."), name
    bucket, _, key = rest.partition("/")
    if not key:
        raise ValueError(f"{text} names no object: a key is missing after the bucket")
    return f"{scheme}://{bucket}", key


@lru_cache(maxsize=64)
def _kept(url: str, options: tuple[tuple[str, Any], ...]) -> Store:
    return Store(url, **dict(options))


def store_of(url: str, options: dict[str, Any]) -> Store:
    """A store, kept for the next use of it."""
    return _kept(url, frozen(options))


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of the store from those of a call."""
    return {name: options.pop(name) for name in list(options) if name in _URL_OPTIONS}


def not_of_reading(options: Mapping[str, Any]) -> TypeError:
    """The exception for options that opening to read does not take."""
    name = next(iter(options))
    if name in WriteOptions.__optional_keys__:
        return TypeError(f"the option {name!r} is one of writing")
    return TypeError(f"there is no option {name!r}")


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
    """A text file over a :class:`tidegate.Writer`, whose ``with`` blocks are those of the writer."""

    def __enter__(self) -> Self:
        cast("Writer", self.buffer).__enter__()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if kind is not None:
            cast("Writer", self.buffer)._drop()
        super().__exit__(kind, error, traceback)


@overload
def open(
    url: str | os.PathLike[str],
    mode: Literal["wb", "xb", "bw", "bx"],
    buffering: int = -1,
    **options: Unpack[OpenOptions],
) -> Writer: ...


@overload
def open(  # type: ignore[overload-overlap]
    url: str | os.PathLike[str],
    mode: Literal["rb", "br"],
    buffering: Literal[0],
    **options: Unpack[UrlOptions],
) -> Reader: ...


@overload
def open(
    url: str | os.PathLike[str],
    mode: Literal["rb", "br"],
    buffering: int = -1,
    **options: Unpack[UrlOptions],
) -> io.BufferedReader: ...


@overload
def open(
    url: str | os.PathLike[str],
    mode: Literal["r", "w", "x", "rt", "wt", "xt", "tr", "tw", "tx"] = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[OpenOptions],
) -> TextIO: ...


@overload
def open(
    url: str | os.PathLike[str],
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[OpenOptions],
) -> Any: ...


def open(
    url: str | os.PathLike[str],
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Any,
) -> Any:
    """Opens an object as a file, like the built-in ``open``: modes ``r``, ``w`` and ``x``, with ``b`` or as text.

    A file that is written appears as a whole when it is closed; see :class:`tidegate.Writer` for when it never does.
    Mode ``x`` is the option ``create_only``: closing raises :class:`FileExistsError` if the key has an object by then.

    Options are those of :class:`tidegate.Store` and those of a write. The store is kept for the next call with the same
    options; so a later change of the environment has no effect on it. Text is UTF-8 unless ``encoding`` says otherwise.
    ``buffering`` is the size of the buffer that is read through; 0 reads without one.

    >>> with open("memory://docs/greeting.txt", "w") as file:
    ...     _ = file.write("hello, tide")
    >>> open("memory://docs/greeting.txt").read()
    'hello, tide'
    """
    what, is_text = checked_mode(mode)
    if not is_text and any(value is not None for value in (encoding, errors, newline)):
        raise ValueError("binary mode takes no encoding, errors or newline")
    if is_text and buffering == 0:
        raise ValueError("text mode needs a buffer")
    place, key = split(url)
    store = store_of(place, taken(options))
    file: BinaryIO
    if what == "r":
        if options:
            raise not_of_reading(options)
        raw = store.reader(key)
        if buffering == 0:
            return raw
        file = cast("BinaryIO", io.BufferedReader(raw, buffering if buffering > 1 else BUFFER))
    else:
        if what == "x":
            options["create_only"] = True
        file = cast("BinaryIO", store.writer(key, **options))
    if not is_text:
        return file
    made = io.TextIOWrapper if what == "r" else TextFile
    text: Any = made(file, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
    text.mode = mode
    if what != "r":
        text._CHUNK_SIZE = BUFFER
    return text
