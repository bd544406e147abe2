"""Files by their URLs."""

from __future__ import annotations

import io
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TextIO, overload

from ._engine_settings import frozen
from ._files import open_file
from ._places import below, split, taken
from ._store import Store

if TYPE_CHECKING:
    from typing import Unpack

    from ._files import TextFile
    from ._options import OpenOptions, UrlOptions
    from ._reader import Reader
    from ._writer import Writer


@lru_cache(maxsize=64)
def _kept(url: str, directory: str | None, options: tuple[tuple[str, Any], ...]) -> Store:
    return Store(url, **dict(options))


def store_of(url: str, options: dict[str, Any]) -> Store:
    """A store, kept for the next use of it."""
    return _kept(url, below(url), frozen(options))


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
    mode: Literal["r", "rt", "tr"] = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[UrlOptions],
) -> TextIO: ...


@overload
def open(
    url: str | os.PathLike[str],
    mode: Literal["w", "x", "wt", "xt", "tw", "tx"],
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    **options: Unpack[OpenOptions],
) -> TextFile: ...


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
    place, key = split(url)
    store = store_of(place, taken(options))
    return open_file(store, key, mode, buffering, encoding, errors, newline, options)
