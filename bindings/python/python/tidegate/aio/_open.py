"""Files by their URLs, for asyncio."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

from .._engine_settings import frozen
from .._files import checked_mode, not_of_reading
from .._places import below, split, taken
from ._files import Opening, Reader, Writer
from ._store import Store

if TYPE_CHECKING:
    from typing import Unpack

    from .._options import OpenOptions, UrlOptions


@lru_cache(maxsize=64)
def _kept(url: str, directory: str | None, options: tuple[tuple[str, Any], ...]) -> Store:
    return Store(url, **dict(options))


def store_of(url: str, options: dict[str, Any]) -> Store:
    """A store, kept for the next use of it."""
    return _kept(url, below(url), frozen(options))


@overload
def open(url: str | os.PathLike[str], mode: Literal["rb"] = "rb", **options: Unpack[UrlOptions]) -> Opening[Reader]: ...


@overload
def open(url: str | os.PathLike[str], mode: Literal["wb", "xb"], **options: Unpack[OpenOptions]) -> Opening[Writer]: ...


def open(url: str | os.PathLike[str], mode: str = "rb", **options: Any) -> Any:
    """Opens an object as a binary file, to be awaited or used with ``async with``; see :func:`tidegate.open`."""
    what, is_text = checked_mode(mode)
    if is_text:
        raise ValueError(f"mode {mode!r}: files of asyncio are binary")
    place, key = split(url)
    store = store_of(place, taken(options))
    if what == "r":
        if options:
            raise not_of_reading(options)
        return store.reader(key)
    if what == "x":
        options["create_only"] = True
    return store.writer(key, **options)
