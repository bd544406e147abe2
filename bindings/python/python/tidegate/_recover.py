# Made from aio/_recover.py by scripts/python-blocking: change that file.
"""The uploads in journal directories."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from . import _native
from ._engine_options import Path
from ._engine_settings import EngineSettings, engine_of
from ._left import LeftUpload
from ._wait import wait


def recover(journal: Path | Iterable[Path] | None = None, *, tide: EngineSettings | None = None) -> list[LeftUpload]:
    """The uploads in journal directories: those of ``journal``, or of the engine ``tide``."""
    left = cast("list[_native.LeftUpload]", wait(engine_of(journal, tide).engine().recover()))
    return [LeftUpload(each) for each in left]
