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


async def run(operation: _native.Operation, progress: ProgressCallback | None = None) -> Any:
    """The operation's result. Cancelling the task cancels the operation, and so does an exception of ``progress``."""
    result = await run_reporting(operation, progress)
    report(operation, progress)
    return result


async def run_reporting(operation: _native.Operation, progress: ProgressCallback | None) -> Any:
    """As :func:`run`, without the call of ``progress`` at the end."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    operation.start(_completions(loop), ended)
    try:
        if progress is None:
            return await ended
        while not (await asyncio.wait([ended], timeout=REPORT_EVERY))[0]:
            report(operation, progress)
        return await ended
    except BaseException:
        # Has no effect on an operation that has ended.
        operation.cancel()
        ended.cancel()
        raise
