"""Tells of a file that is not published, though nobody has discarded it.

A record of the logger ``tidegate`` always tells. If no ordinary exception does besides, a warning says how to publish.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from ._errors import Error, NotClosedWarning, NotPublishedWarning, UncertainError

_HOW = "publish() publishes a file that is whole"


def says_success(error: BaseException | type[BaseException] | None) -> bool:
    """Whether this exception is an ordinary end to its program, which reports nothing."""
    kind = error if isinstance(error, type) else type(error)
    return kind is GeneratorExit or (isinstance(error, SystemExit) and error.code in (None, 0))


def tell_of_block(url: str, error: BaseException | type[BaseException] | None) -> None:
    """The exception ``error``, or an exception of this type, has ended the ``with`` block of the file."""
    kind = error if isinstance(error, type) else type(error)
    why = f"{kind.__name__} has ended its `with` block"
    _tell(url, why, f"{_HOW} before its block ends so" if says_success(error) else None)


def tell_of_close(url: str) -> None:
    """The file was closed while an exception was in flight."""
    kind = type(sys.exception()).__name__
    why = f"it was closed while {kind} was being handled, which was raised after the file was opened"
    _tell(url, why, f"{_HOW}; so does close() after the `except` block, or a `with` block of the file")


def tell_of_failure(url: str) -> None:
    """A call of the file has failed before, and has raised its exception."""
    _tell(url, "a call has failed before", None)


def tell_of_failed_close(url: str, error: BaseException) -> None:
    """The call that was to publish the file has raised ``error``."""
    # After an interruption too, the store may have the object.
    is_certain = isinstance(error, Error) and not isinstance(error, UncertainError)
    what = "was not published" if is_certain else "may not have been published"
    _tell(url, f"{type(error).__name__} has ended the call that publishes", None, what=what)


def tell_of_transaction(url: str, how: str | None) -> None:
    """The file's transaction was discarded; ``how`` it would publish, if no ordinary exception says that it did not."""
    _tell(url, "its transaction was not completed", how)


def tell_of_forgotten(url: str, why: str, *, is_journaled: bool, is_persisted: bool) -> None:
    """Nobody has closed the file."""
    how = "close() or a `with` block publishes it"
    if is_journaled:
        how += ", and tidegate.recover() resumes it from its journal"
    elif is_persisted:
        how += ", and Store.resume() continues it from its last point"
    _tell(url, why, how, NotClosedWarning)


def tell_of_archive(url: str) -> None:
    """fsspec's zip file system, which writes the file, has gone and was not closed. A program may have done all that it
    knows of, so this is no ``ResourceWarning``, which Python hides by default."""
    why = "its zip file system was not closed before it was garbage-collected"
    _tell(url, why, "close() of that file system publishes it: `file.fs.close()` if fsspec.open() has returned `file`")


def tell_of_short_life(url: str, why: str) -> None:
    """The store may end an upload before its lifetime. The caller is about to get the upload, which an exception would take
    from it: where the filters make one of the warning, a record of the logger tells instead."""
    message = f"{url}: {why}"
    try:
        warnings.warn(message, stacklevel=_caller_level())
    except Warning:
        import logging

        logging.getLogger("tidegate").warning("%s", message)


def _tell(
    url: str,
    why: str,
    how: str | None,
    category: type[Warning] = NotPublishedWarning,
    what: str = "was not published",
) -> None:
    message = f"{url} {what}: {why}"
    # Not before: it takes a fifth of the time that importing the package takes.
    import logging

    is_in_flight = sys.exception() is not None
    try:
        logging.getLogger("tidegate").warning("%s", message)
    except Exception:
        # A handler of the program's has failed. That would replace the exception in flight.
        if not is_in_flight:
            raise
    if how is None:
        return
    try:
        warnings.warn(f"{message} ({how})", category, stacklevel=_caller_level())
    except Warning:
        # The filters make an exception of it. It would replace the one in flight; the record has told.
        if not is_in_flight:
            raise


def _caller_level() -> int:
    """How many calls above :func:`_tell` the code is that uses the package."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == __package__:
        frame = frame.f_back
        level += 1
    return level
