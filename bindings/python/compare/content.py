"""The bytes of every object, so that any process can say which bytes belong at which position."""

import random

#: Size of the pieces that a large object consists of.
PIECE = 64 << 10

_FILLER = random.Random(33).randbytes(1 << 20)


def block(number: int, size: int) -> bytes:
    """One small object, or one piece of a large object. The number keeps any two of them apart."""
    return number.to_bytes(8, "little") + _FILLER[: size - 8]


def content(start: int, end: int) -> bytes:
    """The bytes from `start` until before `end` of a large object."""
    first = start // PIECE
    pieces = [block(number, PIECE) for number in range(first, (end + PIECE - 1) // PIECE)]
    return b"".join(pieces)[start - first * PIECE : end - first * PIECE]
