"""Copies, moves and removals of objects and trees."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from glob import has_magic
from typing import Any

from fsspec.asyn import _run_coros_in_chunks
from fsspec.utils import other_paths

from .. import _native
from .._errors import NoBucketError, NotFoundError, UnsupportedError
from .._settings import native_options
from ..aio._start import run
from ._listings import ListedFileSystem
from ._settings import call_options, check_known, check_newest

#: How many keys are deleted at a time: of a tree of any size, no more than these are held.
_DELETED_AT_ONCE = 10_000
#: How many of the names that a move leaves are in its error.
_NAMED = 5
#: Options of the file system's writes that hold for its copies too. A copy has the attributes of its source.
_COPY_SETTINGS = frozenset({"concurrency", "create_only", "encryption", "part_size", "storage_class"})


class TreeFileSystem(ListedFileSystem):
    """A file system that copies, moves and removes what it lists."""

    # Copies.

    async def _cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copies an object: inside the store if it makes such copies, otherwise through this machine."""
        check_newest(options)
        self._check_writable()
        (bucket, key), (to_bucket, to_key) = (self._split(self._strip_protocol(path)) for path in (path1, path2))
        if not key or not to_key:
            await self._cp_directory(path1, path2)
            return
        given = self._copy_settings() | call_options(options)
        progress = given.pop("progress", None)
        source, target = self._store(bucket).native(), self._store(to_bucket).native()

        async def copy(method: Callable[..., _native.Operation]) -> None:
            await run(method(key, target, to_key, native_options(given)), progress)

        try:
            if not source.is_one_with(target):
                await copy(source.copy_through)
                return
            try:
                await copy(source.copy)
            except UnsupportedError:
                await copy(source.copy_through)
        except FileNotFoundError:
            if not await self._is_only_directory(path1):
                raise
            await self._cp_directory(path1, path2)
        finally:
            self.forget(self._joined(to_bucket, to_key))

    async def _cp_directory(self, path1: str, path2: str) -> None:
        await self._makedirs(path2, exist_ok=True)

    async def _copy(
        self, path1: Any, path2: Any, recursive: bool = False, on_error: Any = None, **options: Any
    ) -> None:
        """As fsspec's own, but an object that is gone is an error also in a tree, unless ``on_error="ignore"``."""
        await super()._copy(path1, path2, recursive=recursive, on_error=on_error or "raise", **options)

    async def _is_only_directory(self, path: str) -> bool:
        """Whether there is a directory of this name, and no object."""
        try:
            await self._file_info(path)
        except (FileNotFoundError, IsADirectoryError):
            return await self._isdir(path)
        return False

    # Moves.

    async def _mv_file(self, path1: str, path2: str, **options: Any) -> None:
        """Moves an object. The source is removed only if it is still the object that was copied; an object that is its
        own target, also by a link, stays as it is."""
        check_known(options)
        self._check_writable()
        (bucket, key), (to_bucket, to_key) = (self._split(self._strip_protocol(path)) for path in (path1, path2))
        source = self._store(bucket)
        try:
            if key and to_key and bucket == to_bucket and not self._copy_settings():
                try:
                    await source.rename(key, to_key)
                    return
                except UnsupportedError:
                    # The store makes no such copies, and renames by them.
                    pass
            object = await source.head(key)
            await self._cp_file(path1, path2)
            await source.delete(key, if_unchanged=object)
        finally:
            self.forget(self._joined(bucket, key))
            self.forget(self._joined(to_bucket, to_key))

    def _copy_settings(self) -> dict[str, Any]:
        """The options of the file system that a copy has, too."""
        return {name: value for name, value in self._settings.write.items() if name in _COPY_SETTINGS}

    async def _mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any
    ) -> None:
        """Moves each object, as :meth:`mv_file` does. A target that is a source too, or lies in a tree that is moved, and a
        target of two objects are a :class:`ValueError`, and nothing is moved. What cannot be moved stays, and is an
        :class:`OSError` that names it: a link to a directory, say, or an object that came meanwhile."""
        check_known(options, ("recursive", "maxdepth"))
        self._check_writable()
        is_listed = isinstance(path1, list) and isinstance(path2, list)
        is_tree = recursive and maxdepth is None and not is_listed
        if is_listed:
            sources, targets = self._strip_protocol(path1), self._strip_protocol(path2)
            if len(sources) != len(targets):
                raise ValueError(f"nothing was moved: {len(sources)} sources have {len(targets)} targets")
        else:
            sources, targets = await self._moves(path1, path2, recursive, maxdepth)
        real = self._real_path
        pairs = [pair for pair in zip(sources, targets, strict=True) if real(pair[0]) != real(pair[1])]
        tops = await self._tops(path1) if is_tree and pairs else set(sources)
        real_tops = {real(top) for top in tops}
        for _, target in pairs:
            place = real(target)
            if place in real_tops or (is_tree and any(place.startswith(f"{top}/") for top in real_tops)):
                raise ValueError(f"nothing was moved: {target!r} is in the source of the move")
        await self._refuse_one_target(pairs)
        # Directories of the sources: what is in them is moved too, and they end with it.
        above = {source[:at] for source in sources for at, letter in enumerate(source) if letter == "/"}
        moves = [self._mv_file(source, target) for source, target in pairs]
        results = await _run_coros_in_chunks(moves, batch_size=self.batch_size, return_exceptions=True)
        for (source, target), result in zip(pairs, results, strict=True):
            is_missing = isinstance(result, NotFoundError) and not isinstance(result, NoBucketError)
            if is_missing and (source in above or await self._isdir(source)):
                await self._cp_directory(source, target)
            elif isinstance(result, BaseException):
                raise result
        if is_tree and pairs:
            left = [name for top in sorted(tops) for name in await self._rm_emptied(top)]
            if left:
                names = ", ".join(left[:_NAMED]) + (", …" if len(left) > _NAMED else "")
                raise OSError(errno.ENOTEMPTY, f"not moved, and still there: {names}")

    def _real_path(self, path: str) -> str:
        """The path by which two names of one place are the same."""
        return path

    async def _refuse_one_target(self, pairs: list[tuple[str, str]]) -> None:
        """Fails if two files have one target. Two directories may."""
        times = Counter(target for _, target in pairs)
        files = set(await self._only_files([source for source, target in pairs if times[target] > 1]))
        times = Counter(target for source, target in pairs if source in files)
        if twice := [target for target, count in times.items() if count > 1]:
            raise ValueError(f"nothing was moved: {twice[0]!r} would be the target of {times[twice[0]]} files")

    async def _rm_emptied(self, path: str) -> list[str]:
        """Removes the marks of directories of a tree, and returns what else is in it."""
        bucket, key = self._split(path)
        marks: list[str] = []
        left: list[str] = []
        async for entry in self._store(bucket).list(f"{key}/" if key else ""):
            is_mark = isinstance(entry, _native.Object) and entry.key.endswith("/") and entry.size == 0
            (marks if is_mark else left).append(entry.key)
        try:
            if marks:
                await self._delete_keys(bucket, marks)
        finally:
            self.invalidate_cache(path)
        return [f"{bucket}/{each}" for each in left]

    async def _moves(
        self, path1: Any, path2: Any, recursive: bool, maxdepth: int | None
    ) -> tuple[list[str], list[str]]:
        """What is to be moved, and where to: as fsspec decides it for copies."""
        sources = await self._expand_path(path1, recursive=recursive, maxdepth=maxdepth)
        is_text = isinstance(path1, str)
        is_pattern = is_text and has_magic(path1)
        if not recursive:
            sources = await self._only_files(sources)
        if not sources:
            if is_pattern:
                return [], []
            raise IsADirectoryError(f"{path1!r} is a directory: mv with recursive=True moves it")
        if isinstance(path2, str):
            is_into = path2.endswith("/") or await self._isdir(path2)
            is_inside = is_text and (len(sources) == 1 if is_pattern else is_into and not path1.endswith("/"))
            targets = other_paths(sources, self._strip_protocol(path2), exists=is_inside, flatten=not is_text)
        else:
            targets = self._strip_protocol(path2)
        if maxdepth is not None:
            # The directories stay: not all that is in them is moved.
            files = set(await self._only_files(sources))
            pairs = [pair for pair in zip(sources, targets, strict=True) if pair[0] in files]
            sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        return sources, targets

    async def _only_files(self, paths: list[str]) -> list[str]:
        return [path for path in paths if (await self._info(path))["type"] == "file"]

    async def _tops(self, paths: Any) -> set[str]:
        """The paths that the removal of all trees at ``paths`` begins with."""
        stripped = [self._strip_protocol(path) for path in ([paths] if isinstance(paths, str) else paths)]
        if any(has_magic(path) for path in stripped):
            stripped = await self._expand_path(stripped)
        return _outermost(stripped)

    # Removal.

    async def _rm_file(self, path: str, **options: Any) -> None:
        check_known(options)
        self._check_writable()
        bucket, key = self._located(path)
        try:
            await self._store(bucket).delete(key)
        finally:
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
        check_known(options, ("recursive", "maxdepth", "batch_size"))
        self._check_writable()
        if recursive and maxdepth is None:
            for top in sorted(await self._tops(path)):
                await self._rm_tree(top)
            return
        paths = [self._strip_protocol(each) for each in ([path] if isinstance(path, str) else path)]
        if recursive or any(has_magic(each) for each in paths):
            paths = await self._files_of(paths, recursive, maxdepth)
        by_bucket: dict[str, list[str]] = {}
        for each in paths:
            bucket, key = self._split(each)
            if bucket and not key and not await self._is_prefix(bucket):
                raise FileNotFoundError(each)
            bucket, key = self._located(each)
            by_bucket.setdefault(bucket, []).append(key)
        for bucket, keys in by_bucket.items():
            try:
                await self._delete_keys(bucket, keys)
            finally:
                for key in keys:
                    self.forget(self._joined(bucket, key))

    async def _files_of(self, paths: list[str], recursive: bool, maxdepth: int | None) -> list[str]:
        """The files that the paths and patterns name, with ``recursive`` also those at most ``maxdepth`` deep in the
        directories that they name. Directories stay: their files may be deeper."""
        files: set[str] = set()
        directories: list[tuple[str, int | None]] = []
        for path in paths:
            if has_magic(path):
                below = None if maxdepth is None else maxdepth - 1
                for name, info in (await self._glob(path, maxdepth=maxdepth, detail=True)).items():
                    if info["type"] == "directory":
                        directories.append((name, below))
                    else:
                        files.add(name)
            elif recursive:
                directories.append((path, maxdepth))
            else:
                files.add(path)
        if not files and not directories:
            raise FileNotFoundError(", ".join(paths))
        for directory, depth in directories:
            # An object may have the name of a directory.
            try:
                files.add((await self._file_info(directory))["name"])
            except (FileNotFoundError, IsADirectoryError):
                pass
            if recursive and depth != 0:
                files |= set(await self._find(directory, maxdepth=depth))
        return sorted(files)

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
                    await self._delete_keys(bucket, keys)
                    keys.clear()
            if not is_there and key:
                await self._info(path, refresh=True)
            if keys:
                await self._delete_keys(bucket, keys)
        finally:
            self.invalidate_cache(path)

    async def _delete_keys(self, bucket: str, keys: Collection[str]) -> None:
        report = await self._store(bucket).delete_many(keys)
        if report.failed:
            raise report.failed[0][1]

    def _check_writable(self) -> None:
        if self._settings.read_only:
            raise PermissionError("the file system is for reading only: it was opened with access='read_only'")


def _outermost(paths: Iterable[str]) -> set[str]:
    """The paths without those that lie below another of them."""
    tops = set(paths)

    def lies_below_another(path: str) -> bool:
        while "/" in path:
            path = path.rpartition("/")[0]
            if (path or "/") in tops:
                return True
        return False

    return {path for path in tops if path == "/" or not lies_below_another(path)}
