"""Trees of objects: copy, move, compare and remove them, from any store to any store.

Each function prepares an operation, which does nothing before its events are taken or its report is asked for:

>>> import tidegate
>>> with tidegate.open("memory://photos/2026/a.jpg", "wb") as file:
...     _ = file.write(b"jpeg")
>>> run = tidegate.trees.sync("memory://photos", "memory://mirror", include="*.jpg")
>>> for event in run:
...     print(event.kind, event.target)
copied memory://mirror/2026/a.jpg
>>> run.report().copied
1
>>> tidegate.trees.sync("memory://photos", "memory://mirror").report().unchanged
1

In asyncio, the same operations are taken by ``async for event in run``, and ``await run`` is the report:

>>> import asyncio
>>> async def main():
...     run = tidegate.trees.sync("memory://photos", "memory://copy")
...     async for event in run:
...         print(event.kind, event.target)
...     return (await run).copied
>>> asyncio.run(main())
copied memory://copy/2026/a.jpg
1

What is given as ``source_options``, ``target_options`` or ``store_options`` are options of the stores.
"""

from __future__ import annotations

import enum
import os
import warnings
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native
from ._local import text_of
from ._open import store_of
from ._settings import StoreSettings
from ._trees import (
    CompareOptions,
    CopyTreesOptions,
    Ended,
    Event,
    FromCommandOptions,
    IncompleteError,
    RemoveTreesOptions,
    SyncTreesOptions,
    TreeProgress,
    TreeReport,
    event,
    names,
    native_tree_options,
    root,
)
from ._wait import wait

if TYPE_CHECKING:
    from typing import Unpack

    from ._options import StoreOptions

__all__ = [
    "Event",
    "IncompleteError",
    "Run",
    "TreeProgress",
    "TreeReport",
    "check",
    "copy",
    "from_command",
    "move",
    "remove",
    "sync",
]


class State(enum.Enum):
    """How far a run is."""

    NEW = enum.auto()
    BEGUN = enum.auto()
    #: Somebody has ended it early, on purpose.
    STOPPED = enum.auto()
    ENDED = enum.auto()


class Run:
    """An operation that runs while its events are taken: nothing is done before :meth:`report`, a loop over the run, or
    ``await``. A loop over all events ends with the exception that :meth:`report` would raise. A run that is dropped before
    it has begun or ended is a :class:`RuntimeWarning`.

    The end of a ``with`` block stops it: what is in flight is cut, nothing is half-published, and nothing more is removed.
    Use one where the loop's body may raise.
    """

    def __init__(self, native: _native.TreeRun, name: str) -> None:
        self._native = native
        self._name = name
        self._state = State.NEW
        self._ended = Ended()
        self._taken: deque[Event] = deque()

    def __iter__(self) -> Iterator[Event]:
        yield from self.events()
        self._raise_unless_stopped()

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for happened in self.events_in_asyncio():
            yield happened
        self._raise_unless_stopped()

    def _raise_unless_stopped(self) -> None:
        # A stop is no error by itself. A failure before the stop is one.
        if self._state is not State.STOPPED or self._ended.failures:
            self.report_at_end()

    def events(self) -> Iterator[Event]:
        """The events, without an exception at their end: :meth:`report_at_end` has it."""
        self._begin()
        while True:
            while self._taken:
                yield self._taken.popleft()
            if not self._take(wait(self._native.next_batch())):
                return self._end()

    async def events_in_asyncio(self) -> AsyncIterator[Event]:
        """As :meth:`events`."""
        # The loop of asyncio is imported only where it runs.
        from .aio._start import run

        self._begin()
        while True:
            while self._taken:
                yield self._taken.popleft()
            if not self._take(await run(self._native.next_batch())):
                self._end()
                return

    def _begin(self) -> None:
        if self._state is State.NEW:
            self._state = State.BEGUN

    def _end(self) -> None:
        if self._state is State.BEGUN:
            self._state = State.ENDED

    def _take(self, batch: list[dict[str, Any]] | None) -> bool:
        """Keeps the events of a batch; whether there may be more."""
        for fields in batch or ():
            happened = event(fields)
            self._ended.see(happened)
            self._taken.append(happened)
        return batch is not None

    def __await__(self) -> Generator[Any, None, TreeReport]:
        return self._report().__await__()

    async def _report(self) -> TreeReport:
        async for _ in self.events_in_asyncio():
            pass
        return self.report_at_end()

    def report(self) -> TreeReport:
        """Takes the events that are left, and returns what was done. Raises the exception that has ended the operation
        early, and :class:`IncompleteError` if something has failed."""
        for _ in self.events():
            pass
        return self.report_at_end()

    def report_at_end(self) -> TreeReport:
        """As :meth:`report`, after the last event."""
        return self._ended.report(self._native)

    def progress(self) -> TreeProgress:
        """How far it is. May be asked from any thread."""
        return TreeProgress(*self._native.progress())

    def stop(self) -> None:
        """Stops it, from any thread. Its events end soon; its report is an exception, unless it was over."""
        if self._state is not State.ENDED:
            self._state = State.STOPPED
        self._native.stop()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None or self._state is State.BEGUN:
            self._state = State.STOPPED
        self._native.stop()

    def __del__(self) -> None:
        left = {
            State.NEW: "was never begun, and has done nothing: call report(), iterate over it, or await it",
            State.BEGUN: "was dropped before its end, and may not have done everything: stop() ends one on purpose",
        }
        if (why := left.get(getattr(self, "_state", State.ENDED))) is not None:
            warnings.warn(f"the run of {self._name} {why}", RuntimeWarning, stacklevel=2, source=self)


def sync(
    source: str | os.PathLike[str] | StoreSettings,
    target: str | os.PathLike[str] | StoreSettings,
    *,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    **options: Unpack[SyncTreesOptions],
) -> Run:
    """Makes ``target`` like ``source``: copies what the target lacks, what has another size, and what is newer at the
    source.

    With ``delete``, then removes what only the target has; not if anything could not be listed or copied, nor, without
    ``delete_all``, if the source is empty. Trees of which one is in the other are refused.
    """
    ours, theirs = _trees(source, source_options, target, target_options)
    return Run(ours.sync_to(theirs, native_tree_options(options, SyncTreesOptions.__optional_keys__)), "sync")


def check(
    source: str | os.PathLike[str] | StoreSettings,
    target: str | os.PathLike[str] | StoreSettings,
    *,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    **options: Unpack[CompareOptions],
) -> Run:
    """Compares two trees, and changes nothing. An event names each difference, and the report says how many there
    are."""
    ours, theirs = _trees(source, source_options, target, target_options)
    return Run(ours.check_with(theirs, native_tree_options(options, CompareOptions.__optional_keys__)), "check")


def copy(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    **options: Unpack[CopyTreesOptions],
) -> Run:
    """Copies objects, files, patterns of them, and with ``recursive`` trees.

    Below a target that is a directory or ends with a slash, an object keeps its name, and a tree its own, unless the
    tree is written with a slash at its end.
    """
    return _copy(sources, target, (source_options, target_options), options, moves=False)


def from_command(
    command: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    timeout: float | None = None,
    target_options: StoreOptions | None = None,
    **options: Unpack[FromCommandOptions],
) -> Run:
    """Runs a command, without a shell, and uploads what it writes to its standard output.

    The object is published only if the command exits with 0 and nobody holds its output open any more. Otherwise, or if it
    runs for longer than ``timeout`` seconds, nothing is, and the report raises the reason.

    >>> import tidegate
    >>> tidegate.trees.from_command(["echo", "whole"], "memory://dumps/a").report().bytes
    6
    >>> try:
    ...     tidegate.trees.from_command(["sh", "-c", "echo half; exit 3"], "memory://dumps/b").report()
    ... except tidegate.Error as error:
    ...     print(error)
    sh: the command failed: exit code 3
    """
    how = native_tree_options(options, FromCommandOptions.__optional_keys__)
    if isinstance(command, (str, bytes, os.PathLike)):
        raise TypeError(f"a command is a list of words, such as ['echo', 'hi'], not {command!r}")
    words = [os.fspath(word) for word in command]
    store = store_of(root(target), dict(target_options or {}))
    return Run(store.native().copy_command(words, timeout, text_of(target), how), "from_command")


def move(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    source_options: StoreOptions | None = None,
    target_options: StoreOptions | None = None,
    **options: Unpack[CopyTreesOptions],
) -> Run:
    """Copies, and then removes each source whose copy is confirmed, unless it has changed meanwhile; see
    :func:`copy`."""
    return _copy(sources, target, (source_options, target_options), options, moves=True)


def remove(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    store_options: StoreOptions | None = None,
    **options: Unpack[RemoveTreesOptions],
) -> Run:
    """Removes objects, patterns of them, and with ``recursive`` trees. A missing object is a failure."""
    given = names(sources)
    store = store_of(root(given[0]) if given else ".", dict(store_options or {}))
    how = native_tree_options(options, RemoveTreesOptions.__optional_keys__)
    return Run(store.native().remove_trees(given, how), "remove")


def _trees(
    source: str | os.PathLike[str] | StoreSettings,
    source_options: StoreOptions | None,
    target: str | os.PathLike[str] | StoreSettings,
    target_options: StoreOptions | None,
) -> tuple[_native.Store, _native.Store]:
    return _tree(source, source_options, "source"), _tree(target, target_options, "target")


def _tree(tree: str | os.PathLike[str] | StoreSettings, options: StoreOptions | None, side: str) -> _native.Store:
    if not isinstance(tree, StoreSettings):
        return store_of(text_of(tree), dict(options or {})).native()
    if options:
        raise TypeError(f"`{side}_options` goes with a URL or a path: the store that is given as {side} has its own")
    return tree.native()


def _copy(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    settings: tuple[StoreOptions | None, StoreOptions | None],
    options: Mapping[str, Any],
    *,
    moves: bool,
) -> Run:
    given = names(sources)
    how = native_tree_options(options, CopyTreesOptions.__optional_keys__) | {"move": moves}
    ours = store_of(root(given[0]) if given else ".", dict(settings[0] or {}))
    theirs = store_of(root(target), dict(settings[1] or {}))
    run = ours.native().copy_trees(given, theirs.native(), text_of(target), how)
    return Run(run, "move" if moves else "copy")
