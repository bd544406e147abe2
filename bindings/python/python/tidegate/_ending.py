"""How an upload ends: by being published, or discarded. The blocking and the asyncio writer share this."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
import weakref
from enum import Enum
from typing import Any

from . import _native, _unpublished
from ._close_guard import Opening, Stopped
from ._engines import engines
from ._errors import ClosedError, closed, inherited

#: What ends a ``with`` block: an exception, or its type; ``None`` if the block ends well.
Ended = BaseException | type[BaseException] | None


class State(Enum):
    OPEN = "open"
    #: A call has failed. Nothing will be published, and the next close says so.
    FAILED = "failed"
    PUBLISHED = "published"
    #: All bytes are at the store, and wait for a commit.
    PREPARED = "prepared"
    DISCARDED = "discarded"


class Ending:
    """The state of one upload, and what decides it."""

    __slots__ = ("_state", "dropped", "entered", "is_persisted", "native", "opening", "__weakref__")

    #: While a wrapper that has let go of the file closes: takes the file, if nobody else has a reference to it.
    dropped: list[Any] | None
    #: Whether somebody has a point from which the upload can be continued.
    is_persisted: bool
    #: How many ``with`` blocks, and callers of ``__enter__``, have had the file.
    entered: int

    def __init__(self, native: _native.Writer) -> None:
        self.native = native
        self.opening = Opening()
        self.dropped = None
        self.is_persisted = False
        self.entered = 0
        self._state = State.OPEN
        _open[id(self)] = weakref.ref(self)
        _watch_exit()

    @property
    def state(self) -> State:
        if self._state is State.OPEN and self.native.has_failed():
            return State.FAILED
        return self._state

    @property
    def is_closed(self) -> bool:
        """True once the file is published or discarded. After a failed call it stays False, because wrappers skip
        ``close()`` on closed files, and ``close()`` must report the failure."""
        return self._state in (State.PUBLISHED, State.PREPARED, State.DISCARDED)

    def begins_to_publish(self, error: Ended, *, is_whole: bool) -> bool:
        """As :meth:`is_to_publish`. If so, the file counts as discarded until :meth:`published` is called."""
        if not self.is_to_publish(error, is_whole=is_whole):
            return False
        # Before it is published: whatever happens then, it is not published a second time.
        self.leave(State.DISCARDED)
        return True

    def is_to_publish(self, error: Ended, *, is_whole: bool) -> bool:
        """Called by a close: whether it is to publish. If not, nothing is left to do, and this has told why. ``error`` is
        the exception that ends a ``with`` block, or its type; ``is_whole`` says that the file is known to have its end.

        Raises :class:`ClosedError` if a call has failed before and nothing else says so, and :class:`ForkError` if
        another process has opened the writer.
        """
        if self.is_closed:
            return False
        has_failed = self.state is State.FAILED
        if error is not None:
            self.drop_at_block(error)
            return False
        if not is_whole and self.drop_if_stopped():
            return False
        if has_failed:
            self.drop_failed()
            raise self.closed_error("a call has failed before, and nothing was published")
        if not self.native.is_own():
            self.drop()
            raise inherited(self.native.process, self.native.url)
        return True

    def drop_if_stopped(self) -> bool:
        """Discards without waiting, and says why, if something has stopped the code that writes the file: see
        :mod:`tidegate._close_guard`. True if so."""
        if self.is_closed:
            return False
        stopped = self.opening.stopped()
        if stopped is Stopped.BLOCK:
            self.drop_at_block(sys.exception())
        elif stopped is Stopped.FINALIZER:
            self.drop_forgotten("a finalizer has closed it")
        elif stopped is Stopped.EXIT:
            self.drop_forgotten("an exception had ended the program before it was closed")
        elif stopped is Stopped.EXCEPTION and self._drops():
            _unpublished.tell_of_close(self.native.url)
        return stopped is not None

    def published(self) -> None:
        self._state = State.PUBLISHED

    def drop(self) -> None:
        """Discards without waiting, and tells nobody. In a forked child, only forgets."""
        if not self.is_closed:
            # First, because an interruption may come after each line.
            self.native.drop()
            self.leave(State.DISCARDED)

    def _drops(self) -> bool:
        """Discards without waiting. True if that is to be told: a file that a process has inherited is its parent's."""
        is_told = not self.is_closed and self.native.is_own()
        self.drop()
        return is_told

    def drop_at_block(self, error: Ended) -> None:
        """Discards without waiting, because an exception has ended the ``with`` block."""
        if self._drops():
            _unpublished.tell_of_block(self.native.url, error)

    def drop_failed(self) -> None:
        """Discards without waiting, because a call has failed."""
        if self._drops():
            _unpublished.tell_of_failure(self.native.url)

    def drop_of_transaction(self, how: str | None) -> None:
        """Discards without waiting, because the transaction has ended without the file. ``how`` is that of a warning."""
        if self._drops():
            _unpublished.tell_of_transaction(self.native.url, how)

    def drop_forgotten(self, why: str = "it was not closed before it was garbage-collected") -> None:
        """Discards without waiting, because nobody has closed the file."""
        if self.state is State.FAILED:
            self.drop_failed()
        elif self._drops():
            native = self.native
            is_journaled = native.strategy == "journal"
            _unpublished.tell_of_forgotten(native.url, why, is_journaled=is_journaled, is_persisted=self.is_persisted)

    def drop_archive(self) -> None:
        """As :meth:`drop_forgotten`, of an archive whose file system nobody has closed."""
        if self.state is State.FAILED:
            self.drop_failed()
        elif self._drops():
            _unpublished.tell_of_archive(self.native.url)

    def prepared(self, warning: str | None) -> None:
        """The bytes wait for a commit; ``warning`` says why the store may not keep them so long."""
        self._state = State.PREPARED
        if warning is not None:
            _unpublished.tell_of_short_life(self.native.url, warning)

    def persisted(self, warning: str | None) -> None:
        """Somebody has a point from which the upload can be continued; ``warning`` as of :meth:`prepared`."""
        self.is_persisted = True
        if warning is not None:
            _unpublished.tell_of_short_life(self.native.url, warning)

    def fail(self) -> None:
        """A call has failed: discards, and has the next close say so. Also while another thread or task waits for the
        writer to publish it."""
        self.native.fail()
        if not self.is_closed:
            self.leave(State.FAILED)

    def abandon(self, error: BaseException | None = None) -> None:
        """A call that was to end the upload has ended itself: discards what the call has not published. ``error`` is the
        exception of one that was to publish."""
        if self._state is State.DISCARDED:
            self.native.drop()
            if error is not None:
                _unpublished.tell_of_failed_close(self.native.url, error)

    def leave(self, state: State) -> None:
        self._state = state
        _open.pop(id(self), None)
        self.opening.forget()

    def check_open(self) -> None:
        if self.state is State.OPEN:
            return
        raise self.closed_error(
            {
                State.FAILED: "a call has failed before, and nothing was published",
                State.DISCARDED: "I/O operation on a closed file, which was discarded",
                State.PREPARED: "I/O operation on a closed file, which was prepared",
            }.get(self.state, "I/O operation on a closed file, which was published")
        )

    def closed_error(self, message: str) -> ClosedError:
        return closed(self.native.url, message)


#: The uploads of this process that have not ended, by their identity. A plain dictionary is copied in one step: no
#: other thread and no finalizer changes it meanwhile.
_open: dict[int, weakref.ref[Ending]] = {}
#: The process whose exit is watched.
_watched = 0

#: Seconds that the exit waits until the sessions of discarded uploads are aborted.
_EXIT_WAIT = 2.0


def _watch_exit() -> None:
    global _watched
    if _watched == os.getpid():
        return
    _watched = os.getpid()
    # A child of multiprocessing ends without the interpreter's own exit.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _discard_all, exitpriority=-100)


@atexit.register
def _discard_all() -> None:
    """Discards what was not closed when the process ends."""
    for each in list(_open.values()):
        ending = each()
        if ending is not None:
            # An exception (a warning that the filters make one of, a handler of records that fails) would keep the others
            # from being told of.
            with contextlib.suppress(Exception):
                ending.drop_forgotten("it was not closed before the program ended")
    deadline = time.monotonic() + _EXIT_WAIT
    for (process, _), engine in list(engines.items()):
        if process == os.getpid():
            engine.settled().has_ended_in(max(0.0, deadline - time.monotonic()))


def _forget_in_child() -> None:
    global _open
    _open = {}


os.register_at_fork(after_in_child=_forget_in_child)
# Otherwise the journals of a process that was killed could not be resumed while a child of it lives.
os.register_at_fork(after_in_child=_native.release_inherited_locks)
