"""A file system for pyarrow that is written in C++: it reads many ranges of a file at once.

>>> import pyarrow
>>> import pyarrow.parquet
>>> import tidegate.arrow
>>> files = tidegate.arrow.filesystem("memory://lake")
>>> table = pyarrow.table({"day": [1, 2], "rows": [30, 40]})
>>> pyarrow.parquet.write_table(table, "t/part-0.parquet", filesystem=files)
>>> pyarrow.parquet.read_table("t", filesystem=files).num_rows
2

Files that are written have the rules of :class:`tidegate.Writer`: visible as a whole once they are closed, or never.
"""

from __future__ import annotations

import copyreg
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.fs

from . import _arrow_library, _arrow_rule
from ._engine_settings import EngineSettings
from ._local import path_of, text_of
from ._options import WriteOptions, no_option
from ._places import taken
from ._settings import _SECRETS, split_engine
from ._store import Store

if TYPE_CHECKING:
    from typing import Unpack

    from ._ending import Ending
    from ._options import OpenOptions

__all__ = ["FileSystem", "filesystem"]

#: Options of a write that are of one file.
_OF_ONE_FILE = frozenset({"progress", "replaces"})
_WRITE_OPTIONS = WriteOptions.__optional_keys__ - _OF_ONE_FILE
#: What streams without a compression gather before they write.
_GATHERED = 64 << 10


def filesystem(url_or_store: str | os.PathLike[str] | Store, **options: Unpack[OpenOptions]) -> pyarrow.fs.FileSystem:
    """A file system of pyarrow whose root is a store: the URL of one, or a :class:`tidegate.Store`.

    Options are those of the store, if it is given by its URL, and those of writes, which then hold for all files that are
    written: ``filesystem("s3://bucket/warehouse", region="eu-west-1", storage_class="STANDARD_IA")``.

    It can be used by all threads, after a fork, and from a pickle. With a pyarrow that this package has no library for, it
    is that of :mod:`tidegate.pyarrow`, and a warning says so once. A local directory has that one too.
    """
    given: dict[str, Any] = dict(options)
    of_store = taken(given)
    for name in given:
        if name in _OF_ONE_FILE:
            raise TypeError(f"the option {name!r} is of one file, and cannot be one of a file system")
        if name not in _WRITE_OPTIONS:
            raise no_option(name, _WRITE_OPTIONS)
    if isinstance(url_or_store, Store):
        if of_store:
            raise TypeError(f"the option {next(iter(of_store))!r} belongs to a store, and a store is given")
        store = url_or_store
        if store.is_local():
            return _without_library(url_or_store, given)
        return _filesystem(store.location, dict(store._options), store._engine, given, url_or_store)
    text = text_of(url_or_store)
    if path_of(text) is not None or "://" not in text:
        return _without_library(text, {**of_store, **given})
    engine, reach = split_engine(of_store)
    return _filesystem(text, reach, engine, given, None)


def _without_library(url_or_store: str | Store, options: Mapping[str, Any]) -> pyarrow.fs.FileSystem:
    from .pyarrow import filesystem as of_python

    return of_python(url_or_store, **options)


def _filesystem(
    url: str, reach: dict[str, Any], engine: EngineSettings, write: dict[str, Any], store: Store | None
) -> pyarrow.fs.FileSystem:
    try:
        _arrow_library.library()
    except _arrow_library.NoLibraryError as error:
        _arrow_library.tell_of_fallback(str(error))
        if store is not None:
            return _without_library(store, write)
        return _without_library(url, {**reach, "tide": engine, **write})
    return FileSystem(url, reach, engine, write)


class FileSystem(pyarrow.fs.SubTreeFileSystem):  # type: ignore[misc]
    """The file system that :func:`filesystem` gives. pyarrow takes it for a subtree of another one, because it knows only
    its own types; the root of it is the store."""

    def __init__(self, url: str, reach: Mapping[str, Any], engine: EngineSettings, write: Mapping[str, Any]) -> None:
        options = {**reach, "tide": engine, **write}
        settings = [
            *_settings("", reach),
            *_settings("engine.", engine.options),
            *_settings("write.", write),
        ]
        #: The same, without what this class adds.
        self._native = _arrow_library.opened(url, settings)
        super().__init__("", self._native)
        self._url, self._shown = url.rstrip("/"), {**reach, **write}
        self._reduced = (_restored, (self._url, options))
        _known[self._url, tuple(settings)] = (self._native, self._reduced)

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._url

    def __repr__(self) -> str:
        shown = [repr(self._url)]
        shown += [f"{name}=…" if name in _SECRETS else f"{name}={value!r}" for name, value in self._shown.items()]
        return f"tidegate.arrow.FileSystem({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced

    def get_file_info(self, paths_or_selector: Any) -> Any:
        # Looks up all paths at the same time, which a subtree does not.
        return self._native.get_file_info(paths_or_selector)

    def open_output_stream(
        self,
        path: str,
        compression: str | None = "detect",
        buffer_size: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Any:
        opened, ending = _arrow_rule.ending_of(
            lambda: self._native.open_output_stream(path, compression=None, metadata=metadata)
        )
        stream: Any = _PlainStream(opened, buffer_size or _GATHERED)
        stream.keeps = (ending, opened)
        if compression == "detect":
            compression = _compression_of(os.fsdecode(path))
        if compression is not None:
            inner, stream = stream, _CompressedStream(stream, compression)
            stream.keeps = (ending, inner)
        return stream


def _compression_of(path: str) -> str | None:
    """The compression that the ending of a path names."""
    try:
        name: str = pyarrow.Codec.detect(path).name
    except (TypeError, ValueError):
        # Of an ending that names none, pyarrow 26 says that its own argument is no string.
        return None
    return name


class _Stream:
    """What the streams of :class:`FileSystem` have beside pyarrow's, whose destructors would publish what they have."""

    #: What decides how the stream ends, and the stream between the two.
    keeps: tuple[Ending | None, Any] | None = None

    def _dealloc_warn(self, source: Any) -> None:
        """Called by Python's wrappers when they are garbage-collected, before they close."""
        if self.keeps is not None and self.keeps[0] is not None:
            self.keeps[0].drop_forgotten()

    def __del__(self) -> None:
        if not self.closed:  # type: ignore[attr-defined]
            try:
                self._dealloc_warn(self)
            finally:
                # Otherwise the destructor of Arrow's stream, which comes next, would complain of what it cannot write.
                with suppress(Exception):
                    self.close()  # type: ignore[attr-defined]


class _PlainStream(_Stream, pyarrow.BufferedOutputStream):  # type: ignore[misc]
    """To a file. What is as large as the buffer is not copied into it."""


class _CompressedStream(_Stream, pyarrow.CompressedOutputStream):  # type: ignore[misc]
    """To another stream, compressed."""


# Settings as text.


def _settings(group: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if value is None:
            continue
        for text in _texts(name, value):
            yield group + name, text


def _texts(name: str, value: Any) -> list[str]:
    """An option as the C library takes it: several values are several texts."""
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str):
        return [value]
    if isinstance(value, int | float):
        return [str(value)]
    if isinstance(value, os.PathLike):
        return [os.fsdecode(value)]
    if isinstance(value, Mapping):
        return [f"{key}={each}" for key, each in value.items()]
    if name == "durability":
        size, seconds = value
        return [f"{size},{seconds}"]
    if isinstance(value, tuple | list):
        return [text for each in value for text in _texts(name, each)]
    raise TypeError(f"the option {name!r} cannot be a {type(value).__name__}")


# Pickles.

#: What was opened in this process, by what it was opened with: pyarrow's object, and how that is pickled.
_known: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}


def _restored(url: str, options: dict[str, Any]) -> pyarrow.fs.FileSystem:
    return filesystem(url, **options)


def _reduce_subtree(files: Any) -> Any:
    """How a `SubTreeFileSystem` is pickled. pyarrow loses the class of what is below a subtree; ours is found by being
    equal to it."""
    for native, reduced in list(_known.values()):
        if files.equals(native) or files.equals(pyarrow.fs.SubTreeFileSystem("", native)):
            return reduced
    return files.__reduce__()


copyreg.pickle(pyarrow.fs.SubTreeFileSystem, _reduce_subtree)
