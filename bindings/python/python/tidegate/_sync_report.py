"""The report of a synchronization."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ._errors import Error
from ._settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._trees import Event, TreeReport


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
