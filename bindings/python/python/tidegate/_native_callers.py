"""What a Python function is doing while code that is not written in Python calls back from it.

Two ways in which native code closes a file look to Python like any call: the ``__exit__`` of a native class, which a
``with`` block calls when an exception ends it, and the destructor of a native object, which runs when the last reference
goes. The rule of :mod:`tidegate._close_guard` decides without them wherever the exception is a new one. They matter where
an exception that was in flight at the opening is raised again (``except Error: with io.BufferedWriter(store.writer(key)):
…; raise``), and where an exception that has been handled is what kept an object alive that closes: one of pyarrow in C++,
or an ``io.TextIOWrapper`` around a file that is written in Python, and closes the writer itself. A function that returns
shows nothing: Python is back in its caller then, at the call.

Nothing that the language promises shows these two. A bare ``raise`` leaves the exception and its traceback as they were;
the well and the badly ended exit of a block have one position in the source, and no function tells how many exceptions a
frame handles. An object's destructor in C++ makes the same call from the same thread as an explicit ``close``, with the
same references. The one difference is where in its code the calling function is.

So the interpreter that runs shows it: when the first file is closed, small programs end ``with`` blocks and drop objects in
every way there is, and note where in their code they are meanwhile. No list of instructions is written down, no number or
name of one is known, and none belongs to a version of Python: on a Python whose code is of another kind, the programs
show that Python's. Where they show nothing, or something that an ordinary call shows too, nothing counts: this only ever
discards more, and the rule of the close guard is left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import Any, NamedTuple


def is_failing_block(frame: FrameType) -> bool:
    """Whether the function is ending a ``with`` block because of an exception, and calls ``__exit__`` now."""
    return _at(frame) in _shown().failing_block


def is_dropping(frame: FrameType | None) -> bool:
    """Whether the function makes no call now, and only drops references."""
    return frame is not None and _at(frame) in _shown().dropping


def _at(frame: FrameType) -> int:
    """The instruction that the function is carrying out; -1 before the first."""
    return frame.f_code.co_code[frame.f_lasti] if frame.f_lasti >= 0 else -1


# The programs. `drop()` makes an object that is noted when it is destroyed; `call()` and the ends of `block` are noted.

_CALLS = """
call()
call(*())
call(named=1)
call(**{})
box.call()
(call(), call())
with block: pass
with block as _: pass
"""

_FAILING_BLOCKS = """
try:
    with block: raise Stop
except Stop: pass
try: raise Stop
except Stop:
    try:
        with block: raise
    except Stop: pass
"""

_DROPS = """
x = drop(); x = None
x = drop(); x = y = None
x = drop(); del x
x = y = drop(); y = None; x = y
x, y = drop(), drop(); x, y = 1, 2
x = drop(); x += 1
box.x = drop(); box.x = None
box.x = drop(); del box.x
box['x'] = drop(); box['x'] = None
box['x'] = drop(); del box['x']
drop()
for _ in [1, drop()]: break
for _ in (drop() for _ in (1,)): _ = None
try: raise Stop(drop())
except Stop: pass
try: raise Stop(drop())
except Stop as error: pass
try:
    try: raise Stop(drop())
    finally: x = 1
except Stop: x = 2
with quiet: raise Stop(drop())
def leave(): x = drop()
leave()
"""


class _Stop(Exception):
    pass


class _Dropped:
    def __init__(self, note: Callable[[FrameType], None]) -> None:
        self._note = note

    def __iadd__(self, other: object) -> object:
        return other

    def __del__(self) -> None:
        self._note(sys._getframe(1))


class _Box(dict[str, Any]):
    call: Any
    x: Any


class _Block:
    def __init__(self, note: Callable[[FrameType], None], *, is_quiet: bool) -> None:
        self._note, self._is_quiet = note, is_quiet

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> bool:
        self._note(sys._getframe(1))
        return self._is_quiet


def _shown_by(program: str) -> set[int]:
    """The instructions that are noted while the program runs, in all the places where code can stand."""
    seen: set[int] = set()

    def note(frame: FrameType) -> None:
        if frame.f_code.co_filename == __name__:
            seen.add(_at(frame))

    def call(*given: object, **named: object) -> None:
        note(sys._getframe(1))

    def unnoted(frame: FrameType) -> None:
        pass

    box = _Box()
    box.call = call
    names: dict[str, Any] = {
        "Stop": _Stop,
        "block": _Block(note, is_quiet=False),
        "box": box,
        "call": call,
        "drop": lambda: _Dropped(note),
        "quiet": _Block(unnoted, is_quiet=True),
    }
    body = "".join(f"    {line}\n" for line in program.splitlines())
    for code in (
        program,
        f"def function():\n{body}function()",
        f"def function():\n{body}    return lambda: (x, y)\nfunction()" if "y =" in program else "",
        f"def function():\n    global x, y\n{body}function()" if "y =" in program else "",
    ):
        exec(compile(code, __name__, "exec"), dict(names))
    return seen


class _Shown(NamedTuple):
    failing_block: frozenset[int]
    dropping: frozenset[int]


@cache
def _shown() -> _Shown:
    called = _shown_by(_CALLS)
    failing_block = _shown_by(_FAILING_BLOCKS) - called
    return _Shown(frozenset(failing_block), frozenset(_shown_by(_DROPS) - called - failing_block))
