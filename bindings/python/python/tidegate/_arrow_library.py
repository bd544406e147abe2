"""The library that has the file system of Arrow in C++: one for each version of Arrow that the package goes with."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.fs

#: The version of the functions, as of `tidegate_arrow_version()`.
_VERSION = 2

#: No package: the libraries are no modules of Python.
_PLACE = Path(__file__).parent / "libraries"


class NoLibraryError(Exception):
    """Why there is no library for this Arrow."""


def _open() -> ctypes.CDLL:
    version = pyarrow.cpp_build_info.so_version
    path = _PLACE / f"libtidegate_arrow_{version}.so"
    if not path.exists():
        others = sorted(each.stem.rpartition("_")[2] for each in _PLACE.glob("libtidegate_arrow_*.so"))
        has = f"it has those of {' and '.join(others)}" if others else "it has none"
        raise NoLibraryError(
            f"this package has no file system for Arrow {version} (pyarrow {pyarrow.__version__}): {has}"
        )
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise NoLibraryError(f"the file system for Arrow {version} cannot be loaded: {error}") from error
    found = library.tidegate_arrow_version()
    if found != _VERSION:
        raise NoLibraryError(f"{path} is of another version of this package: build it anew (bindings/arrow/build)")
    library.tidegate_arrow_open.restype = ctypes.c_int64
    library.tidegate_arrow_open.argtypes = [
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.POINTER(ctypes.c_char_p),
        ctypes.c_size_t,
    ]
    library.tidegate_arrow_discard.restype = None
    library.tidegate_arrow_discard.argtypes = [ctypes.c_int64]
    library.tidegate_arrow_settle.argtypes = [ctypes.c_int64]
    library.tidegate_arrow_take_ended.restype = ctypes.c_size_t
    library.tidegate_arrow_take_ended.argtypes = [ctypes.POINTER(ctypes.c_int64), ctypes.c_size_t]
    library.tidegate_arrow_set_python.restype = None
    return library


@cache
def library() -> ctypes.CDLL:
    """Loads the library, which makes its URIs known to Arrow. Raises :class:`NoLibraryError` if there is none."""
    opened = _open()
    # Not at the top: it needs what this module has.
    from . import _arrow_rule

    _arrow_rule.install(opened)
    return opened


@cache
def tell_of_fallback(why: str) -> None:
    """Says, once for each reason, that another file system is used instead."""
    warnings.warn(
        f"tidegate.arrow uses tidegate.pyarrow, which reads the ranges of a file one after another: {why}",
        stacklevel=4,
    )


def opened(url: str, settings: list[tuple[str, str]]) -> Any:
    """A file system of Arrow, as pyarrow's object. Raises what pyarrow raises for a wrong setting."""
    names, values = _strings(name for name, _ in settings), _strings(value for _, value in settings)
    number = library().tidegate_arrow_open(_string(url), names, values, len(settings))
    files, _ = pyarrow.fs.FileSystem.from_uri(f"tidegateopened://{number}")
    return files


def _strings(texts: Iterable[str]) -> Any:
    encoded = [_string(text) for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def _string(text: str) -> bytes:
    if "\0" in text:
        # C would take what is before it. The text may be a secret.
        raise ValueError("a URL or an option of a file system has a NUL character")
    return text.encode("utf-8", "surrogateescape")
