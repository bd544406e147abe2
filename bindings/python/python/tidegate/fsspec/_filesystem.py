"""The file system that all stores share: what changes and reads objects, and files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from fsspec.asyn import _run_coros_in_chunks

from .. import _native
from .._errors import InvalidInputError
from .._files import TextFile, checked_mode
from .._reader import Reader
from .._settings import native_options
from .._wait import wait
from ..aio import Reader as AsyncReader
from ..aio import Store as AsyncStore
from ..aio import Writer as AsyncWriter
from ..aio._start import run
from ._blocking import with_blocking_calls
from ._read import CachedFile, ReadFile
from ._settings import check_newest, check_read_options
from ._transaction import ObjectTransaction
from ._transfers import TransferFileSystem
from ._written import AsyncWrittenFile, DeferredFile, WrittenFile

#: Bytes that are read at a time into a file object.
_PIECE = 4 << 20


@with_blocking_calls
class ObjectFileSystem(TransferFileSystem):
    """Objects of one kind of store as files, whose paths are ``bucket/key``.

    A directory is a prefix that ends with ``/``: it is there while an object is below it. Making one sends nothing, and
    an object whose key ends with ``/`` marks one.

    Files that are opened for writing are Tidegate's: a file is visible as a whole when it is closed, or never; see
    :class:`tidegate.Writer`. All blocking calls can be used by all threads, and after a fork. One that is interrupted
    cancels what it has begun.
    """

    transaction_type = ObjectTransaction

    # Whole objects.

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        check_newest(options)
        bucket, key = self._located_exactly(path)
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
        check_newest(options)
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

    # Without a mode, the file system's option `create_only` decides.

    async def _pipe_file(self, path: str, value: Any, mode: str | None = None, **options: Any) -> None:
        bucket, key = self._located(path)
        given = self._write_options({"mode": mode, **options})
        try:
            await self._store(bucket).put(key, value, **given)
        finally:
            self.forget(self._joined(bucket, key))

    # Directories.

    async def _mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Creates a bucket. Below a bucket there is nothing to create: a directory is there while it has files."""
        self._check_writable()
        bucket, key = self._split(self._strip_protocol(path))
        if not bucket:
            raise ValueError("the path of a new bucket names none")
        if not key:
            if await self._has_bucket(bucket):
                raise FileExistsError(path)
            await self._create_bucket(bucket)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        # fsspec makes the directories of each file that is written: a bucket whose name is misspelt is not created.
        bucket, key = self._split(self._strip_protocol(path))
        self._check_writable()
        if key or exist_ok:
            return
        if await self._is_prefix(bucket):
            raise FileExistsError(path)
        await self._create_bucket(bucket)

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

    async def _has_bucket(self, bucket: str) -> bool:
        return await self._is_prefix(bucket)

    async def _create_bucket(self, bucket: str) -> None:
        engine, reach = self._account()
        await run(engine.create_bucket(self._url(bucket), reach))

    async def _remove_bucket(self, bucket: str) -> None:
        engine, reach = self._account()
        try:
            await run(engine.remove_bucket(self._url(bucket), reach))
        finally:
            self.invalidate_cache(bucket)

    async def _sign(self, path: str, expiration: float = 100, method: str = "GET", **options: Any) -> str:
        """A URL by which anyone can read the object (or with ``method="PUT"`` write it) for so many seconds: a secret
        like a password."""
        check_newest(options)
        bucket, key = self._located(path)
        return await self._store(bucket).presign(key, expiration, method=cast("Any", method.upper()))

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
        if "b" in mode or "r" in mode:
            return super().open(path, mode, block_size, cache_options, compression, **options)
        text = {name: options.pop(name) for name in ("encoding", "errors", "newline") if name in options}
        file = self.open(path, mode.replace("t", "") + "b", block_size, cache_options, compression, **options)
        return TextFile(file, **text)

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
        what = "a" if set(mode) == {"a", "b"} else checked_mode(mode)[0]
        if what == "r":
            return self.open_object(path, block_size, cache_type, cache_options, **options)
        bucket, key = self._located(path)
        given = self._write_options(options)
        store = self._blocking_store(bucket)
        before: Reader | None = None
        if not autocommit:
            self._check_may_follow(path, store.url_of(key), what)
        if what == "x":
            if store.exists(key):
                raise FileExistsError(f"{store.url_of(key)}: there is an object already")
            given["create_only"] = True
        elif what == "a":
            try:
                before = store.reader(key)
            except FileNotFoundError:
                given["create_only"] = True
            else:
                # Closing fails if the object is another by then.
                given = _attributes(before.object) | given | {"replaces": before.object}
                if before.object.tag_count and "tags" not in given:
                    given["tags"] = store.tags(key)
        progress = given.pop("progress", None)
        native = cast("_native.Writer", wait(store.native().writer(key, native_options(given))))
        file_type = WrittenFile if autocommit else DeferredFile
        file = file_type(self, self._joined(bucket, key), native, progress)
        file.is_appended = what == "a"
        if before is not None:
            try:
                with before:
                    while data := before.read(_PIECE):
                        file.write(data)
            except BaseException:
                file.discard()
                raise
        return file

    def _check_may_follow(self, path: str, url: str, what: str) -> None:
        """Raises an exception if a file of the running transaction waits for its end and has this path, and the one that
        is opened now could not be published after it."""
        if what not in ("a", "x") or not self.transaction.has_file(self._joined(*self._located(path))):
            return
        if what == "x":
            raise FileExistsError(f"{url}: a file of this transaction has this path already")
        raise ValueError(
            f"{url}: a file of this transaction has this path and is not published yet, so that nothing can be appended "
            "to it: append after the transaction, or write it all into one file"
        )

    def open_object(
        self,
        path: str,
        block_size: int | None = None,
        cache_type: str | None = None,
        cache_options: dict[str, Any] | None = None,
        random: bool = False,
        if_unchanged: _native.Object | None = None,
        size: int | None = None,
        **options: Any,
    ) -> ReadFile | CachedFile:
        """Opens an object for reading: what ``open`` with mode ``rb`` does. With ``size`` the file has so many bytes, and
        what the object has after them is not read.

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
        given["size"] = size
        path = self._joined(bucket, key)
        if cache_type is None:
            span = None if size is None else (0, size)
            return ReadFile(self, path, store.reader(key, range=span, if_unchanged=if_unchanged, random=random), given)
        object = if_unchanged if if_unchanged is not None else store.head(key)
        return CachedFile(self, path, store, key, object, given)

    async def open_async(self, path: str, mode: str = "rb", **options: Any) -> AsyncReader | AsyncWriter:
        """Opens a binary file whose calls are awaited; see :class:`tidegate.aio.Writer`. Nothing is buffered, so that a
        ``block_size`` has no effect."""
        options.pop("block_size", None)
        what, is_text = checked_mode(mode)
        if is_text or options.pop("compression", None):
            raise ValueError("files of asyncio are binary, and not compressed")
        bucket, key = self._located(path)
        store = self._store(bucket)
        if what == "r":
            check_read_options(options)
            return await store.reader(key)
        if self._intrans:
            raise ValueError(f"{store.url_of(key)}: files of asyncio take no part in transactions")
        given = self._write_options(options)
        if what == "x":
            given["create_only"] = True
        progress = given.pop("progress", None)
        native = cast("_native.Writer", await run(store.native().writer(key, native_options(given))))
        return AsyncWrittenFile(self, self._joined(bucket, key), native, progress)


async def _range(
    store: AsyncStore, key: str, start: int, end: int | None, if_unchanged: _native.Object | None = None
) -> bytes:
    if end is not None and end <= start:
        return b""
    return await store.get_range(key, start, end, if_unchanged=if_unchanged)


def _attributes(object: _native.Object) -> dict[str, Any]:
    """What an object carries, for another that continues it."""
    names = ("content_type", "cache_control", "content_encoding", "content_disposition", "content_language", "expires")
    return {
        name: getattr(object, name)
        for name in (*names, "metadata", "storage_class", "encryption")
        if getattr(object, name)
    }
