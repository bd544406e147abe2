"""Copies, moves and removals of objects and trees."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Collection, Iterable
from typing import Any

from .. import _native
from .._errors import NoBucketError, NotFoundError, UnsupportedError
from .._settings import native_options
from ..aio._start import run
from ._names import NamedFileSystem, check_counts
from ._settings import call_options, check_known, check_newest

#: How many keys are deleted at a time: of a tree of any size, no more than these are held.
_DELETED_AT_ONCE = 10_000
#: How many of the names that a move leaves are in its error.
_NAMED = 5
#: Options of the file system's writes that hold for its copies too. A copy has the attributes of its source.
_COPY_SETTINGS = frozenset({"concurrency", "create_only", "encryption", "part_size", "storage_class"})
#: Those that an object gets by a copy only, and not by a rename.
_CHANGED_BY_A_COPY = frozenset({"encryption", "storage_class"})
#: How many objects are moved at once, unless the file system has a `batch_size`.
_MOVED_AT_ONCE = 128


class TreeFileSystem(NamedFileSystem):
    """A file system that copies, moves and removes what it lists."""

    # Copies.

    async def _cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copies an object: inside the store if it makes such copies, otherwise through this machine."""
        check_newest(options)
        self._check_writable()
        (bucket, key), (to_bucket, to_key) = (self._split(self._strip_protocol(path)) for path in (path1, path2))
        if not key or (not to_key and await self._is_only_directory(path1)):
            await self._cp_directory(path1, path2, call_options(options))
            return
        self._located(path2)
        try:
            await self._cp_key((bucket, key), (to_bucket, to_key), call_options(options))
        except FileNotFoundError:
            if not await self._is_only_directory(path1):
                raise
            await self._cp_directory(path1, path2, call_options(options))

    async def _cp_key(self, source: tuple[str, str], target: tuple[str, str], options: dict[str, Any]) -> None:
        given = self._copy_settings() | options
        progress = given.pop("progress", None)
        ours, theirs = self._store(source[0]).native(), self._store(target[0]).native()

        async def copy(method: Callable[..., _native.Operation]) -> None:
            await run(method(source[1], theirs, target[1], native_options(given)), progress)

        try:
            if not ours.is_one_with(theirs):
                await copy(ours.copy_through)
                return
            try:
                await copy(ours.copy)
            except UnsupportedError:
                await copy(ours.copy_through)
        finally:
            self.forget(self._joined(*target))

    async def _cp_directory(self, path1: str, path2: str, options: dict[str, Any]) -> None:
        """Copies what has the name of a directory with a slash: its mark, or an object with data, which no listing of files
        has. What is in the directory is copied by itself."""
        await self._makedirs(path2, exist_ok=True)
        (bucket, key), (to_bucket, to_key) = (self._split(self._strip_protocol(path)) for path in (path1, path2))
        if not key:
            return
        try:
            mark = await self._store(bucket).head(f"{key}/")
        except (FileNotFoundError, IsADirectoryError):
            return
        if not to_key:
            if mark.size:
                raise IsADirectoryError(
                    f"{key + '/'!r} has data, and cannot be copied to a bucket without a name there"
                )
            return
        try:
            await self._cp_key((bucket, f"{key}/"), (to_bucket, f"{to_key}/"), options)
        except FileExistsError:
            # Of two marks, neither has anything to lose.
            if mark.size:
                raise

    async def _copy(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        on_error: Any = None,
        maxdepth: int | None = None,
        **options: Any,
    ) -> None:
        """As fsspec's own, but an object that is gone is an error also in a tree, unless ``on_error="ignore"``. Two objects
        with one target are a :class:`ValueError`, and nothing is copied."""
        if isinstance(path1, list) and isinstance(path2, list):
            sources, targets = path1, path2
        else:
            sources, is_pattern = await self._named(path1, recursive, maxdepth)
            if not sources:
                return
            targets = await self._targets(sources, path1, path2, self._strip_protocol, is_pattern=is_pattern)
        check_counts(sources, targets, "copied")
        await self._refuse_shared_targets(list(zip(sources, targets, strict=True)), "copied")
        await super()._copy(sources, targets, on_error=on_error or "raise", **options)

    # Moves.

    async def _mv_file(self, path1: str, path2: str, **options: Any) -> None:
        """Moves an object. The source is removed only if it is still the object that was copied; an object that is its
        own target, also by a link, stays as it is."""
        check_known(options)
        self._check_writable()
        await self._mv_key(self._located(path1), self._located(path2))

    async def _mv_key(self, source: tuple[str, str], target: tuple[str, str]) -> None:
        store, settings = self._store(source[0]), self._copy_settings()
        try:
            if self._real_path(self._joined(*source)) == self._real_path(self._joined(*target)):
                await store.head(source[1])
                return
            if source[0] == target[0] and not _CHANGED_BY_A_COPY & settings.keys():
                try:
                    await store.rename(source[1], target[1], create_only=settings.get("create_only", False))
                    return
                except UnsupportedError:
                    # The store makes no such copies, and renames by them.
                    pass
            object = await store.head(source[1])
            await self._cp_key(source, target, {})
            await store.delete(source[1], if_unchanged=object)
        finally:
            self.forget(self._joined(*source))
            self.forget(self._joined(*target))

    def _copy_settings(self) -> dict[str, Any]:
        """The options of the file system that a copy has, too."""
        return {name: value for name, value in self._settings.write.items() if name in _COPY_SETTINGS}

    async def _mv(
        self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any
    ) -> None:
        """Moves objects: each is renamed where the store can do so, else copied, and removed if it is still the object
        that was copied. A target that is a source too, or lies in a tree that is moved, and a target of two objects are a
        :class:`ValueError`, and nothing is moved. What cannot be moved stays, and is an :class:`OSError` that names it: a
        link to a directory, say, or an object that came meanwhile."""
        check_known(options, ("recursive", "maxdepth"))
        self._check_writable()
        is_listed = isinstance(path1, list) and isinstance(path2, list)
        is_tree = recursive and maxdepth is None and not is_listed
        if is_listed:
            sources, targets = self._strip_protocol(path1), self._strip_protocol(path2)
            check_counts(sources, targets, "moved")
            await self._refuse_directories(sources)
        else:
            sources, targets = await self._moves(path1, path2, recursive, maxdepth)
        named = [self._joined(*self._split(path)) for path in (*sources, *targets)]
        pairs = list(zip(named[: len(sources)], named[len(sources) :], strict=True))
        pairs = [pair for pair in pairs if self._real_path(pair[0]) != self._real_path(pair[1])]
        if not pairs:
            return
        tops = {source for source, _ in pairs}
        if is_tree:
            tops = {self._joined(*self._split(top)) for top in await self._tops(path1)}
        await self._refuse_targets(pairs, tops, is_tree)
        directories = await self._mv_files(pairs)
        for source, target in directories:
            await self._mv_directory(source, target)
        if is_tree:
            left = [name for top in sorted(tops) for name in await self._rm_emptied(top, dict(pairs))]
            if left:
                names = ", ".join(left[:_NAMED]) + (", …" if len(left) > _NAMED else "")
                raise OSError(errno.ENOTEMPTY, f"not moved, and still there: {names}")

    async def _mv_files(self, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Moves the files among the pairs. Returns the directories, with their targets."""
        at_once = asyncio.Semaphore(self.batch_size or _MOVED_AT_ONCE)

        async def move(source: str, target: str) -> bool:
            # A bucket is a directory.
            if not self._split(source)[1]:
                return False
            async with at_once:
                await self._mv_file(source, target)
            return True

        # A gathering that is cancelled cancels what it waits for.
        results = await asyncio.gather(*(move(*pair) for pair in pairs), return_exceptions=True)
        parents = {source[:at] for source, _ in pairs for at, letter in enumerate(source) if letter == "/"}
        directories, failures = [], []
        for (source, target), result in zip(pairs, results, strict=True):
            is_missing = isinstance(result, (NotFoundError, IsADirectoryError)) and not isinstance(
                result, NoBucketError
            )
            if result is False or (is_missing and (source in parents or await self._isdir(source))):
                directories.append((source, target))
            elif isinstance(result, BaseException):
                failures.append((source, result))
        if failures:
            (_, first), others = failures[0], failures[1:]
            if others:
                first.add_note(
                    f"{len(others)} more could not be moved: {', '.join(path for path, _ in others[:_NAMED])}"
                )
            raise first
        return directories

    async def _mv_directory(self, source: str, target: str) -> None:
        """Makes a directory at its new place. What was in it has been moved."""
        await self._makedirs(target, exist_ok=True)

    async def _refuse_directories(self, paths: list[str]) -> None:
        files = set(await self._only_files(paths))
        if directory := next((path for path in paths if path not in files), None):
            raise IsADirectoryError(f"nothing was moved: {directory!r} is a directory: mv of one path moves it")

    async def _refuse_targets(self, pairs: list[tuple[str, str]], tops: set[str], is_tree: bool) -> None:
        """Fails if a target is in the source, if it names no object, and if two files have one target. Two directories
        may."""
        real_tops = {self._real_path(top) for top in tops}
        for source, target in pairs:
            place = self._real_path(target)
            if place in real_tops or (is_tree and any(place.startswith(f"{top}/") for top in real_tops)):
                raise ValueError(f"nothing was moved: {target!r} is in the source of the move")
            if not self._split(target)[1] and not await self._is_only_directory(source):
                self._located(target)
        await self._refuse_shared_targets(pairs, "moved")

    async def _rm_emptied(self, path: str, targets: dict[str, str]) -> list[str]:
        """Ends the directories of a tree whose files were moved: moves their marks, and returns what else is in it.
        ``targets`` has the targets of the directories."""
        bucket, key = self._split(path)
        marks: list[tuple[_native.Object, str]] = []
        folders: list[str] = []
        left: list[str] = []
        async for entry in self._store(bucket).list(f"{key}/" if key else ""):
            target = _target_below(self._joined(bucket, entry.key.rstrip("/")), targets)
            if isinstance(entry, _native.Other):
                folders.append(entry.key)
            elif isinstance(entry, _native.Object) and entry.key.endswith("/") and entry.size == 0 and target:
                marks.append((entry, target))
            else:
                left.append(entry.key)
        try:
            for mark, target in marks:
                to_bucket, to_key = self._split(target)
                if to_key:
                    await self._mv_key((bucket, mark.key), (to_bucket, f"{to_key}/"))
                else:
                    # A bucket has no mark.
                    await self._store(bucket).delete(mark.key, if_unchanged=mark)
            # A directory of Azure with a name of its own, the deepest first.
            for folder in sorted(folders, reverse=True):
                await self._store(bucket).delete(folder)
        finally:
            self.invalidate_cache(path)
        return [f"{bucket}/{each}" for each in left]

    async def _moves(
        self, path1: Any, path2: Any, recursive: bool, maxdepth: int | None
    ) -> tuple[list[str], list[str]]:
        """What is to be moved, and where to: as fsspec decides it for copies."""
        is_text = isinstance(path1, str)
        paths = [self._strip_protocol(path) for path in ([path1] if is_text else path1)]
        patterns = await self._patterns(paths)
        sources = sorted(await self._expanded(paths, patterns, recursive, maxdepth))
        is_pattern = is_text and bool(patterns)
        if not recursive:
            if not is_text:
                await self._refuse_directories(sources)
            sources = await self._only_files(sources)
        if not sources:
            if is_pattern:
                return [], []
            raise IsADirectoryError(f"{path1!r} is a directory: mv with recursive=True moves it")
        targets = await self._targets(sources, path1, path2, self._strip_protocol, is_pattern=is_pattern)
        targets = self._strip_protocol(targets)
        if maxdepth is not None:
            # The directories stay: not all that is in them is moved.
            files = set(await self._only_files(sources))
            pairs = [pair for pair in zip(sources, targets, strict=True) if pair[0] in files]
            sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        return sources, targets

    async def _tops(self, paths: Any) -> set[str]:
        """The paths that the removal of all trees at ``paths`` begins with."""
        stripped = [self._strip_protocol(path) for path in ([paths] if isinstance(paths, str) else paths)]
        return _outermost(await self._expand_path(stripped) if stripped else [])

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
        patterns = await self._patterns(paths)
        if recursive or patterns:
            paths = await self._files_of(paths, patterns, recursive, maxdepth)
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

    async def _files_of(self, paths: list[str], patterns: set[str], recursive: bool, maxdepth: int | None) -> list[str]:
        """The files that the paths and patterns name, with ``recursive`` also those at most ``maxdepth`` deep in the
        directories that they name. Directories stay: their files may be deeper."""
        files: set[str] = set()
        directories: list[tuple[str, int | None]] = []
        for path in paths:
            if path in patterns:
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


def _target_below(path: str, targets: dict[str, str]) -> str | None:
    """The target of a path, or its place below the target of the next directory above it that has one."""
    above = path
    while above not in targets:
        above, slash, _ = above.rpartition("/")
        if not slash:
            return None
    return targets[above] + path[len(above) :]
