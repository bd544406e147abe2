"""Blocking calls whose work ends when they are interrupted.

The coroutine behind a blocking call of fsspec runs in another thread. fsspec's own calls leave it running there when an
exception, such as that of Ctrl-C, ends the wait: an upload is published seconds later, a removal goes on. The calls made
here cancel the coroutine, and the tasks that fsspec has started for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar

from fsspec.exceptions import FSTimeoutError
from fsspec.spec import AbstractFileSystem

#: Seconds that an interrupted call waits for the end of its tasks.
_CANCEL_WAIT = 2.0

_Class = TypeVar("_Class", bound=type)


class _Call:
    """One blocking call, with its tasks in the event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_cancelled = False

    def join(self, task: asyncio.Task[Any]) -> None:
        """The task works for this call from now on. Not if the call was interrupted: the task is cancelled then."""
        if self._is_cancelled:
            raise asyncio.CancelledError
        if task not in self._tasks:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def run(
        self, function: Callable[..., Coroutine[Any, Any, Any]], args: Any, options: Mapping[str, Any]
    ) -> Any:
        _current.set(self)
        join_call()
        return await function(*args, **options)

    async def cancel(self) -> None:
        self._is_cancelled = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


#: The call that a task works for. A task has it from the task that started it.
_current: ContextVar[_Call | None] = ContextVar("tidegate_blocking_call", default=None)


def join_call() -> None:
    """Has an interrupt of the blocking call, if the running task belongs to one, also cancel this task. fsspec cancels
    the tasks that it starts only when one of them fails."""
    call, task = _current.get(), asyncio.current_task()
    if call is not None and task is not None:
        call.join(task)


def sync(
    loop: asyncio.AbstractEventLoop | None,
    function: Callable[..., Coroutine[Any, Any, Any]],
    *args: Any,
    timeout: float | None = None,
    **options: Any,
) -> Any:
    """What ``function`` returns, run by ``loop`` in its thread. An exception that ends the wait cancels it."""
    if loop is None or loop.is_closed():
        raise RuntimeError("Loop is not running")
    if asyncio._get_running_loop() is loop:
        raise NotImplementedError("a blocking call in the thread of its own event loop would never end")
    call = _Call()
    result = asyncio.run_coroutine_threadsafe(call.run(function, args, options), loop)
    try:
        return result.result(timeout or None)
    except BaseException as error:
        if result.done():
            raise
        concurrent.futures.wait([asyncio.run_coroutine_threadsafe(call.cancel(), loop)], _CANCEL_WAIT)
        if isinstance(error, TimeoutError):
            raise FSTimeoutError from error
        raise


def with_blocking_calls(cls: _Class) -> _Class:
    """Gives a file system the blocking methods of fsspec, each of which runs the coroutine of its name with ``_``. fsspec
    then makes none of its own."""
    for name in dir(AbstractFileSystem):
        default, coroutine = getattr(AbstractFileSystem, name), getattr(cls, f"_{name}", None)
        if getattr(cls, name) is default and inspect.iscoroutinefunction(coroutine):
            setattr(cls, name, _blocking(name, default, coroutine))
    return cls


def _blocking(name: str, default: Any, coroutine: Any) -> Any:
    @functools.wraps(coroutine)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        return sync(self.loop, getattr(self, f"_{name}"), *args, **options)

    call.__name__ = name
    call.__doc__ = coroutine.__doc__ or default.__doc__
    return call
