"""The rule of :mod:`tidegate._close_guard` for streams that Arrow closes in C++.

The library asks here when a stream is opened and when it is closed, on threads that run Python. Arrow's own threads do not
ask: no exception is in flight there.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from . import _native
from ._ending import Ending, State
from ._engines import engines

_OPENED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_char_p)
_CLOSING = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)

#: What the library's questions are answered with. ctypes gives 0 for a function that raises: Ctrl-C may come at any line.
_FAILED, _NOTED = 0, 1
_PUBLISH, _DISCARD = 1, 2
#: How many numbers of streams are asked for at a time.
_AT_ONCE = 64

#: The streams that Python has opened, and that have not ended. One that ends without Python stays until the next one is
#: opened or closed, or until the program ends.
_endings: dict[int, Ending] = {}
#: Of each thread, the stream that it has opened last.
_last = threading.local()


class _Python(ctypes.Structure):
    _fields_ = (
        ("opened", _OPENED),
        ("closing", _CLOSING),
        ("this_thread_state", ctypes.c_void_p),
        ("is_finalizing", ctypes.c_void_p),
        ("ensure", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("fetch", ctypes.c_void_p),
        ("restore", ctypes.c_void_p),
    )


class _Stream:
    """What an :class:`Ending` asks of an upload, for a stream of C++."""

    #: Whether bytes outlive the program is not known here.
    strategy = "auto"

    def __init__(self, library: ctypes.CDLL, number: int, url: str) -> None:
        self._library, self._number = library, number
        self.url, self.process = url, os.getpid()

    def is_own(self) -> bool:
        return self.process == os.getpid()

    def has_failed(self) -> bool:
        # The stream itself says so when it is closed.
        return False

    def drop(self) -> None:
        if self.is_own():
            self._library.tidegate_arrow_discard(self._number)

    fail = drop


class _Sessions:
    """The upload sessions of the library, as the exit waits for those of an engine."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def settled(self) -> _Sessions:
        return self

    def has_ended_in(self, seconds: float) -> bool:
        return bool(self._library.tidegate_arrow_settle(int(seconds * 1000)))


def install(library: ctypes.CDLL) -> None:
    """Has the library ask here. The functions live as long as the process."""
    sessions = cast("_native.Engine", _Sessions(library))

    def opened(number: int, url: bytes) -> int:
        def note() -> None:
            _forget_ended(library)
            # What the exit waits for, also in a child.
            engines.setdefault((os.getpid(), "tidegate.arrow"), sessions)
            stream = _Stream(library, number, url.decode("utf-8", "surrogateescape"))
            _endings[number] = _last.ending = Ending(cast("_native.Writer", stream))

        if _ends_well(note):
            return _NOTED
        # The library opens no stream then.
        _last.ending = None
        _endings.pop(number, None)
        return _FAILED

    def closing(number: int) -> int:
        verdict = _DISCARD

        def decide() -> None:
            nonlocal verdict
            _forget_ended(library)
            ending = _endings.pop(number, None)
            if ending is None:
                # Opened where no Python ran.
                verdict = _PUBLISH
            elif not ending.is_closed and not ending.drop_if_stopped():
                ending.leave(State.PUBLISHED)
                verdict = _PUBLISH

        return verdict if _ends_well(decide) else _FAILED

    # Before the exit tells of what is open: functions of `atexit` run in the reverse order.
    atexit.register(_forget_ended, library)
    api = ctypes.pythonapi
    is_finalizing = api.Py_IsFinalizing if sys.version_info >= (3, 13) else api._Py_IsFinalizing
    functions: list[Any] = [
        api.PyGILState_GetThisThreadState,
        is_finalizing,
        api.PyGILState_Ensure,
        api.PyGILState_Release,
        api.PyErr_Fetch,
        api.PyErr_Restore,
    ]
    pointers = [ctypes.cast(function, ctypes.c_void_p) for function in functions]
    python = _Python(_OPENED(opened), _CLOSING(closing), *pointers)
    _kept.append(python)
    library.tidegate_arrow_set_python(ctypes.byref(python))


#: What C++ calls until the process is gone.
_kept: list[Any] = []


def _ends_well(call: Callable[[], None]) -> bool:
    """Calls a function for C++, which no exception goes through: one is reported, or is raised again in the main thread if
    it interrupts the program."""
    try:
        call()
    except KeyboardInterrupt:
        _thread.interrupt_main()
        return False
    except BaseException as error:
        about = SimpleNamespace(
            exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__, err_msg=None, object=call
        )
        sys.unraisablehook(cast("sys.UnraisableHookArgs", about))
        return False
    return True


def _forget_ended(library: ctypes.CDLL) -> None:
    """Forgets the streams that have ended without Python, and tells of those that nobody had closed."""
    numbers = (ctypes.c_int64 * _AT_ONCE)()
    while count := library.tidegate_arrow_take_ended(numbers, _AT_ONCE):
        for number in numbers[:count]:
            ending = _endings.pop(abs(number), None)
            if ending is None:
                continue
            if number < 0:
                ending.leave(State.DISCARDED)
                continue
            # An exception (a warning that the filters make one of, a handler of records that fails) would end the call of
            # another stream, and keep the others from being told of.
            with contextlib.suppress(Exception):
                ending.drop_forgotten()


def ending_of(open_stream: Callable[[], Any]) -> tuple[Any, Ending]:
    """Calls a function that opens a stream: what it returns, and what decides the end of that stream."""
    stream = open_stream()
    ending: Ending = _last.ending
    _last.ending = None
    return stream, ending


def _forget_in_child() -> None:
    # They are the parent's.
    _endings.clear()


os.register_at_fork(after_in_child=_forget_in_child)
