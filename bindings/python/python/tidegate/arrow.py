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
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.fs

from . import _arrow_library, _arrow_rule
from ._arrow_streams import BufferedStream, compressed
from ._engine_settings import EngineSettings
from ._local import path_of, text_of
from ._options import check_write_options
from ._places import taken
from ._settings import _SECRETS, split_engine
from ._store import Store

if TYPE_CHECKING:
    from typing import Unpack

    from ._options import OpenOptions

__all__ = ["FileSystem", "filesystem"]

#: Options of a write that are of one file.
_OF_ONE_FILE = frozenset({"progress", "replaces"})
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
    check_write_options(given)
    for name in _OF_ONE_FILE & given.keys():
        raise TypeError(f"the option {name!r} is of one file, and cannot be one of a file system")
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
        # The newest is the last.
        _known.pop((self._url, *settings), None)
        _known[self._url, *settings] = self._reduced
        while len(_known) > _MOST_KNOWN:
            del _known[next(iter(_known))]

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
        stream = BufferedStream(opened, buffer_size or _GATHERED)
        stream.keeps = (ending.drop_forgotten, opened)
        return compressed(stream, compression, os.fsdecode(path))


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

#: How what was opened in this process is pickled, by its URL and settings.
_known: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}
#: A program that has more file systems than that can't pickle what is below the oldest of them.
_MOST_KNOWN = 1000


def _restored(url: str, options: dict[str, Any]) -> pyarrow.fs.FileSystem:
    return filesystem(url, **options)


def _reduce_subtree(files: Any) -> Any:
    """How a `SubTreeFileSystem` is pickled. pyarrow loses the class of what is below a subtree; ours is found by being
    equal to it."""
    found = files
    while isinstance(found, pyarrow.fs.SubTreeFileSystem) and "://" not in found.base_path:
        found = found.base_fs
    if not isinstance(found, pyarrow.fs.SubTreeFileSystem):
        return files.__reduce__()
    for (url, *settings), reduced in list(_known.items()):
        if url != found.base_path.rstrip("/"):
            continue
        native = _arrow_library.opened(url, settings)
        if files.equals(native) or files.equals(pyarrow.fs.SubTreeFileSystem("", native)):
            return reduced
    return files.__reduce__()


copyreg.pickle(pyarrow.fs.SubTreeFileSystem, _reduce_subtree)
