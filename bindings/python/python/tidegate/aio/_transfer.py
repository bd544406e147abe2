"""Transfers by URL. `scripts/python-blocking` makes the blocking ones from these."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from .. import _native
from .._places import split, taken
from .._settings import StoreSettings
from .._sync_report import SeenBySync, SyncReport
from ._open import store_of
from ._start import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from .._options import CopyOptions, DownloadUrlOptions, StoreOptions, UploadUrlOptions
    from .._trees import Event, SyncTreesOptions


async def upload(path: str | os.PathLike[str], url: str, **options: Unpack[UploadUrlOptions]) -> _native.Object:
    """Uploads the file at ``path`` to ``url``; see :meth:`tidegate.Store.upload`. Options are those of the store and of
    the upload."""
    place, key = split(url)
    given = cast("dict[str, Any]", options)
    return await store_of(place, taken(given)).upload(path, key, **given)


async def download(url: str, path: str | os.PathLike[str], **options: Unpack[DownloadUrlOptions]) -> _native.Object:
    """Downloads ``url`` to the file at ``path``; see :meth:`tidegate.Store.download`. Options are those of the store
    and of the download."""
    place, key = split(url)
    given = cast("dict[str, Any]", options)
    return await store_of(place, taken(given)).download(key, path, **given)


async def copy(
    url: str,
    to_url: str,
    *,
    source: StoreOptions | None = None,
    target: StoreOptions | None = None,
    **options: Unpack[CopyOptions],
) -> _native.Object:
    """Copies an object with its attributes: inside the store if one store has both and makes copies, otherwise through
    this machine. ``source`` and ``target`` are options of the two stores. Attributes that are given replace the object's;
    with ``{}`` as metadata or tags the copy has none.
    """
    (place, key), (to_place, to_key) = split(url), split(to_url)
    from_store, to_store = store_of(place, dict(source or {})), store_of(to_place, dict(target or {}))
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
    """Makes ``target`` like ``source``, which are URLs, directories or stores: copies what the target lacks, what has
    another size, and what is newer at the source.

    With ``delete``, then removes what only the target has; not if anything could not be copied, nor, without
    ``delete_all``, if the source is empty. What the target has in place of a link, a pipe or another name of the source
    that is no object stays, and what is below. Trees of which one is in the other are refused. ``dry_run`` changes nothing,
    and its report says what would be done. ``source_options`` and ``target_options`` are options of the two stores, where
    they are given by URL. ``on_event`` is called with each :class:`tidegate.trees.Event`. Raises :class:`SyncError` if
    something has failed. :func:`tidegate.trees.sync` has the same options, and events to iterate over.
    """
    # Most programs copy no trees.
    from .. import trees

    running = trees.sync(source, target, source_options=source_options, target_options=target_options, **options)
    seen = SeenBySync(target, source)
    with running:
        async for event in running.events_in_asyncio():
            seen.see(event)
            if on_event is not None:
                on_event(event)
    return seen.report(running.report_at_end)
