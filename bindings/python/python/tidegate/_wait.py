"""Waits for operations of the native half, in the calling thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _native

#: Called with the figures of a transfer while it lasts, about ten times a second, and once at its end. An exception of
#: it cancels the transfer.
ProgressCallback = Callable[[_native.Progress], object]

#: Seconds between two calls of a progress callback.
REPORT_EVERY = 0.1


def wait(operation: _native.Operation, progress: ProgressCallback | None = None) -> Any:
    """The operation's result. The interpreter is free for other threads meanwhile, and signals are handled: an
    exception of a handler, such as KeyboardInterrupt, cancels the operation."""
    if progress is None:
        return operation.wait()
    while not operation.has_ended_in(REPORT_EVERY):
        figures = operation.progress()
        if figures is not None:
            progress(figures)
    result = operation.wait()
    figures = operation.progress()
    if figures is not None:
        progress(figures)
    return result
