"""Waits for operations of the native half, in the calling thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _native

#: Called with the figures of a transfer while it lasts, about ten times a second, and once after its end. An exception
#: of it cancels a transfer that has not ended.
ProgressCallback = Callable[[_native.Progress], object]

#: Seconds between two calls of a progress callback.
REPORT_EVERY = 0.1


def wait(operation: _native.Operation, progress: ProgressCallback | None = None) -> Any:
    """The operation's result. The interpreter is free for other threads meanwhile, and signals are handled: an
    exception of a handler, such as KeyboardInterrupt, cancels the operation."""
    result = wait_reporting(operation, progress)
    report(operation, progress)
    return result


def wait_reporting(operation: _native.Operation, progress: ProgressCallback | None) -> Any:
    """As :func:`wait`, without the call of ``progress`` at the end."""
    if progress is None:
        return operation.wait()
    try:
        while not operation.has_ended_in(REPORT_EVERY):
            report(operation, progress)
        return operation.wait()
    except BaseException:
        # The traceback would keep the operation, and what it holds.
        operation.cancel()
        raise


def report(operation: _native.Operation, progress: ProgressCallback | None) -> None:
    """Calls ``progress`` with the operation's figures, if it is a transfer."""
    figures = operation.progress() if progress is not None else None
    if progress is not None and figures is not None:
        progress(figures)
