"""A filesystem for pyarrow: datasets, Parquet, CSV, IPC and whatever else takes a ``filesystem``.

>>> import pyarrow
>>> import pyarrow.parquet
>>> import tidegate.pyarrow
>>> store = tidegate.pyarrow.filesystem("memory://warehouse")
>>> table = pyarrow.table({"day": [1, 2], "rows": [30, 40]})
>>> pyarrow.parquet.write_table(table, "t/part-0.parquet", filesystem=store)
>>> pyarrow.parquet.read_table("t", filesystem=store).num_rows
2

Files that are written have the rules of :class:`tidegate.Writer`: visible as a whole once they are closed, or never.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow
from pyarrow.fs import FileInfo, FileSelector, FileSystemHandler, FileType, PyFileSystem

from ._arrow_file import InputFile
from ._arrow_streams import BufferedStream, PlainStream, compressed
from ._errors import InvalidInputError, NoBucketError, NotFoundError, UnsupportedError
from ._native import Object, Prefix
from ._open import store_of
from ._options import check_write_options
from ._places import taken
from ._settings import native_options
from ._store import Store
from ._wait import wait
from ._writer import Writer

if TYPE_CHECKING:
    from typing import Unpack

    from ._options import OpenOptions

__all__ = ["FileSystem", "Handler", "filesystem"]

#: How many bytes the request brings that opens a file for random access. A file that has no more is in memory then.
_BEGINNING = 256 << 10
#: How many objects are removed by one call of the store.
_REMOVED_AT_ONCE = 10_000
#: How many paths are looked up at the same time.
_LOOKUPS = 16
#: The content type of the empty objects that stand for directories, as pyarrow's S3FileSystem writes it.
_DIRECTORY_TYPE = "application/x-directory"

#: Options of writes that hold for copies too. A copy has the attributes of its source.
_COPY_OPTIONS = ("concurrency", "create_only", "encryption", "part_size", "storage_class")
#: Options of writes that say how any object is stored, also one that stands for a directory.
_STORAGE_OPTIONS = ("encryption", "storage_class")

#: What names of metadata are which attributes of an object.
_ATTRIBUTES = {
    "cache-control": "cache_control",
    "content-disposition": "content_disposition",
    "content-encoding": "content_encoding",
    "content-language": "content_language",
    "content-type": "content_type",
    "expires": "expires",
}


def filesystem(url_or_store: str | os.PathLike[str] | Store, **options: Unpack[OpenOptions]) -> FileSystem:
    """A filesystem of pyarrow whose root is a store: a :class:`tidegate.Store`, or the URL of one.

    Options are those of the store, if it is given by its URL, and those of writes, which then hold for all files that are
    written: ``filesystem("s3://bucket/warehouse", region="eu-west-1", storage_class="STANDARD_IA")``.

    It can be used by all threads, after a fork, and from a pickle.
    """
    given: dict[str, Any] = dict(options)
    store_options = taken(given)
    check_write_options(given)
    if isinstance(url_or_store, Store):
        if store_options:
            raise TypeError(f"the option {next(iter(store_options))!r} belongs to a store, and a store is given")
        return FileSystem(Handler(url_or_store, **given))
    return FileSystem(Handler(store_of(os.fspath(url_or_store), store_options), **given))


class FileSystem(PyFileSystem):  # type: ignore[misc]
    """A :class:`pyarrow.fs.PyFileSystem` on a :class:`Handler`.

    Its own part are the streams for writing: some of pyarrow's publish what they have when they are garbage-collected, and
    all do when a wrapper of Python around them is. These discard it.
    """

    def open_output_stream(
        self,
        path: str,
        compression: str | None = "detect",
        buffer_size: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Any:
        if not isinstance(path, str | bytes):
            raise TypeError(f"a path is a string, not {type(path).__name__}")
        text = os.fsdecode(path)
        writer = self.handler.writer(text, metadata)
        forget = partial(writer._dealloc_warn, None)
        stream: Any = PlainStream(writer, mode="w")
        stream.keeps = (forget, None)
        if buffer_size:
            inner, stream = stream, BufferedStream(stream, buffer_size)
            stream.keeps = (forget, inner)
        return compressed(stream, compression, text)

    def __reduce__(self) -> tuple[Any, ...]:
        return (FileSystem, (self.handler,))


class Handler(FileSystemHandler):  # type: ignore[misc]
    """Carries out for pyarrow what a :class:`FileSystem` is asked.

    Paths are keys of the store. Directories are as in pyarrow's ``S3FileSystem``: there is one where a key begins with its
    path and ``/``; creating one writes an empty object of that key. In a local directory they are directories.
    """

    def __init__(self, store: Store, **options: Any) -> None:
        check_write_options(options)
        #: The store.
        self.store = store
        self._options = options

    def get_type_name(self) -> str:
        return "tidegate"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Handler):
            return NotImplemented
        return self.store == other.store and self._options == other._options

    def __hash__(self) -> int:
        return hash(self.store)

    def __repr__(self) -> str:
        return f"tidegate.pyarrow.Handler({self.store!r})"

    def normalize_path(self, path: str) -> str:
        # A slash at the end stays: a SubTreeFileSystem would not find its base otherwise.
        return path.lstrip("/")

    def _chosen(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: self._options[name] for name in names if name in self._options}

    # What there is.

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        if len(paths) == 1:
            return [self._info(paths[0])]
        with ThreadPoolExecutor(min(_LOOKUPS, max(1, len(paths))), "tidegate-lookup") as threads:
            return list(threads.map(self._info, paths))

    def _info(self, path: str) -> FileInfo:
        key = _key_of(path)
        try:
            if key and not path.endswith("/") and (found := self._object(key)) is not None:
                return _file_info(path, found)
            is_there = self._directories().is_there(key)
        except NoBucketError:
            # Nothing is in a bucket that is not there: so pyarrow's S3FileSystem says too.
            is_there = False
        return FileInfo(path, FileType.Directory if is_there else FileType.NotFound)

    def _object(self, key: str) -> Object | None:
        try:
            return self.store.head(key)
        except NoBucketError:
            raise
        except NotFoundError:
            return None

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        try:
            return self._selected(selector)
        except NotFoundError:
            # The bucket, or the local directory, is not there.
            if not selector.allow_not_found:
                raise
            return []

    def _selected(self, selector: FileSelector) -> list[FileInfo]:
        base = _key_of(selector.base_dir)
        prefix = base and f"{base}/"
        infos: list[FileInfo] = []
        seen = {base}

        def add_directories(key: str) -> None:
            """The directory ``key``, after those that it is in."""
            if key in seen:
                return
            add_directories(_parent(key))
            seen.add(key)
            infos.append(FileInfo(key, FileType.Directory))

        is_there = not base
        for entry in self.store.list(prefix, recursive=selector.recursive):
            is_there = True
            if entry.key == prefix:
                continue
            if isinstance(entry, Prefix) or entry.key.endswith("/"):
                add_directories(entry.key.rstrip("/"))
                continue
            add_directories(_parent(entry.key))
            if isinstance(entry, Object):
                infos.append(_file_info(entry.key, entry))
            elif "://" in self.store.location:
                # Azure's directories with names of their own; other stores list only objects.
                add_directories(entry.key)
            else:
                infos.append(FileInfo(entry.key, FileType.Unknown))
        if not is_there and not self._directories().is_there(base):
            if self._object(base) is not None:
                raise NotADirectoryError(errno.ENOTDIR, "this is a file, and no directory", selector.base_dir)
            if not selector.allow_not_found:
                raise self._no_directory(base)
        return infos

    # Directories.

    def _directories(self) -> _Directories:
        location = self.store.location
        if "://" not in location:
            return _LocalDirectories(location)
        return _ObjectDirectories(self.store, self._chosen(_STORAGE_OPTIONS))

    def _no_directory(self, key: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, "no such directory", self.store.url_of(key))

    def create_dir(self, path: str, recursive: bool) -> None:
        key = _key_of(path)
        if not key:
            return
        parent = _parent(key)
        if not recursive and parent and not self._directories().is_there(parent):
            raise self._no_directory(parent)
        self._directories().create(key)

    def delete_dir(self, path: str) -> None:
        key = _key_of(path)
        if not key:
            raise pyarrow.ArrowInvalid("the root of a store is no directory that can be deleted")
        self._check_directory(key)
        self._directories().delete(key)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        key = _key_of(path)
        if not key:
            raise pyarrow.ArrowInvalid(f"delete_dir_contents of {path!r} would delete everything in the store")
        try:
            self._check_directory(key)
        except FileNotFoundError:
            if missing_dir_ok:
                return
            raise
        self._directories().create(key)
        self._directories().delete_contents(key)

    def delete_root_dir_contents(self) -> None:
        self._directories().delete_contents("")

    def _check_directory(self, key: str) -> None:
        if self._directories().is_there(key):
            return
        if self._object(key) is not None:
            raise NotADirectoryError(errno.ENOTDIR, "this is a file, and no directory", self.store.url_of(key))
        raise self._no_directory(key)

    # Files.

    def delete_file(self, path: str) -> None:
        key = self._key(path)
        if self._object(key) is None:
            raise self._no_file(key)
        self.store.delete(key)

    def move(self, src: str, dest: str) -> None:
        key, to_key = _key_of(src), self._key(dest)
        if src.endswith("/"):
            self._check_directory(key)
            raise self._no_move(key)
        if key == to_key:
            return
        try:
            if self._chosen(_STORAGE_OPTIONS):
                # A rename keeps the storage class and the encryption.
                self._move_by_copy(key, to_key)
                return
            try:
                self.store.rename(key, to_key, **self._chosen(["create_only"]))
            except UnsupportedError:
                # The store makes no such copies, and renames by them.
                self._move_by_copy(key, to_key)
        except NotFoundError as missing:
            if self._directories().is_there(key):
                raise self._no_move(key) from missing
            raise

    def _move_by_copy(self, key: str, to_key: str) -> None:
        source = self.store.head(key)
        self._copy(key, to_key)
        self.store.delete(key, if_unchanged=source)

    def _no_move(self, key: str) -> IsADirectoryError:
        return IsADirectoryError(errno.EISDIR, "a directory cannot be moved; move its files", self.store.url_of(key))

    def copy_file(self, src: str, dest: str) -> None:
        key, to_key = self._key(src), self._key(dest)
        if key != to_key:
            self._copy(key, to_key)

    def _copy(self, key: str, to_key: str) -> None:
        options = self._chosen(_COPY_OPTIONS)
        try:
            self.store.copy(key, to_key, **options)
        except UnsupportedError:
            # The store makes no such copies: the bytes go through this machine.
            native = self.store.native()
            wait(native.copy_through(key, native, to_key, native_options(options)))

    def _key(self, path: str) -> str:
        """The key of a path that is to name a file."""
        key = _key_of(path)
        if not key or path.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, "this path names a directory, and no file", path)
        return key

    def _no_file(self, key: str) -> OSError:
        url = self.store.url_of(key)
        if self._directories().is_there(key):
            return IsADirectoryError(errno.EISDIR, "this is a directory, and no file", url)
        return FileNotFoundError(errno.ENOENT, "no such file", url)

    def open_input_stream(self, path: str) -> pyarrow.NativeFile:
        return pyarrow.PythonFile(self.store.reader(self._key(path)), mode="r")

    def open_input_file(self, path: str) -> pyarrow.NativeFile:
        key = self._key(path)
        try:
            reader = self.store.reader(key, range=(0, _BEGINNING))
        except InvalidInputError:
            # An empty object has no byte to begin at.
            if self.store.head(key).size != 0:
                raise
            return pyarrow.BufferReader(b"")
        with reader:
            beginning = reader.read()
        if reader.object.size == len(beginning):
            return pyarrow.BufferReader(beginning)
        return pyarrow.PythonFile(InputFile(self.store, key, reader.object, beginning), mode="r")

    def open_output_stream(self, path: str, metadata: Mapping[bytes, bytes] | None) -> pyarrow.NativeFile:
        return pyarrow.PythonFile(self.writer(path, metadata), mode="w")

    def writer(self, path: str, metadata: Mapping[Any, Any] | None) -> Writer:
        """Opens a file for writing. Of the metadata, ``Content-Type`` and the like become attributes of the object, and
        the rest its user metadata."""
        options = dict(self._options)
        user = dict(options.pop("metadata", None) or {})
        for name, value in (metadata or {}).items():
            name, value = _text(name), _text(value)
            if name.lower() == "acl":
                raise pyarrow.ArrowNotImplementedError("ACLs of objects are not supported; give the bucket a policy")
            attribute = _ATTRIBUTES.get(name.lower())
            if attribute is not None:
                options[attribute] = value
            else:
                user[name] = value
        if user:
            options["metadata"] = user
        return self.store.writer(self._key(path), **options)

    def open_append_stream(self, path: str, metadata: Mapping[bytes, bytes] | None) -> pyarrow.NativeFile:
        raise pyarrow.ArrowNotImplementedError("an object cannot be appended to: write a further file")


class _Directories(Protocol):
    """What directories are in a store. Keys are theirs, without a slash at the end; ``""`` is the root."""

    def is_there(self, key: str) -> bool: ...

    def create(self, key: str) -> None:
        """Has no effect if there is one."""

    def delete(self, key: str) -> None:
        """Deletes it with all that is in it."""

    def delete_contents(self, key: str) -> None:
        """Deletes all that is in it. One that was created stays."""


class _ObjectDirectories:
    """There is a directory where a key begins with its key and a slash. Creating one writes an empty object of that key."""

    def __init__(self, store: Store, options: dict[str, Any]) -> None:
        self._store, self._options = store, options

    def is_there(self, key: str) -> bool:
        first = next(self._store.list(key and f"{key}/", recursive=False), None)
        # The root is there without objects, if its bucket is.
        return first is not None or not key or self._store.is_directory(key)

    def create(self, key: str) -> None:
        self._store.put(f"{key}/", b"", content_type=_DIRECTORY_TYPE, **self._options)

    def delete(self, key: str) -> None:
        self._delete(entry.key for entry in self._store.list(f"{key}/"))
        if self._store.is_directory(key):
            self._store.delete(key)

    def delete_contents(self, key: str) -> None:
        prefix = key and f"{key}/"
        self._delete(entry.key for entry in self._store.list(prefix) if entry.key != prefix)

    def _delete(self, keys: Iterator[str]) -> None:
        while some := list(islice(keys, _REMOVED_AT_ONCE)):
            failed = self._store.delete_many(some).failed
            if failed:
                raise failed[0][1]


class _LocalDirectories:
    """The directories of a local directory."""

    def __init__(self, root: str) -> None:
        self._root = root

    def _path(self, key: str) -> str:
        if any(name in ("", ".", "..") for name in key.split("/")):
            raise ValueError(f"{key}: a path consists of names, without `.` and `..`")
        return os.path.join(self._root, key)

    def is_there(self, key: str) -> bool:
        return os.path.isdir(self._path(key) if key else self._root)

    def create(self, key: str) -> None:
        os.makedirs(self._path(key), exist_ok=True)

    def delete(self, key: str) -> None:
        shutil.rmtree(self._path(key))

    def delete_contents(self, key: str) -> None:
        with os.scandir(self._path(key) if key else self._root) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)


def _file_info(path: str, found: Object) -> FileInfo:
    return FileInfo(path, FileType.File, size=found.size, mtime=found.modified)


def _key_of(path: str) -> str:
    """The key of a file or directory; empty for the root."""
    return path.strip("/")


def _parent(key: str) -> str:
    return key.rpartition("/")[0]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
