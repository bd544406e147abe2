"""What there is: paths of objects, and directories and listings, which fsspec is told of and which are kept for a while."""

from __future__ import annotations

import hashlib
import os
from datetime import datetime
from typing import Any, ClassVar, cast

from fsspec.asyn import AsyncFileSystem, _run_coros_in_chunks, get_loop, reset_lock

from .. import _native
from .._errors import NoBucketError, NotFoundError
from .._settings import split_engine
from .._store import Store
from ..aio import Store as AsyncStore
from ..aio._start import run
from ._blocking import join_call
from ._settings import Dialect, check_newest

Info = dict[str, Any]

# A child makes an event loop of its own: not all versions of fsspec see to that, nor free a lock that the parent held.
os.register_at_fork(after_in_child=reset_lock)


class ListedFileSystem(AsyncFileSystem):  # type: ignore[misc]
    """Objects of one kind of store, whose paths are ``bucket/key``, found and described as files.

    A directory is a prefix that ends with ``/``: it is there while an object is below it. Making one sends nothing, and
    an object whose key ends with ``/`` marks one.
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
        # Another one after each change that this file system has made: what was listed meanwhile is not kept.
        self._last_change = object()
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
        return f"{self.protocol[0]}_{hashlib.sha256(repr(sorted(self._settings.store.items())).encode()).hexdigest()}"

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

    def _located_exactly(self, path: str) -> tuple[str, str]:
        """As :meth:`_located`, with the slash that the path ends with: ``bucket/key/`` is another object than
        ``bucket/key``."""
        bucket, key = self._located(path)
        return bucket, f"{key}/" if path.endswith("/") else key

    @classmethod
    def _parent(cls, path: str) -> str:
        """The directory that lists the path. Names may be empty: of ``bucket//key`` it is the bucket."""
        parent, _, _ = cls._strip_protocol(path).rpartition("/")
        return parent.rstrip("/") or cls.root_marker

    def _store(self, bucket: str) -> AsyncStore:
        """The store of a bucket, for the running task, which an interrupt of its blocking call then cancels."""
        join_call()
        store = self._async_stores.get(bucket)
        if store is None:
            store = self._async_stores[bucket] = AsyncStore(self._url(bucket), **self._settings.store)
        return store

    def _blocking_store(self, bucket: str) -> Store:
        store = self._stores.get(bucket)
        if store is None:
            store = self._stores[bucket] = Store(self._url(bucket), **self._settings.store)
        return store

    def _account(self) -> tuple[_native.Engine, dict[str, Any]]:
        """The engine, and the options by which it reaches buckets."""
        tide, reach = split_engine(self._settings.store)
        return tide.engine(), reach

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
        before = self._last_change
        infos = await self._level(bucket, f"{key}/" if key else "")
        if infos is None:
            # Not a directory.
            return [await self._file_info(path)]
        self._keep_listing(path, infos, before)
        return list(infos)

    def _keep_listing(self, path: str, infos: list[Info], before: object) -> None:
        """Keeps a listing, unless an object has changed since ``before``: the listing may lack that change."""
        if self._last_change is before:
            self.dircache[path] = infos
            # Another thread may have forgotten listings in between.
            if self._last_change is not before:
                self._forget_listing(path)

    async def _level(self, bucket: str, prefix: str) -> list[Info] | None:
        """The files and directories whose keys begin with ``prefix``, without those below further directories; ``None``
        if there are none, nor a mark of the directory."""
        infos, is_there = [], not prefix
        async for entry in self._store(bucket).list(prefix, recursive=False):
            is_there = True
            info = self._entry(bucket, entry)
            if info is not None:
                infos.append(info)
        is_there = is_there or await self._store(bucket).is_directory(prefix.rstrip("/"))
        return sorted(infos, key=_by_name) if is_there else None

    async def _buckets(self) -> list[Info]:
        join_call()
        engine, reach = self._account()
        buckets = await run(engine.buckets(f"{self.scheme}://", reach))
        return [{**self._directory(name), "created": created} for name, created in buckets]

    async def _info(self, path: str, refresh: bool = False, **options: Any) -> Info:
        check_newest(options)
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
        return not key or await self._store(bucket).is_directory(key)

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
        prefix: str | None = "",
        **options: Any,
    ) -> list[str] | dict[str, Info]:
        """All files below ``path`` whose names continue with ``prefix``: one listing of all keys, or with ``maxdepth``
        one of each directory, many at a time. Raises :class:`FileNotFoundError` if the bucket is not there."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        path, prefix = self._strip_protocol(path), prefix or ""
        if not self._split(path)[0]:
            raise ValueError("not all buckets can be searched: give a path that begins with one")
        files, directories = await (
            self._find_all(path, prefix) if maxdepth is None else self._find_levels(path, prefix, maxdepth)
        )
        found = files | directories if withdirs else files
        if withdirs and not prefix and (files or directories or await self._isdir(path)):
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
        async for entry in self._store(bucket).list(top + prefix):
            if (info := self._entry(bucket, entry)) is not None:
                files[info["name"]] = info
            # Its directories, from the inside out, until one that is known.
            at = entry.key.rfind("/", len(top))
            while at > len(top) and (name := self._joined(bucket, entry.key[:at])) not in directories:
                directories[name] = self._directory(name)
                at = entry.key.rfind("/", len(top), at)
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
        before = self._last_change
        infos = await self._level(bucket, (f"{key}/" if key else "") + prefix)
        if infos and not prefix:
            self._keep_listing(path, infos, before)
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
            self._last_change = object()
            self.dircache.clear()
            return
        path = self._strip_protocol(path)
        self.forget(path)
        below = f"{path.rstrip('/')}/"
        for listed in list(self.dircache):
            if listed.startswith(below):
                self._forget_listing(listed)

    def forget(self, path: str) -> None:
        """Forgets the listings in which a change of the object at ``path`` shows."""
        self._last_change = object()
        self._forget_listing(path)
        while path and path != self.root_marker:
            path = self._parent(path)
            self._forget_listing(path)

    def _forget_listing(self, path: str) -> None:
        try:
            del self.dircache[path]
        except KeyError:
            pass

    # What tells one content from another.

    def modified(self, path: str) -> datetime:
        """When the store last changed the object. :class:`IsADirectoryError` of a directory, which has no time."""
        info = self.info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(path)
        return cast("datetime", info["mtime"])

    def created(self, path: str) -> datetime:
        """As :meth:`modified`: an object is never changed, and what replaces it is created anew."""
        return self.modified(path)

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


def _by_name(info: Info) -> str:
    return cast("str", info["name"])
