"""Whose turn it is among the processes that run the tests of this clone: most tests run beside each other, some alone."""

import fcntl
from contextlib import contextmanager
from pathlib import Path

# Nothing is written to these files: they are what the locks are on.
_ROOM, _DOOR = Path(__file__), Path(__file__).with_name("__init__.py")


@contextmanager
def turn(alone: bool):
    """Waits until nobody else runs, where `alone`; or until nobody runs alone."""
    with open(_ROOM) as room, open(_DOOR) as door:
        # One who waits to be alone keeps the door shut: else there would always be somebody in the room.
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield
