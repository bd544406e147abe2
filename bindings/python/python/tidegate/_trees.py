"""What operations on trees share between threads and asyncio: their options, events and reports."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, cast

from ._errors import Error
from ._local import text_of
from ._options import no_option

if TYPE_CHECKING:
    from . import _native


class Event(NamedTuple):
    """Something that an operation on trees tells while it runs."""

    #: ``copied``, ``removed``, ``skipped`` (its target exists), ``differs`` (of a check), ``warning``, ``notice`` or
    #: ``failed``.
    kind: Literal["copied", "removed", "skipped", "differs", "warning", "notice", "failed"]
    #: The URL or path of the source, where there is one.
    source: str | None = None
    #: The URL or path of the target, or of what was removed or failed.
    target: str | None = None
    #: Of a copy: its size, if that is known.
    bytes: int | None = None
    #: Of a difference: the key below both trees.
    key: str | None = None
    #: One sentence for people; of a difference, how the two sides differ: ``missing``, ``extra``, ``size``, ``newer``,
    #: ``checksum`` or ``unproven``.
    message: str | None = None
    #: Of a failure: the exception.
    error: Error | None = None
    #: Whether nothing was done, because it is a dry run.
    dry_run: bool = False


class TreeReport(NamedTuple):
    """What an operation on trees has done, or in a dry run would do."""

    copied: int
    #: The bytes of the copied objects.
    bytes: int
    #: Objects of both sides that needed no copy.
    unchanged: int
    removed: int
    #: Objects whose targets exist, and stay.
    skipped: int
    #: Names in local directories that are neither files nor directories, and were left out.
    left_out: int
    #: Keys that a check has compared.
    compared: int
    #: Keys whose two sides differ: what a check finds.
    different: int
    failed: int
    #: What was not done, or not as asked, and is no failure: sentences for people, the first 1,000.
    warnings: list[str]


class TreeProgress(NamedTuple):
    """How far an operation on trees is."""

    #: Bytes that were sent or received.
    bytes: int
    #: The bytes of all transfers so far; ``None`` if a store does not say how many one has.
    expected: int | None
    #: Objects that were copied, or failed.
    objects: int
    #: Objects that were found so far. They may turn out to need nothing.
    found: int


class IncompleteError(Error):
    """An operation on trees has not done all it was to do; :attr:`report` says what it has, and :attr:`failures` are
    the first reasons."""

    report: TreeReport
    failures: list[Error]


class FilterOptions(TypedDict, total=False):
    """Which objects of a tree an operation takes."""

    #: Names to take: patterns, in which ``*`` stands for any characters but ``/``, and ``**`` for any characters. A
    #: pattern is a name at any depth, or begins with ``/`` for the top; it also takes everything below a name.
    include: str | Sequence[str]
    #: Names to leave out, in patterns like those of ``include``.
    exclude: str | Sequence[str]
    #: Names to take and to leave out, in order: each ``+pattern`` or ``-pattern``. The last one that matches decides,
    #: and what none matches is taken if the first is one that leaves out.
    filter: Sequence[str]
    newer_than: datetime | float
    older_than: datetime | float
    min_size: int
    max_size: int


class FileOptions(FilterOptions, total=False):
    """What is kept of files, and what becomes of their links."""

    #: Whether the times and permissions of files are kept, in the metadata of objects.
    preserve: bool
    #: Symbolic links below a directory: ``files`` copies those to files as these files, ``skip`` none, ``follow`` enters
    #: directories too, ``preserve`` makes objects ``NAME.rclonelink`` of them.
    links: Literal["files", "skip", "follow", "preserve"]


class CompareOptions(FileOptions, total=False):
    """How two objects of one key are compared."""

    compare: Literal["time", "size", "checksum"]


class SyncTreesOptions(CompareOptions, total=False):
    """The options of a synchronization."""

    #: Whether to remove what only the target has, after all copies.
    delete: bool
    #: With ``delete``: whether to remove everything if the source is empty.
    delete_all: bool
    #: With ``delete``: remove nothing if more objects than this would be removed.
    max_delete: int
    #: Whether to change nothing.
    dry_run: bool
    #: Whether a bucket of the same name at another address is another place, without a proof.
    assume_distinct: bool
    #: Whether downloaded files are forced to disk.
    fsync: bool


class CopyTreesOptions(FileOptions, total=False):
    """The options of a copy or move of many objects."""

    #: Whether to take everything below a directory or prefix, and below the matches of a pattern.
    recursive: bool
    #: What is done if a target exists.
    if_exists: Literal["replace", "fail", "skip"]
    #: Whether to change nothing.
    dry_run: bool
    #: Whether a bucket of the same name at another address is another place, without a proof.
    assume_distinct: bool
    #: Whether downloaded files are forced to disk.
    fsync: bool
    #: Whether ``*`` in a source stands for any characters but ``/``, and ``**`` for any characters.
    patterns: bool


class FromCommandOptions(TypedDict, total=False):
    """The options of an upload of what a command writes."""

    #: What is done if the target exists.
    if_exists: Literal["replace", "fail"]
    #: Whether to change nothing, and not to run the command.
    dry_run: bool
    #: Whether a written file is forced to disk.
    fsync: bool


class RemoveTreesOptions(FilterOptions, total=False):
    """The options of a removal of many objects."""

    #: Whether to remove everything below each source.
    recursive: bool
    #: Whether to change nothing.
    dry_run: bool
    #: Whether ``*`` in a source stands for any characters but ``/``, and ``**`` for any characters.
    patterns: bool


def native_tree_options(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The options as the native half takes them: those that the operation knows."""
    given = dict(options)
    if unknown := [name for name in given if name not in known]:
        raise no_option(unknown[0], known)
    if alone := [name for name in ("delete_all", "max_delete") if name in given and not given.get("delete")]:
        raise ValueError(f"the option {alone[0]!r} goes with `delete`")
    rules: list[tuple[bool, str]] = []
    for name, takes in (("include", True), ("exclude", False)):
        patterns = given.pop(name, None)
        if patterns is None:
            continue
        patterns = [patterns] if isinstance(patterns, str) else list(patterns)
        # No pattern to include would mean everything.
        if "" in patterns or (takes and not patterns):
            raise ValueError(f"{name}: there is no pattern in it: leave the option out to take everything")
        rules += [(takes, pattern) for pattern in patterns]
    for rule in given.pop("filter", None) or ():
        if rule[:1] not in ("+", "-") or rule in ("+", "-"):
            raise ValueError(f"filter: {rule!r} is no + or - with a pattern")
        rules.append((rule[0] == "+", rule[1:]))
    if rules:
        given["filter"] = rules
    for name in ("newer_than", "older_than"):
        if isinstance(given.get(name), datetime):
            given[name] = given[name].timestamp()
    return given


def names(sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The sources, one or several."""
    if isinstance(sources, (str, os.PathLike)):
        return [text_of(sources)]
    if isinstance(sources, bytes):
        return [text_of(sources)]
    return [text_of(source) for source in sources]


def root(url: str | os.PathLike[str]) -> str:
    """The bucket of a URL, or the working directory, by which an engine is found."""
    scheme, separator, rest = text_of(url).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator and scheme.lower() != "file" else "."


def event(fields: dict[str, Any]) -> Event:
    return Event(**fields)


class Ended:
    """The events of a run that its report needs."""

    def __init__(self) -> None:
        self.failures: list[Error] = []
        self.warnings: list[str] = []
        self._outcome: tuple[TreeReport, Error | None] | None = None

    def see(self, event: Event) -> None:
        if event.error is not None and len(self.failures) < 1000:
            self.failures.append(event.error)
        if event.kind == "warning" and len(self.warnings) < 1000:
            self.warnings.append(event.message or "")

    def report(self, native: _native.TreeRun) -> TreeReport:
        """The report; raises what ended the run early, or :class:`IncompleteError`."""
        if self._outcome is None:
            fields, error = cast("tuple[dict[str, int], Error | None]", native.result())
            self._outcome = TreeReport(**fields, warnings=self.warnings), error
        report, error = self._outcome
        if error is None and not report.failed:
            return report
        if error is not None and not report.failed and not self.failures:
            raise error
        first = error or next(iter(self.failures), Error("something has failed"))
        count = max(report.failed, len(self.failures))
        incomplete = IncompleteError(f"{count} of {count + report.copied + report.removed} failed; the first: {first}")
        incomplete.kind, incomplete.report = first.kind, report
        incomplete.failures = [*self.failures, *([error] if error is not None else [])]
        raise incomplete from first
