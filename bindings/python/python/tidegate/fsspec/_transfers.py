"""Downloads to the local disk and uploads from there, of files and trees."""

from __future__ import annotations

import os
import warnings
from glob import has_magic
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.implementations.local import LocalFileSystem, make_path_posix
from fsspec.utils import isfilelike

from .. import _native
from .._wait import ProgressCallback
from ._names import check_counts, copied_to, real_paths, sharing, two_files
from ._settings import call_options, check_newest
from ._trees import TreeFileSystem

#: Bytes that are read at a time into a file object.
_PIECE = 4 << 20


class TransferFileSystem(TreeFileSystem):
    """A file system that downloads to the local disk, and uploads from there."""

    async def _get(
        self,
        rpath: Any,
        lpath: Any,
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,
    ) -> Any:
        """As fsspec's own, but two objects that would become one file are a :class:`ValueError`, and nothing is
        downloaded. So is an object whose key leads out of the target."""
        if isinstance(rpath, list) and isinstance(lpath, list):
            sources, targets = rpath, lpath
        else:
            sources, is_pattern = await self._named(rpath, recursive, maxdepth)
            if not sources:
                return None
            targets = lpath
            if not isinstance(lpath, list):
                target = make_path_posix(lpath)
                is_directory = target.endswith("/") or os.path.isdir(target)
                targets = copied_to(
                    sources, rpath, target, self._strip_protocol, is_pattern=is_pattern, is_directory=is_directory
                )
                _refuse_outside(target, sources, targets)
        check_counts(sources, targets, "downloaded")
        targets = [make_path_posix(each) for each in targets]
        for group in sharing(zip(sources, targets, strict=True), real_paths(), on_disk=True):
            await self._refuse_two_files(group, "downloaded")
        return await super()._get(sources, targets, callback=callback, **options)

    async def _put(
        self,
        lpath: Any,
        rpath: Any,
        recursive: bool = False,
        callback: Callback = DEFAULT_CALLBACK,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **options: Any,
    ) -> Any:
        """As fsspec's own, but two files that would become one object are a :class:`ValueError`, and nothing is
        uploaded."""
        if isinstance(lpath, list) and isinstance(rpath, list):
            sources, targets = lpath, rpath
        else:
            sources, is_pattern = _named_on_disk(lpath, recursive, maxdepth)
            if not sources:
                return None
            strip = LocalFileSystem._strip_protocol
            targets = await self._targets(sources, lpath, rpath, strip, is_pattern=is_pattern)
        check_counts(sources, targets, "uploaded")
        files = [pair for pair in zip(sources, targets, strict=True) if not os.path.isdir(pair[0])]
        for group in sharing(files, self._place, on_disk=self.local_file):
            raise two_files(group, "uploaded")
        return await super()._put(sources, targets, callback=callback, batch_size=batch_size, **options)

    async def _put_file(
        self,
        lpath: str | os.PathLike[str],
        rpath: str,
        mode: str | None = None,
        callback: Callback = DEFAULT_CALLBACK,
        **options: Any,
    ) -> None:
        if os.path.isdir(lpath):
            await self._makedirs(rpath, exist_ok=True)
            return
        bucket, key = self._located(rpath)
        given = self._write_options({"mode": mode, **options})
        callback.set_size(os.stat(lpath).st_size)
        progress = _reported(callback, given.pop("progress", None))
        try:
            object = await self._store(bucket).upload(lpath, key, progress=progress, **given)
        finally:
            self.forget(self._joined(bucket, key))
        callback.absolute_update(object.size)

    async def _get_file(self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, **options: Any) -> None:
        check_newest(options)
        if isfilelike(lpath):
            return await self._read_into(rpath, lpath, callback)
        if os.path.isdir(lpath) and await self._is_only_directory(rpath):
            await self._warn_of_data(rpath)
            return
        try:
            bucket, key = self._located(rpath)
            store = self._store(bucket)
            if callback is DEFAULT_CALLBACK:
                await store.download(key, lpath)
                return
            callback.set_size((await self._info(rpath))["size"])
            progress = _reported(callback, None)
            object = await store.download(key, lpath, progress=progress)
            callback.absolute_update(object.size)
        except (FileNotFoundError, IsADirectoryError):
            if not await self._is_only_directory(rpath):
                raise
            os.makedirs(lpath, exist_ok=True)
            await self._warn_of_data(rpath)

    async def _warn_of_data(self, path: str) -> None:
        """Warns if the object that marks a directory has data, which no local directory can hold."""
        bucket, key = self._split(self._strip_protocol(path))
        if not key or self.local_file:
            return
        try:
            mark = await self._store(bucket).head(f"{key}/")
        except (FileNotFoundError, IsADirectoryError):
            return
        if mark.size:
            name = f"{bucket}/{key}/"
            warnings.warn(f"{name!r} was not downloaded: its name is that of a directory", stacklevel=2)

    async def _read_into(self, rpath: str, file: Any, callback: Callback) -> None:
        bucket, key = self._located(rpath)
        reader = await self._store(bucket).reader(key)
        callback.set_size(reader.size)
        async with reader:
            while data := await reader.read(_PIECE):
                file.write(data)
                callback.relative_update(len(data))

    def _write_options(self, given: dict[str, Any]) -> dict[str, Any]:
        self._check_writable()
        return self._settings.write | call_options(given)


def _named_on_disk(path: Any, recursive: bool, maxdepth: int | None) -> tuple[list[str], bool]:
    """What ``path`` names on the local disk, and whether it is one pattern: as of a path of the file system."""
    disk, found = LocalFileSystem(), set()
    paths = [disk._strip_protocol(each) for each in ([path] if isinstance(path, str | os.PathLike) else path)]
    patterns = {each for each in paths if has_magic(each) and not os.path.lexists(each)}
    for each in paths:
        if each in patterns:
            found.update(disk.expand_path(each, recursive=recursive, maxdepth=maxdepth))
            continue
        if recursive:
            found.update(disk.find(each, maxdepth=maxdepth, withdirs=True))
        if not recursive or os.path.lexists(each):
            found.add(each)
    if not found:
        raise FileNotFoundError(", ".join(paths))
    sources = sorted(found)
    is_text = isinstance(path, str)
    if is_text and (not recursive or maxdepth is not None):
        sources = [each for each in sources if not os.path.isdir(each)]
    return sources, is_text and bool(patterns)


def _refuse_outside(top: str, sources: list[str], targets: list[str]) -> None:
    top = os.path.abspath(top)
    for source, target in zip(sources, targets, strict=True):
        path = os.path.abspath(target)
        if path != top and not path.startswith(f"{top.rstrip('/')}/"):
            raise ValueError(f"nothing was downloaded: {source!r} would become {path!r}, which is not in {top!r}")


def _reported(callback: Callback, progress: ProgressCallback | None) -> ProgressCallback | None:
    """Tells both of the progress. fsspec's default callback does nothing, and is not called."""
    if callback is DEFAULT_CALLBACK:
        return progress

    def report(figures: _native.Progress) -> None:
        callback.absolute_update(figures.acknowledged)
        if progress is not None:
            progress(figures)

    return report
