"""Whether a file that is closed was written to its end.

Closing publishes an object. But files are also closed by ``with``, by ``finally`` and by wrappers when an exception has
stopped the code that writes them, and by finalizers when that code has let go of them. Then their bytes are a torn
object, and closing discards them.

Three rules tell. First, an exception that is being handled now, and was not when the file was opened, has stopped the
code between the two. A file that is opened in an ``except`` block is published all the same: its exception was there
before. An exception that was raised and handled in between is no longer there. Second, a ``with`` block that an
exception ends now, and did not when the file was opened, has failed, even if the exception is an old one that a bare
``raise`` has raised again. Third, a finalizer that runs now, and did not when the file was opened, closes what its owner
has dropped: a ``__del__``, or the destructor of a native object that dies where no call is made.

All of this is seen in the thread that closes. An exception of another thread, or of a coroutine that waits, is not; nor
is an old exception that a bare ``raise`` sends through a ``finally``.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Sequence
from types import FrameType

#: Instructions that call nothing, and only drop what was there before: a call that comes from them is a destructor's.
_DROPPING = frozenset(
    opcode.opmap[name]
    for name in (
        "DELETE_ATTR",
        "DELETE_DEREF",
        "DELETE_FAST",
        "DELETE_GLOBAL",
        "DELETE_NAME",
        "DELETE_SUBSCR",
        "END_FOR",
        "END_SEND",
        "POP_EXCEPT",
        "POP_ITER",
        "POP_TOP",
        "RERAISE",
        "RETURN_CONST",
        "RETURN_VALUE",
        "STORE_ATTR",
        "STORE_DEREF",
        "STORE_FAST",
        "STORE_FAST_LOAD_FAST",
        "STORE_FAST_STORE_FAST",
        "STORE_GLOBAL",
        "STORE_NAME",
        "STORE_SUBSCR",
    )
    if name in opcode.opmap
)


#: The instruction that calls ``__exit__`` with an exception.
_FAILED_WITH = opcode.opmap["WITH_EXCEPT_START"]


class Opening:
    """What went on when a file was opened."""

    __slots__ = ("_failed_blocks", "_finalizing", "_handled", "_is_trusted")

    def __init__(self) -> None:
        self._handled = _handled()
        self._failed_blocks = _failed_blocks()
        self._finalizing = _is_in_finalizer()
        self._is_trusted = False

    def renew(self) -> None:
        """What goes on now counts as what went on at the opening: a ``with`` block begins."""
        self._handled += [error for error in _handled() if not _is_among(error, self._handled)]
        self._failed_blocks += [frame for frame in _failed_blocks() if not _is_among(frame, self._failed_blocks)]

    def forget(self) -> None:
        """Lets go of the exceptions and frames, which may have the file."""
        self._handled, self._failed_blocks = [], []

    def trust(self) -> None:
        """Has the next close publish, whatever goes on then."""
        self._is_trusted = True

    def has_failed(self) -> bool:
        """Whether what closes the file now is an exception, or a finalizer."""
        if self._is_trusted:
            return False
        error = sys.exception()
        if error is not None and not _is_among(error, self._handled):
            return True
        if any(not _is_among(frame, self._failed_blocks) for frame in _failed_blocks()):
            return True
        return not self._finalizing and (_is_in_finalizer() or _is_dropped())


def _handled() -> list[BaseException]:
    """The exceptions that are being handled: the innermost, and those during whose handling it was raised."""
    handled: list[BaseException] = []
    error = sys.exception()
    while error is not None and not _is_among(error, handled):
        handled.append(error)
        error = error.__context__
    return handled


def _failed_blocks() -> list[FrameType]:
    """The frames whose ``with`` block is being ended by an exception."""
    blocks: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _FAILED_WITH:
            blocks.append(frame)
        frame = frame.f_back
    return blocks


def _is_among(one: object, others: Sequence[object]) -> bool:
    return any(one is other for other in others)


def _is_in_finalizer() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _is_dropped() -> bool:
    """Whether the code that closes the file makes no call now. Then a native object that it drops does."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == __package__:
        frame = frame.f_back
    return frame is not None and frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _DROPPING
