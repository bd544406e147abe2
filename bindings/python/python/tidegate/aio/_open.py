"""Files by their URLs, and transfers, for asyncio."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from .. import _native, trees
from .._files import checked_mode, not_of_reading
from .._open import split, taken
from .._settings import StoreSettings
from .._tide import frozen
from .._transfer import SeenBySync, SyncReport
from .._trees import Event, SyncTreesOptions
from ._files import Opening, Reader, Writer
from ._start import run
from ._store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from .._options import CopyOptions, DownloadUrlOptions, OpenOptions, StoreOptions, UploadUrlOptions, UrlOptions


@lru_cache(maxsize=64)
def _kept(url: str, options: tuple[tuple[str, Any], ...]) -> Store:
    return Store(url, **dict(options))


def _store(url: str, options: dict[str, Any]) -> Store:
    return _kept(url, frozen(options))


@overload
def open(url: str | os.PathLike[str], mode: Literal["rb"] = "rb", **options: Unpack[UrlOptions]) -> Opening[Reader]: ...


@overload
def open(url: str | os.PathLike[str], mode: Literal["wb", "xb"], **options: Unpack[OpenOptions]) -> Opening[Writer]: ...


def open(url: str | os.PathLike[str], mode: str = "rb", **options: Any) -> Any:
    """Opens an object as a binary file, to be awaited or used with ``async with``; see :func:`tidegate.open`."""
    what, is_text = checked_mode(mode)
    if is_text:
        raise ValueError(f"mode {mode!r}: files of asyncio are binary")
    place, key = split(url)
    store = _store(place, taken(options))
    if what == "r":
        if options:
            raise not_of_reading(options)
        return store.reader(key)
    if what == "x":
        options["create_only"] = True
    return store.writer(key, **options)


async def upload(path: str | os.PathLike[str], url: str, **options: Unpack[UploadUrlOptions]) -> _native.Object:
    """Uploads the file at ``path`` to ``url``; see :func:`tidegate.upload`."""
    place, key = split(url)
    given = cast("dict[str, Any]", options)
    return await _store(place, taken(given)).upload(path, key, **given)


async def download(url: str, path: str | os.PathLike[str], **options: Unpack[DownloadUrlOptions]) -> _native.Object:
    """Downloads ``url`` to the file at ``path``; see :func:`tidegate.download`."""
    place, key = split(url)
    given = cast("dict[str, Any]", options)
    return await _store(place, taken(given)).download(key, path, **given)


async def copy(
    url: str,
    to_url: str,
    *,
    source: StoreOptions | None = None,
    target: StoreOptions | None = None,
    **options: Unpack[CopyOptions],
) -> _native.Object:
    """Copies an object; see :func:`tidegate.copy`."""
    (place, key), (to_place, to_key) = split(url), split(to_url)
    from_store, to_store = _store(place, dict(source or {})), _store(to_place, dict(target or {}))
    progress = options.pop("progress", None)
    ours, theirs = from_store.native(), to_store.native()
    method = ours.copy if ours.is_one_with(theirs) else ours.copy_through
    return cast("_native.Object", await run(method(key, theirs, to_key, dict(options)), progress))


async def sync(
    source: str | os.PathLike[str] | StoreSettings,
    target: str | os.PathLike[str] | StoreSettings,
    *,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    on_event: Callable[[Event], object] | None = None,
    **options: Unpack[SyncTreesOptions],
) -> SyncReport:
    """Makes ``target`` like ``source``; see :func:`tidegate.sync`."""
    run = trees.sync(source, target, source_options=source_options, target_options=target_options, **options)
    seen = SeenBySync(target, source)
    with run:
        async for event in run:
            seen.see(event)
            if on_event is not None:
                on_event(event)
    return seen.report(run.report_at_end)
