"""The uploads in journal directories, for asyncio."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from .. import _native
from .._engine_options import Path
from .._tide import Tidegate, engine_of
from ._left import LeftUpload
from ._start import run


async def recover(journal: Path | Iterable[Path] | None = None, *, tide: Tidegate | None = None) -> list[LeftUpload]:
    """The uploads in journal directories: those of ``journal``, or of the engine ``tide``."""
    left = cast("list[_native.LeftUpload]", await run(engine_of(journal, tide).engine().recover()))
    return [LeftUpload(each) for each in left]
