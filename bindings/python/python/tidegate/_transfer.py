"""Transfers by URL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _native
from ._errors import Error
from ._open import split, store_of, taken
from ._settings import StoreSettings
from ._wait import wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from ._options import CopyOptions, DownloadUrlOptions, StoreOptions, UploadUrlOptions
    from ._trees import Event, SyncTreesOptions, TreeReport


class SyncReport(NamedTuple):
    """What a synchronization has done."""

    copied: int
    unchanged: int
    removed: int
    #: Names in local directories that are neither files nor directories, and were left out.
    left_out: int
    #: Keys that were not copied or removed, each with the reason.
    failed: list[tuple[str, Error]]
    #: Of a dry run: what would be done (``"copy"`` or ``"remove"``), and to which key.
    planned: list[tuple[str, str]]


class SyncError(Error):
    """A synchronization has not done all it was to do; :attr:`report` says what it has."""

    report: SyncReport


def upload(path: str | os.PathLike[str], url: str, **options: Unpack[UploadUrlOptions]) -> _native.Object:
    """Uploads the file at ``path`` to ``url``; see :meth:`tidegate.Store.upload`. Options are those of the store and of
    the upload."""
    place, key = split(url)
    given = cast("dict[str, Any]", options)
    return store_of(place, taken(given)).upload(path, key, **given)


def download(url: str, path: str | os.PathLike[str], **options: Unpack[DownloadUrlOptions]) -> _native.Object:
    """Downloads ``url`` to the file at ``path``; see :meth:`tidegate.Store.download`. Options are those of the store
    and of the download."""
    place, key = split(url)
    given = cast("dict[str, Any]", options)
    return store_of(place, taken(given)).download(key, path, **given)


def copy(
    url: str,
    to_url: str,
    *,
    source: StoreOptions | None = None,
    target: StoreOptions | None = None,
    **options: Unpack[CopyOptions],
) -> _native.Object:
    """Copies an object with its attributes: inside the store if one store has both and makes copies, otherwise through
    this machine. ``source`` and ``target`` are options of the two stores.

    >>> import tidegate
    >>> with tidegate.open("memory://docs/draft", "wb") as file:
    ...     _ = file.write(b"text")
    >>> copy("memory://docs/draft", "memory://docs/final").key
    'final'
    """
    (place, key), (to_place, to_key) = split(url), split(to_url)
    from_store, to_store = store_of(place, dict(source or {})), store_of(to_place, dict(target or {}))
    progress = options.pop("progress", None)
    ours, theirs = from_store.native(), to_store.native()
    method = ours.copy if ours.is_one_with(theirs) else ours.copy_through
    return cast("_native.Object", wait(method(key, theirs, to_key, dict(options)), progress))


def sync(
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
    from . import trees

    run = trees.sync(source, target, source_options=source_options, target_options=target_options, **options)
    seen = SeenBySync(target, source)
    with run:
        for event in run:
            seen.see(event)
            if on_event is not None:
                on_event(event)
    return seen.report(run.report_at_end)


class SeenBySync:
    """What the report of a synchronization needs of its events."""

    def __init__(self, *trees: str | os.PathLike[str] | StoreSettings) -> None:
        places = [tree.location if isinstance(tree, StoreSettings) else os.fspath(tree) for tree in trees]
        self._roots = [f"{place.removesuffix('/')}/" for place in places]
        self._failed: list[tuple[str, Error]] = []
        self._planned: list[tuple[str, str]] = []

    def see(self, event: Event) -> None:
        if event.error is not None:
            self._failed.append((self._key(event.target or ""), event.error))
        elif event.dry_run and event.target is not None:
            verb = "remove" if event.kind == "removed" else "copy"
            self._planned.append((verb, self._key(event.target)))

    def _key(self, url: str) -> str:
        """The key below the tree that a URL is in."""
        root = next((root for root in self._roots if url.startswith(root)), "")
        return url.removeprefix(root)

    def report(self, ask: Callable[[], TreeReport]) -> SyncReport:
        """The report that ``ask`` returns or raises."""
        from ._trees import IncompleteError

        try:
            return self._of(ask())
        except IncompleteError as incomplete:
            error = SyncError(str(incomplete))
            error.kind, error.report = incomplete.kind, self._of(incomplete.report)
            raise error from incomplete.__cause__

    def _of(self, report: TreeReport) -> SyncReport:
        copied, removed = (0, 0) if self._planned else (report.copied, report.removed)
        return SyncReport(copied, report.unchanged, removed, report.left_out, self._failed, self._planned)
