"""The rule that decides whether closing a file publishes it.

A file is published when the code that writes it has come to its end. But files are also closed by ``with``, ``finally``,
wrappers and finalizers when that code was stopped on its way. Their bytes are a torn object, and are discarded. The rule:

1. A ``with`` block decides by what Python tells its ``__exit__``: no exception publishes, wherever the block runs; an
   exception of any kind discards. So it is for the blocks of the file itself, and for those of everything around the file
   whose ``__exit__`` is written in Python. Where a function calls ``__exit__`` by its name, as ``ExitStack.close()`` does,
   no block ends: rule 2 decides.
2. ``close()`` discards while an exception is in flight that was not in flight when the file was opened, or when a ``with``
   block of the file began. In flight means: an ``except``, a ``finally`` or the end of a ``with`` block has caught it, and
   has not ended. A file that is opened in an ``except`` block is published there, because its exception was there before.
   The same exception counts as another one once it is raised again. A bare ``raise`` in its ``except`` does not show.
3. ``close()`` discards in a finalizer that did not run when the file was opened: the file's owner was dropped. A finalizer
   is a ``__del__``, the ``close`` of a file that Python closes because it is garbage-collected, or a ``weakref.finalize``
   that its owner's end or the exit calls. So does ``close()`` in a function of ``atexit``, if an exception that nobody has
   caught since the file was opened has ended the program. Nor is a file published that nobody has closed before it is
   collected, or before the interpreter exits; for wrappers that leave their file to somebody else, see
   :mod:`tidegate._wrappers`.
4. ``publish()`` publishes, whatever is in flight.

All of this is asked of the thread that closes, by what the language says of itself: ``sys.exception()``, the functions on
the stack and their arguments. Code that is not written in Python is not on the stack. :mod:`tidegate._native_callers` sees
two of its ways to call ``close``, where it can; without it, rule 2 decides.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from enum import Enum
from types import FrameType, TracebackType

from . import _native_callers


class Stopped(Enum):
    """Why a close publishes nothing."""

    #: An exception ends a `with` block around the file, and leaves it.
    BLOCK = "block"
    #: An exception is in flight, and may end here: an `except` block may have caught it.
    EXCEPTION = "exception"
    FINALIZER = "finalizer"
    #: An exception that nobody has caught has ended the program.
    EXIT = "exit"


class Opening:
    """What went on when a file was opened."""

    __slots__ = ("_blocks", "_handled", "_is_finalizing", "_uncaught")

    def __init__(self) -> None:
        self._handled = _handled()
        #: The functions `__exit__`, and the callers of native ones, that were running.
        self._blocks = _ending_blocks() if self._handled else []
        self._is_finalizing = _is_in_finalizer()
        self._uncaught = _uncaught()

    def renew(self) -> None:
        """Takes the exceptions and finalizers of this moment as those of the opening: a ``with`` block begins."""
        self._handled += _handled()
        self._blocks += [frame for frame in _ending_blocks() if not _is_among(frame, self._blocks)]

    def forget(self) -> None:
        """Lets go of the exceptions and frames, which may have the file."""
        self._handled, self._blocks, self._uncaught = [], [], None

    def stopped(self) -> Stopped | None:
        """What has stopped the code that writes the file, if it is closed now."""
        if not self._is_finalizing and (_is_in_finalizer() or _native_callers.is_dropping(_caller())):
            return Stopped.FINALIZER
        # Python is through with the main thread before it calls the functions of `atexit`.
        if _uncaught() is not self._uncaught and not threading.main_thread().is_alive():
            return Stopped.EXIT
        error = sys.exception()
        is_new = error is not None and not self._has_seen(error)
        # The function that has caught the exception. What it calls was called afterwards.
        catches = error.__traceback__.tb_frame if error is not None and error.__traceback__ is not None else None
        for frame in _stack():
            if is_new and frame is catches:
                return Stopped.BLOCK if _native_callers.is_failing_block(frame) else Stopped.EXCEPTION
            if not _is_among(frame, self._blocks):
                if _is_exit(frame):
                    if _was_told_exception(frame):
                        return Stopped.BLOCK
                    if not _leaves_open(frame):
                        return None
                if error is not None and _native_callers.is_failing_block(frame):
                    return Stopped.BLOCK
        return Stopped.EXCEPTION if is_new else None

    def _has_seen(self, error: BaseException) -> bool:
        # Raising an exception again gives it a longer traceback; code that lets go of the traceback raises nothing.
        now = error.__traceback__
        return any(error is seen and (now is None or now is then) for seen, then in self._handled)


def _handled() -> list[tuple[BaseException, TracebackType | None]]:
    """The exceptions in flight with their tracebacks: the innermost, and those during whose handling it was raised."""
    handled: list[BaseException] = []
    error = sys.exception()
    while error is not None and not _is_among(error, handled):
        handled.append(error)
        error = error.__context__
    return [(error, error.__traceback__) for error in handled]


def _ending_blocks() -> list[FrameType]:
    return [frame for frame in _stack() if _is_exit(frame) or _native_callers.is_failing_block(frame)]


def _is_exit(frame: FrameType) -> bool:
    return frame.f_code.co_name in _EXITS


_EXITS = frozenset({"__exit__", "__aexit__"})
_STACK_EXITS = (contextlib.ExitStack.__exit__.__code__, contextlib.AsyncExitStack.__aexit__.__code__)
# Flags of a function's code, which are `inspect`'s: that module takes long to import.
_HAS_VARARGS = 0x04
_IS_GENERATOR = 0x20 | 0x200  # also one of asyncio


def is_called_by_name(exit: FrameType) -> bool:
    """Whether no ``with`` block calls this ``__exit__``, but a function by its name: ``ExitStack.close()``, a ``finally``
    that has no block, or the ``__exit__`` of an object that has the file. Also through those around it and
    ``@contextmanager``."""
    caller = exit.f_back
    while caller is not None and (_is_exit(caller) or (_is_generator(caller) and not _names_exit(caller))):
        # The `__exit__` of an owner that knows of an exception, and does not tell the file.
        if _is_exit(caller) and _names_exit(caller) and _was_told_exception(caller):
            return True
        caller = caller.f_back
    return caller is not None and _names_exit(caller)


def _is_generator(frame: FrameType) -> bool:
    return frame.f_code.co_flags & _IS_GENERATOR != 0


def _names_exit(frame: FrameType) -> bool:
    # A `with` block names none.
    return not _EXITS.isdisjoint(frame.f_code.co_names)


def _was_told_exception(exit: FrameType) -> bool:
    """Whether a function ``__exit__`` was called with an exception."""
    # It may have assigned to its arguments. An exit stack does so once something in it has held the exception back.
    if not _is_stack(exit) and exit.f_back is not None and _native_callers.is_failing_block(exit.f_back):
        return True
    given = list(_arguments(exit).values())
    given += [value for values in given if isinstance(values, tuple) for value in values]
    return any(isinstance(value, BaseException) for value in given) or any(
        isinstance(value, type) and issubclass(value, BaseException) for value in given
    )


def _leaves_open(exit: FrameType) -> bool:
    """Whether a function ``__exit__`` that sees no exception does not say that a block ends well: the frames around it
    decide."""
    if is_called_by_name(exit):
        return True
    # An exit stack says what ends its block, also where the function has assigned to its arguments.
    if not _is_stack(exit) and exit.f_back is not None and _is_stack(exit.f_back):
        return True
    # Nothing tells how an `async with` calls a function that has deleted them.
    return exit.f_code.co_name == "__aexit__" and len(_arguments(exit)) < len(_parameters(exit))


def _is_stack(exit: FrameType) -> bool:
    return _is_among(exit.f_code, _STACK_EXITS)


def _parameters(exit: FrameType) -> list[str]:
    code = exit.f_code
    names = list(code.co_varnames[1 : code.co_argcount])
    if code.co_flags & _HAS_VARARGS:
        # In the list of names, `*error` comes after all others.
        names.append(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
    return names


def _arguments(exit: FrameType) -> dict[str, object]:
    values = exit.f_locals
    return {name: values[name] for name in _parameters(exit) if name in values}


def _is_among(one: object, others: Sequence[object]) -> bool:
    return any(one is other for other in others)


def _stack() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_in_finalizer() -> bool:
    return any(is_finalizing(frame) for frame in _stack())


def _uncaught() -> BaseException | None:
    """The last exception that the interpreter has reported because nobody had caught it."""
    error: BaseException | None = getattr(sys, "last_exc", getattr(sys, "last_value", None))
    return error


def is_finalizing(frame: FrameType) -> bool:
    """Whether the function runs because its object is garbage-collected."""
    code = frame.f_code
    if code is weakref.finalize.__call__.__code__:
        # The end of the owner gives a reference to it; the exit calls from the same module. All others may close by this.
        caller = frame.f_back.f_globals.get("__name__") if frame.f_back is not None else None
        return frame.f_locals.get(code.co_varnames[1]) is not None or caller == weakref.__name__
    if code.co_name == "close" and code.co_argcount:
        # Python says so to files that it closes, but not to a file that is written in Python below a wrapper that is not.
        # There a wrapper's destructor calls this function.
        own = frame.f_locals.get(code.co_varnames[0])
        return getattr(own, "_finalizing", False) is True or _native_callers.is_dropping(frame.f_back)
    return code.co_name == "__del__"


def _caller() -> FrameType | None:
    """The function that has called the package."""
    for frame in _stack():
        if str(frame.f_globals.get("__name__")).partition(".")[0] != __package__:
            return frame
    return None
