"""The engines that the processes have made."""

from __future__ import annotations

from collections.abc import Hashable

from . import _native

#: By process and settings. Changed without a lock, so a child forked during a change cannot inherit a locked lock. What a
#: child inherits stays here, unused.
engines: dict[tuple[int, Hashable], _native.Engine] = {}
