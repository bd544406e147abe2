"""The file system that all stores share: keys as paths, prefixes as directories."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from glob import has_magic
from typing import Any, ClassVar, cast

from fsspec.asyn import AsyncFileSystem, _run_coros_in_chunks, get_loop, reset_lock, sync
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.utils import isfilelike

from .. import _native
from .._errors import InvalidInputError, NoBucketError, NotFoundError
from .._open import checked_mode
from .._options import ReachOptions
from .._store import Store, native_options
from .._wait import ProgressCallback, wait
from ..aio import Reader as AsyncReader
from ..aio import Store as AsyncStore
from ..aio import Writer as AsyncWriter
from ..aio._start import run
from ._read import CachedFile, ReadFile
from ._settings import Dialect, call_options, check_read_options
from ._written import CompressedFile, DeferredFile, WrittenFile

Info = dict[str, Any]

#: How many keys are deleted at a time: of a tree of any size, no more than these are held.
_DELETED_AT_ONCE = 10_000
#: Bytes that are read at a time into a file object.
_PIECE = 4 << 20


# A child makes an event loop of its own: not all versions of fsspec see to that, nor free a lock that the parent held.
os.register_at_fork(after_in_child=reset_lock)


class ObjectFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Objects of one kind of store as files, whose paths are ``bucket/key``.

    A directory is a prefix that ends with ``/``: it is there while an object is below it. Making one sends nothing, and
    an object whose key ends with ``/`` marks one.

    Files that are opened for writing are Tidegate's: a file is visible as a whole when it is closed, or never; see
    :class:`tidegate.Writer`. All blocking calls can be used by all threads, and after a fork.
    """

    #: The scheme of Tidegate's URLs.
    scheme: ClassVar[str]
    dialect: ClassVar[Dialect]
    root_marker = ""
    _pid: int

    def __init__(
        self, *, asynchronous: bool = False, loop: Any = None, batch_size: int | None = None, **options: Any
    ) -> None:
        self._settings = self.dialect.settings(options)
        super().__init__(asynchronous=asynchronous, loop=loop, batch_size=batch_size, **self._settings.listing)
        self._stores: dict[str, Store] = {}
        self._async_stores: dict[str, AsyncStore] = {}
        # What s3fs and adlfs have under these names.
        self.default_block_size = self._settings.block_size
        self.default_cache_type = self._settings.cache_type
        self.default_fill_cache = self._settings.fill_cache

    @property
    def loop(self) -> Any:
        """The event loop of blocking calls; a new one after a fork."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._loop = None if self.asynchronous else get_loop()
        return self._loop

    @property
    def fsid(self) -> str:
        """What tells this file system from others, in all processes."""
        return f"{self.protocol[0]}_{hashlib.sha256(repr(self._settings.store).encode()).hexdigest()}"

    # Paths.

    def _split(self, path: str) -> tuple[str, str]:
        """The bucket and the key of a path without its protocol."""
        bucket, _, key = path.lstrip("/").partition("/")
        return bucket, key

    def _joined(self, bucket: str, key: str) -> str:
        """The path of a key, or of a prefix that ends with ``/``."""
        return f"{bucket}/{key}".rstrip("/")

    def _url(self, bucket: str) -> str:
        return f"{self.scheme}://{bucket}"

    def _located(self, path: str) -> tuple[str, str]:
        """The bucket and the key of what can be an object."""
        bucket, key = self._split(cast("str", self._strip_protocol(path)))
        if not key:
            raise IsADirectoryError(f"{path!r} names no object: a key is missing after the bucket")
        return bucket, key

    def _store(self, bucket: str) -> AsyncStore:
        store = self._async_stores.get(bucket)
        if store is None:
            store = self._async_stores[bucket] = AsyncStore(self._url(bucket), **self._settings.store)
        return store

    def _blocking_store(self, bucket: str) -> Store:
        store = self._stores.get(bucket)
        if store is None:
            store = self._stores[bucket] = Store(self._url(bucket), **self._settings.store)
        return store

    # Descriptions.

    def described(self, path: str, object: _native.Object) -> Info:
        """What :meth:`info` says of an object."""
        return {
            "name": path,
            "size": object.size,
            "type": "file",
            "etag": object.etag.strip('"') if object.etag else None,
            "version": object.version,
            "mtime": object.modified,
            **self._details(object),
        }

    def _details(self, object: _native.Object) -> Info:
        """What the file system that others use for this store says besides."""
        return {}

    def _directory(self, path: str) -> Info:
        return {"name": path, "size": 0, "type": "directory"}

    def _entry(self, bucket: str, entry: _native.Object | _native.Prefix | _native.Other) -> Info | None:
        path = self._joined(bucket, entry.key)
        match entry:
            case _native.Object() if not entry.key.endswith("/"):
                return self.described(path, entry)
            case _native.Prefix():
                return self._directory(path)
            case _:
                # The mark of a directory, or a name on a disk that is neither a file nor a directory.
                return None

    # Listings.

    async def _ls(self, path: str, detail: bool = False, refresh: bool = False, **options: Any) -> list[Any]:
        # Names alone, unless asked for more: as s3fs, gcsfs and adlfs do.
        path = self._strip_protocol(path)
        infos = None if refresh else self._cached_listing(path)
        if infos is None:
            infos = await self._list_anew(path)
        return infos if detail else [info["name"] for info in infos]

    def _cached_listing(self, path: str) -> list[Info] | None:
        try:
            return cast("list[Info]", list(self.dircache[path]))
        except KeyError:
            return None

    async def _list_anew(self, path: str) -> list[Info]:
        bucket, key = self._split(path)
        if not bucket:
            return await self._buckets()
        infos = await self._level(bucket, f"{key}/" if key else "")
        if infos is None:
            # Not a directory.
            return [await self._file_info(path)]
        self.dircache[path] = infos
        return list(infos)

    async def _level(self, bucket: str, prefix: str) -> list[Info] | None:
        """The files and directories whose keys begin with ``prefix``, without those below further directories; ``None``
        if there are none, nor a mark of the directory."""
        infos, is_there = [], not prefix
        async for entry in self._store(bucket).list(prefix, recursive=False):
            is_there = True
            info = self._entry(bucket, entry)
            if info is not None:
                infos.append(info)
        return sorted(infos, key=_by_name) if is_there else None

    async def _buckets(self) -> list[Info]:
        raise NotImplementedError("buckets cannot be listed: give a path that begins with one")

    async def _info(self, path: str, refresh: bool = False, **options: Any) -> Info:
        path = self._strip_protocol(path)
        if not self._split(path)[0]:
            return self._directory(self.root_marker)
        if not refresh:
            found = self._cached_info(path)
            if found is not None:
                return found
        try:
            return await self._file_info(path)
        except (FileNotFoundError, IsADirectoryError) as missing:
            if await self._is_prefix(path):
                return self._directory(path)
            if isinstance(missing, NotFoundError):
                raise
            raise FileNotFoundError(path) from missing

    def _cached_info(self, path: str) -> Info | None:
        """What a cached listing says of the path: of a file and a directory of one name, the file."""
        same = [info for info in self._cached_listing(self._parent(path)) or [] if info["name"] == path]
        return min(same, key=lambda info: info["type"] == "directory", default=None)

    async def _file_info(self, path: str) -> Info:
        bucket, key = self._located(path)
        return self.described(path, await self._store(bucket).head(key))

    async def _is_prefix(self, path: str) -> bool:
        """Whether the path is a directory."""
        if self._cached_listing(path) is not None:
            return True
        bucket, key = self._split(path)
        try:
            async for _ in self._store(bucket).list(f"{key}/" if key else "", recursive=False):
                return True
        except NoBucketError:
            return False
        return not key

    async def _isdir(self, path: str) -> bool:
        path = self._strip_protocol(path)
        if not self._split(path)[0]:
            return True
        found = self._cached_info(path)
        if found is not None and found["type"] == "directory":
            return True
        return await self._is_prefix(path)

    async def _isfile(self, path: str) -> bool:
        try:
            return bool((await self._info(path))["type"] == "file")
        except FileNotFoundError:
            return False

    async def _find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        prefix: str = "",
        **options: Any,
    ) -> list[str] | dict[str, Info]:
        """All files below ``path`` whose names continue with ``prefix``: one listing of all keys, or with ``maxdepth``
        one of each directory, many at a time."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path = self._strip_protocol(path)
        if not self._split(path)[0]:
            raise ValueError("not all buckets can be searched: give a path that begins with one")
        files, directories = await (
            self._find_all(path, prefix) if maxdepth is None else self._find_levels(path, prefix, maxdepth)
        )
        found = files | directories if withdirs else files
        if withdirs and (files or directories or await self._isdir(path)):
            found[path] = self._directory(path)
        if not files and not directories and not prefix and path not in found:
            try:
                found[path] = await self._file_info(path)
            except (FileNotFoundError, IsADirectoryError):
                pass
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    async def _find_all(self, path: str, prefix: str) -> tuple[dict[str, Info], dict[str, Info]]:
        bucket, key = self._split(path)
        files: dict[str, Info] = {}
        directories: dict[str, Info] = {}
        top = f"{key}/" if key else ""
        try:
            async for entry in self._store(bucket).list(top + prefix):
                if (info := self._entry(bucket, entry)) is not None:
                    files[info["name"]] = info
                # Its directories, from the inside out, until one that is known.
                at = entry.key.rfind("/", len(top))
                while at > len(top) and (name := self._joined(bucket, entry.key[:at])) not in directories:
                    directories[name] = self._directory(name)
                    at = entry.key.rfind("/", len(top), at)
        except NoBucketError:
            pass
        return files, directories

    async def _find_levels(self, path: str, prefix: str, depth: int | None) -> tuple[dict[str, Info], dict[str, Info]]:
        files: dict[str, Info] = {}
        directories: dict[str, Info] = {}
        level = [path]
        while level and depth != 0:
            depth = None if depth is None else depth - 1
            listed = await _run_coros_in_chunks(
                [self._find_level(directory, prefix) for directory in level], batch_size=self.batch_size, nofiles=True
            )
            level, prefix = [], ""
            for info in (info for infos in listed for info in infos):
                if info["type"] == "directory":
                    directories[info["name"]] = info
                    level.append(info["name"])
                else:
                    files[info["name"]] = info
        return files, directories

    async def _find_level(self, path: str, prefix: str) -> list[Info]:
        infos = self._cached_listing(path)
        if infos is not None:
            top = f"{path}/{prefix}"
            return [info for info in infos if info["name"].startswith(top)]
        bucket, key = self._split(path)
        try:
            infos = await self._level(bucket, (f"{key}/" if key else "") + prefix)
        except NoBucketError:
            return []
        if infos and not prefix:
            self.dircache[path] = infos
        return infos or []

    async def _du(self, path: str, total: bool = True, maxdepth: int | None = None, **options: Any) -> Any:
        found = cast("dict[str, Info]", await self._find(path, maxdepth=maxdepth, detail=True, **options))
        sizes = {name: info["size"] for name, info in found.items()}
        return sum(sizes.values()) if total else sizes

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forgets the listings of ``path``, of what is below, and of the directories above; all of them without a
        path."""
        super().invalidate_cache(path)
        if path is None:
            self.dircache.clear()
            return
        path = self._strip_protocol(path)
        below = f"{path}/"
        for listed in list(self.dircache):
            if listed.startswith(below):
                self._forget_listing(listed)
        self.forget(path)

    def forget(self, path: str) -> None:
        """Forgets the listings in which a change of the object at ``path`` shows."""
        if self._intrans:
            super().invalidate_cache(path)
        self._forget_listing(path)
        while path and path != self.root_marker:
            path = self._parent(path)
            self._forget_listing(path)

    def _forget_listing(self, path: str) -> None:
        try:
            del self.dircache[path]
        except KeyError:
            pass

    # Whole objects.

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        bucket, key = self._located(path)
        store = self._store(bucket)
        if start is None and end is None:
            return await store.get(key)
        if (start is None or start >= 0) and (end is None or end >= 0):
            try:
                return await _range(store, key, start or 0, end)
            except InvalidInputError:
                # The range may begin behind the end: there are no bytes then, as in a slice.
                object = await store.head(key)
        else:
            object = await store.head(key)
        first, last, _ = slice(start, end).indices(object.size or 0)
        return await _range(store, key, first, last, object)

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **options: Any,
    ) -> list[bytes | Exception]:
        """The bytes of ranges of many objects. The ranges of one object are read together: those that lie close share a
        request, and requests are made in parallel. ``max_gap`` has no effect."""
        if not isinstance(paths, list):
            raise TypeError("paths must be a list")
        starts = list(starts) if isinstance(starts, Iterable) else [starts] * len(paths)
        ends = list(ends) if isinstance(ends, Iterable) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("there must be as many starts and ends as paths")
        by_path: dict[str, list[int]] = {}
        for number, path in enumerate(paths):
            by_path.setdefault(path, []).append(number)
        read = await _run_coros_in_chunks(
            [self._ranges(path, [(starts[n], ends[n]) for n in numbers]) for path, numbers in by_path.items()],
            batch_size=batch_size or self.batch_size,
            nofiles=True,
            return_exceptions=True,
        )
        results: list[bytes | Exception] = [b""] * len(paths)
        for numbers, ranges in zip(by_path.values(), read, strict=True):
            if isinstance(ranges, Exception) and on_error != "return":
                raise ranges
            for place, number in enumerate(numbers):
                results[number] = ranges if isinstance(ranges, Exception) else ranges[place]
        return results

    async def _ranges(self, path: str, limits: list[tuple[int | None, int | None]]) -> list[bytes]:
        bucket, key = self._located(path)
        store = self._store(bucket)
        if all(start is not None and end is not None and 0 <= start <= end for start, end in limits):
            try:
                return await store.get_ranges(key, cast("list[tuple[int, int]]", limits))
            except InvalidInputError:
                # One may end behind the end of the object.
                pass
        object = await store.head(key)
        indices = [slice(start, end).indices(object.size or 0) for start, end in limits]
        ranges = [(start, max(start, end)) for start, end, _ in indices]
        return await store.get_ranges(key, ranges, if_unchanged=object)

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **options: Any) -> None:
        bucket, key = self._located(path)
        await self._store(bucket).put(key, value, **self._write_options({"mode": mode, **options}))
        self.forget(self._joined(bucket, key))

    async def _put_file(
        self,
        lpath: str | os.PathLike[str],
        rpath: str,
        mode: str = "overwrite",
        callback: Callback = DEFAULT_CALLBACK,
        **options: Any,
    ) -> None:
        if os.path.isdir(lpath):
            await self._makedirs(rpath, exist_ok=True)
            return
        bucket, key = self._located(rpath)
        given = self._write_options({"mode": mode, **options})
        callback.set_size(os.stat(lpath).st_size)
        progress = _reported(callback, lambda figures: figures.acknowledged)
        object = await self._store(bucket).upload(lpath, key, progress=progress, **given)
        callback.absolute_update(object.size)
        self.forget(self._joined(bucket, key))

    async def _get_file(self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, **options: Any) -> None:
        if isfilelike(lpath):
            return await self._read_into(rpath, lpath, callback)
        if os.path.isdir(lpath) and await self._isdir(rpath):
            return
        try:
            bucket, key = self._located(rpath)
            store = self._store(bucket)
            if callback is DEFAULT_CALLBACK:
                await store.download(key, lpath)
                return
            callback.set_size((await self._info(rpath))["size"])
            progress = _reported(callback, lambda figures: figures.acknowledged)
            object = await store.download(key, lpath, progress=progress)
            callback.absolute_update(object.size)
        except (FileNotFoundError, IsADirectoryError):
            if not await self._isdir(rpath):
                raise
            os.makedirs(lpath, exist_ok=True)

    async def _read_into(self, rpath: str, file: Any, callback: Callback) -> None:
        bucket, key = self._located(rpath)
        reader = await self._store(bucket).reader(key)
        callback.set_size(reader.size)
        async with reader:
            while data := await reader.read(_PIECE):
                file.write(data)
                callback.relative_update(len(data))

    async def _cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copies an object: inside the store if it makes copies, otherwise through this machine."""
        (bucket, key), (to_bucket, to_key) = (self._split(self._strip_protocol(path)) for path in (path1, path2))
        if not key or not to_key:
            await self._cp_directory(path1, path2)
            return
        given = native_options(self._write_options(options))
        source, target = self._store(bucket).native(), self._store(to_bucket).native()
        method = source.copy if source.is_one_with(target) else source.copy_through
        try:
            await run(method(key, target, to_key, given))
        except FileNotFoundError:
            if not await self._isdir(path1):
                raise
            await self._cp_directory(path1, path2)
        self.forget(self._joined(to_bucket, to_key))

    async def _cp_directory(self, path1: str, path2: str) -> None:
        await self._makedirs(path2, exist_ok=True)

    async def _rm_file(self, path: str, **options: Any) -> None:
        self._check_writable()
        bucket, key = self._located(path)
        await self._store(bucket).delete(key)
        self.forget(self._joined(bucket, key))

    async def _rm(
        self,
        path: str | list[str],
        recursive: bool = False,
        maxdepth: int | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        """Removes objects, many with each request; with ``recursive`` also all that is below them, with ``maxdepth`` the
        files that are at most so deep. Removing an object that is not there succeeds; removing a tree that is not there
        raises :class:`FileNotFoundError`. A bucket is emptied, and stays; see :meth:`rmdir`."""
        self._check_writable()
        paths = [self._strip_protocol(each) for each in ([path] if isinstance(path, str) else path)]
        if recursive and maxdepth is None:
            if any(has_magic(each) for each in paths):
                paths = await self._expand_path(paths)
            for each in paths:
                await self._rm_tree(each)
            return
        if recursive or any(has_magic(each) for each in paths):
            # Without the directories: their files may be too deep to be removed.
            expanded = await self._expand_path(paths, recursive=recursive, maxdepth=maxdepth)
            paths = [each for each in expanded if not await self._isdir(each)]
        by_bucket: dict[str, list[str]] = {}
        for each in paths:
            bucket, key = self._located(each)
            by_bucket.setdefault(bucket, []).append(key)
        for bucket, keys in by_bucket.items():
            await self._delete(bucket, keys)
            for key in keys:
                self.forget(self._joined(bucket, key))

    async def _rm_tree(self, path: str) -> None:
        bucket, key = self._split(path)
        if not bucket:
            raise ValueError("not all buckets can be removed: give a path that begins with one")
        keys = [key] if key else []
        try:
            is_there = False
            async for entry in self._store(bucket).list(f"{key}/" if key else ""):
                is_there = True
                keys.append(entry.key)
                if len(keys) == _DELETED_AT_ONCE:
                    await self._delete(bucket, keys)
                    keys.clear()
            if not is_there and key:
                await self._info(path, refresh=True)
            if keys:
                await self._delete(bucket, keys)
        finally:
            self.invalidate_cache(path)

    async def _delete(self, bucket: str, keys: Collection[str]) -> None:
        report = await self._store(bucket).delete_many(keys)
        if report.failed:
            raise report.failed[0][1]

    # Directories.

    async def _mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Creates a bucket. Below a bucket there is nothing to create: a directory is there while it has files."""
        self._check_writable()
        bucket, key = self._split(self._strip_protocol(path))
        if not bucket:
            raise ValueError("the path of a new bucket names none")
        if not key:
            await self._create_bucket(bucket)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        bucket, key = self._split(self._strip_protocol(path))
        if key:
            self._check_writable()
        elif not await self._is_prefix(bucket):
            await self._mkdir(bucket)
        elif not exist_ok:
            raise FileExistsError(path)

    async def _rmdir(self, path: str) -> None:
        """Removes an empty bucket. A directory below a bucket is never empty: see :meth:`rm`."""
        self._check_writable()
        bucket, key = self._split(self._strip_protocol(path))
        if not key:
            await self._remove_bucket(bucket)
        elif await self._is_prefix(self._joined(bucket, key)):
            raise FileExistsError(f"{path!r} is not empty: rm with recursive=True removes it with all that is below")
        else:
            raise FileNotFoundError(path)

    def rmdir(self, path: str) -> None:
        """Removes an empty bucket. A directory below a bucket is never empty: see :meth:`rm`."""
        sync(self.loop, self._rmdir, path)

    async def _create_bucket(self, bucket: str) -> None:
        await run(self._bucket_engine(bucket).create_bucket(self._url(bucket)))

    async def _remove_bucket(self, bucket: str) -> None:
        await run(self._bucket_engine(bucket).remove_bucket(self._url(bucket)))
        self.invalidate_cache(bucket)

    def _bucket_engine(self, bucket: str) -> _native.Engine:
        """The engine, which reaches buckets as the environment says, and in no other way."""
        reached = self._settings.store.keys() & ReachOptions.__optional_keys__
        if reached:
            raise NotImplementedError(
                f"{self._url(bucket)}: a bucket is created and removed only with credentials and endpoint from the "
                f"environment, and the file system has options of its own: {', '.join(sorted(reached))}"
            )
        return self._store(bucket).tide.engine()

    # What tells one content from another.

    def modified(self, path: str) -> datetime:
        """When the store last changed the object."""
        return cast("datetime", self.info(path)["mtime"])

    def ukey(self, path: str) -> str:
        """A text that differs between the contents that the object has had."""
        info = self.info(path)
        told = (info["name"], info["size"], info.get("etag") or info.get("version") or info.get("mtime"))
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def checksum(self, path: str, refresh: bool = False) -> int:
        """A number that differs between the contents that the object has had."""
        if refresh:
            self.invalidate_cache(self._parent(path))
        return int(self.ukey(path), 16)

    async def _sign(self, path: str, expiration: float = 100, method: str = "GET", **options: Any) -> str:
        bucket, key = self._located(path)
        return await self._store(bucket).presign(key, expiration, method=cast("Any", method.upper()))

    def sign(self, path: str, expiration: float = 100, method: str = "GET", **options: Any) -> str:
        """A URL by which anyone can read the object (or with ``method="PUT"`` write it) for so many seconds: a secret
        like a password."""
        return cast("str", sync(self.loop, self._sign, path, expiration, method, **options))

    # Files.

    def open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        cache_options: dict[str, Any] | None = None,
        compression: str | None = None,
        **options: Any,
    ) -> Any:
        if compression is None or "b" not in mode or "r" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **options)
        file = super().open(path, mode, block_size, cache_options, None, **options)
        codec = get_compression(path, compression)
        return file if codec is None else CompressedFile(file, compr[codec](file, mode="w"))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        cache_type: str | None = None,
        **options: Any,
    ) -> ReadFile | CachedFile | WrittenFile:
        what, _ = checked_mode(mode)
        if what == "r":
            return self.open_object(path, block_size, cache_type, cache_options, **options)
        bucket, key = self._located(path)
        given = self._write_options(options)
        store = self._blocking_store(bucket)
        if what == "x":
            if store.exists(key):
                raise FileExistsError(f"{store.url_of(key)}: there is an object already")
            given["create_only"] = True
        progress = given.pop("progress", None)
        native = cast("_native.Writer", wait(store.native().writer(key, native_options(given))))
        file_type = WrittenFile if autocommit else DeferredFile
        return file_type(self, self._joined(bucket, key), native, progress)

    def open_object(
        self,
        path: str,
        block_size: int | None = None,
        cache_type: str | None = None,
        cache_options: dict[str, Any] | None = None,
        random: bool = False,
        if_unchanged: _native.Object | None = None,
        **options: Any,
    ) -> ReadFile | CachedFile:
        """Opens an object for reading: what ``open`` with mode ``rb`` does.

        Without ``cache_type``, the engine reads ahead in parallel what is read in order, and asks for just the bytes of
        reads at other places; with ``random``, it never reads ahead. With a ``cache_type`` of fsspec, that cache decides
        which ranges are asked for.
        """
        check_read_options(options)
        bucket, key = self._located(path)
        store = self._blocking_store(bucket)
        block_size = block_size or self._settings.block_size
        cache_type = cache_type or self._settings.cache_type
        given = {"block_size": block_size, "cache_type": cache_type, "cache_options": cache_options, "random": random}
        path = self._joined(bucket, key)
        if cache_type is None:
            return ReadFile(self, path, store.reader(key, if_unchanged=if_unchanged, random=random), given)
        object = if_unchanged if if_unchanged is not None else store.head(key)
        return CachedFile(self, path, store, key, object, given)

    async def open_async(self, path: str, mode: str = "rb", **options: Any) -> AsyncReader | AsyncWriter:
        """Opens a binary file whose calls are awaited; see :class:`tidegate.aio.Writer`."""
        what, is_text = checked_mode(mode)
        if is_text or options.pop("compression", None):
            raise ValueError("files of asyncio are binary, and not compressed")
        bucket, key = self._located(path)
        if what == "r":
            return await self._store(bucket).reader(key)
        given = self._write_options(options)
        if what == "x":
            given["create_only"] = True
        self.forget(self._joined(bucket, key))
        return await self._store(bucket).writer(key, **given)

    def _write_options(self, given: dict[str, Any]) -> dict[str, Any]:
        self._check_writable()
        return self._settings.write | call_options(given)

    def _check_writable(self) -> None:
        if self._settings.read_only:
            raise PermissionError("the file system is for reading only: it was opened with access='read_only'")


async def _range(
    store: AsyncStore, key: str, start: int, end: int | None, if_unchanged: _native.Object | None = None
) -> bytes:
    if end is not None and end <= start:
        return b""
    return await store.get_range(key, start, end, if_unchanged=if_unchanged)


def _by_name(info: Info) -> str:
    return cast("str", info["name"])


def _reported(callback: Callback, figure: Callable[[_native.Progress], int]) -> ProgressCallback | None:
    """Tells the callback one figure of the progress. fsspec's default callback does nothing, and is not called."""
    if callback is DEFAULT_CALLBACK:
        return None
    return lambda progress: callback.absolute_update(figure(progress))
