"""Transfers by URL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _native
from ._errors import Error, InvalidInputError
from ._open import split, store_of, taken
from ._store import Store, StoreSettings
from ._wait import wait

if TYPE_CHECKING:
    from typing import Unpack

    from ._options import CopyOptions, DownloadUrlOptions, StoreOptions, UploadUrlOptions


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
    source: str | os.PathLike[str] | Store,
    target: str | os.PathLike[str] | Store,
    *,
    delete: bool = False,
    delete_all: bool = False,
    dry_run: bool = False,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
) -> SyncReport:
    """Makes ``target`` like ``source``, which are URLs, directories or stores: copies what the target lacks, what has
    another size, and what is newer at the source.

    With ``delete``, then removes what only the target has; not if anything could not be copied, nor, without
    ``delete_all``, if the source is empty. What the target has in place of a link, a pipe or another name of the source
    that is no object stays, and what is below. Trees of which one is in the other are refused. ``dry_run`` changes nothing,
    and its report says what would be done. ``source_options`` and ``target_options`` are options of the two stores, where
    they are given by URL. Raises :class:`SyncError` if an object could not be copied or removed, and if a store does not
    list its keys in order, because then the trees cannot be compared. The command ``tidegate sync`` can do more.
    """
    from_store = source if isinstance(source, Store) else store_of(os.fspath(source), dict(source_options or {}))
    to_store = target if isinstance(target, Store) else store_of(os.fspath(target), dict(target_options or {}))
    fields = wait(from_store.native().sync_to(to_store.native(), delete, delete_all, dry_run))
    return reported(fields, from_store, to_store)


def reported(fields: Any, source: StoreSettings, target: StoreSettings) -> SyncReport:
    """The report, if all was done."""
    *figures, refused = fields
    refusal, about = refused or (None, None)
    if refusal == "overlap":
        raise _refused(f"{source.location} and {target.location} overlap: one is in the other")
    report = SyncReport(*figures)
    if refusal == "disorder":
        error = SyncError(f"nothing was removed: {about}")
        error.kind, error.report = "unsupported", report
        raise error
    if report.failed:
        first = report.failed[0][1]
        error = SyncError(f"{len(report.failed)} objects were not copied or removed; the first: {first}")
        error.kind, error.report = first.kind, report
        raise error from first
    if refusal == "empty source":
        raise _refused(
            f"nothing was removed from {target.location}: {source.location} is empty, and everything at the target "
            "would be removed (give delete_all if that is meant)"
        )
    return report


def _refused(message: str) -> InvalidInputError:
    error = InvalidInputError(message)
    error.kind = "invalid_input"
    return error
