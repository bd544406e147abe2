"""Hands operations of the native half to the running event loop."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from weakref import WeakKeyDictionary

from .. import _native
from .._wait import REPORT_EVERY, ProgressCallback, report

#: What each loop watches, with the process that made it.
_watched: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[int, _native.Completions]] = WeakKeyDictionary()


class _Pending(asyncio.Future[Any]):
    """The result of an operation; cancelling this cancels the operation."""

    operation: _native.Operation

    def cancel(self, msg: Any | None = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self.operation.cancel()
        return cancelled


def _completions(loop: asyncio.AbstractEventLoop) -> _native.Completions:
    found = _watched.get(loop)
    if found is not None and found[0] == os.getpid():
        return found[1]
    # A loop that is kept after its end, by an exception for example, would keep its queue.
    for other in [other for other in list(_watched) if other.is_closed()]:
        _watched.pop(other, None)
    completions = _native.Completions()
    loop.add_reader(completions.fileno(), completions.deliver)
    _watched[loop] = (os.getpid(), completions)
    return completions


def start(operation: _native.Operation) -> asyncio.Future[Any]:
    """Starts the operation; the future gets its result."""
    loop = asyncio.get_running_loop()
    pending = _Pending(loop=loop)
    pending.operation = operation
    operation.start(_completions(loop), pending)
    return pending


async def run(operation: _native.Operation, progress: ProgressCallback | None = None) -> Any:
    """The operation's result. Cancelling the task cancels the operation, and so does an exception of ``progress``."""
    if progress is None:
        return await start(operation)
    result = await run_reporting(operation, progress)
    report(operation, progress)
    return result


async def run_reporting(operation: _native.Operation, progress: ProgressCallback | None) -> Any:
    """As :func:`run`, without the call of ``progress`` at the end."""
    pending = start(operation)
    if progress is None:
        return await pending
    try:
        while not (await asyncio.wait([pending], timeout=REPORT_EVERY))[0]:
            report(operation, progress)
        return await pending
    finally:
        pending.cancel()
