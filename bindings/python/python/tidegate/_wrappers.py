"""Files below wrappers that leave them open: ``gzip.open(fs.open(url, "wb"))``, and ``zipfile.ZipFile`` likewise.

These wrappers close what they have opened themselves, and only let go of a file that they were given. If they had the last
reference to it, nobody can close it any more, though all of it is written. So a wrapper that is closed, and drops the last
reference to the file while it does that, closes the file: by the rule of :mod:`tidegate._close_guard`, as if its ``close``
had called that of the file. A file that somebody else refers to stays open: more may be written into it.

A wrapper that is garbage-collected writes its end too, and must not publish. Python tells it so beforehand: by an attribute,
and by a method that a text file or a buffer above calls. Afterwards nothing shows the difference. So a wrapper that asks
for the name of the file, which both do when they are made, gets a subclass of its class that does both.

fsspec's zip file system writes through a ``ZipFile``. It closes its file only in its ``__del__``, where nothing is
published. So the ``close()`` of that file system closes the file too, unless the program has the file in a ``with`` block.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any

from ._close_guard import Stopped, is_finalizing

if TYPE_CHECKING:
    from ._ending import Ending


def watch(ending: Ending, asks: FrameType) -> None:
    """Called when the function ``asks`` asks for the name of the file."""
    code = asks.f_code
    wrapper: Any = asks.f_locals[code.co_varnames[0]] if code.co_name == "__init__" else None
    is_one = isinstance(wrapper, _wrappers())
    if is_one and not hasattr(wrapper, "_tidegate_ending"):
        # A class of the user's may forbid it. The file then counts as forgotten.
        with suppress(TypeError):
            own: Any = type(wrapper)
            wrapper.__class__ = _closing(own)
            wrapper._tidegate_ending = ending


def _wrappers() -> tuple[type, ...]:
    """The classes of these wrappers, as far as they were imported."""
    found = [("gzip", "GzipFile"), ("zipfile", "ZipFile")]
    return tuple(getattr(sys.modules[module], name) for module, name in found if module in sys.modules)


def _archive(caller: FrameType) -> Any:
    """The zip file system of fsspec whose ``close`` is the caller; ``None`` if it is another function."""
    module = sys.modules.get("fsspec.implementations.zip")
    if module is None or caller.f_code is not module.ZipFileSystem.close.__code__:
        return None
    return caller.f_locals[caller.f_code.co_varnames[0]]


@cache
def _closing(wrapper: Any) -> type:
    def close(self: Any) -> None:
        if is_finalizing(sys._getframe()):
            wrapper.close(self)
            return
        ending: Ending = self._tidegate_ending
        archive = _archive(sys._getframe(1))
        if archive is not None and not ending.is_closed:
            wrapper.close(self)
            # The zip file system has entered its file too. The block of a program ends the file, torn or whole.
            is_in_block = ending.entered > (getattr(archive.fo, "_ending", None) is ending)
            if ending.opening.stopped() is Stopped.FINALIZER:
                ending.drop_archive()
            elif not is_in_block:
                archive.fo.close()
            return
        dropped: list[Any] = []
        ending.dropped = dropped
        try:
            wrapper.close(self)
        except BaseException as error:
            for file in dropped:
                file._end(error)
            raise
        finally:
            ending.dropped = None
        for file in dropped:
            file.close()

    def dealloc_warn(self: Any, source: Any) -> None:
        self._tidegate_ending.drop_forgotten()

    def __exit__(self: Any, kind: Any, error: Any, traceback: Any) -> Any:
        # On the stack, the arguments decide whether closing publishes.
        return wrapper.__exit__(self, kind, error, traceback)

    methods = {"close": close, "__exit__": __exit__, "_dealloc_warn": dealloc_warn}
    return type(wrapper.__name__, (wrapper,), {"__slots__": (), "__module__": wrapper.__module__, **methods})
