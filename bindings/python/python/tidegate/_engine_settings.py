"""The settings of engines: one engine for each process and each set of settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _native
from ._engine_options import TIDE_OPTIONS, Path
from ._engines import engines
from ._left import LeftUpload
from ._wait import wait

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Unpack

    from ._engine_options import ReachOptions, TideOptions


class Bucket(NamedTuple):
    """A bucket of an account."""

    name: str
    #: None if the store does not say it.
    created: datetime | None


class EngineSettings:
    """The settings of an engine; see :class:`tidegate.Tidegate`."""

    __slots__ = ("_items",)

    _items: tuple[tuple[str, Any], ...]

    def __init__(self, **options: Unpack[TideOptions]) -> None:
        self._items = frozen(options)
        if unknown := [name for name in options if name not in TIDE_OPTIONS]:
            raise TypeError(f"an engine has no option {unknown[0]!r}")

    @property
    def options(self) -> TideOptions:
        """The settings that were given."""
        return cast("TideOptions", dict(self._items))

    def progress(self) -> _native.Progress:
        """The figures of everything that this engine does, summed up."""
        return self.engine().progress()

    def usage(self) -> dict[str, int]:
        """Use of the memory budget in bytes: ``total``, ``held``, ``peak``, …"""
        return self.engine().usage()

    def settled(self) -> list[Exception]:
        """Waits until the upload sessions of discarded writers are aborted; returns the errors of those that stay."""
        return cast("list[Exception]", wait(self.engine().settled()))

    def create_bucket(self, url: str, **options: Unpack[ReachOptions]) -> None:
        """Creates the bucket of ``url``, such as ``s3://bucket``; options are those by which a store is reached."""
        wait(self.engine().create_bucket(url, options))

    def remove_bucket(self, url: str, **options: Unpack[ReachOptions]) -> None:
        """Removes an empty bucket."""
        wait(self.engine().remove_bucket(url, options))

    def buckets(self, scheme: str, **options: Unpack[ReachOptions]) -> list[Bucket]:
        """The buckets of an account, in the store's order: of the credentials for ``s3://``, of the option ``project``
        for ``gs://``, of the option ``account`` for ``az://``."""
        return [Bucket(*each) for each in cast("list[Any]", wait(self.engine().buckets(scheme, options)))]

    def recover(self) -> list[LeftUpload]:
        """The uploads in the journal directories: those that were left, and those that are being written now."""
        return [LeftUpload(left) for left in cast("list[_native.LeftUpload]", wait(self.engine().recover()))]

    def engine(self) -> _native.Engine:
        """This process's engine of these settings."""
        key = (os.getpid(), self)
        found = engines.get(key)
        if found is None:
            made = _native.Engine(dict(self._items))
            found = engines.setdefault(key, made)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineSettings) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return f"Tidegate({', '.join(f'{name}={value!r}' for name, value in self._items)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_made, (type(self), dict(self._items)))


def _made(settings: type[EngineSettings], options: TideOptions) -> EngineSettings:
    return settings(**options)


def frozen(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The options in the order of their names, with values that can be compared and hashed. ``None`` is no value."""
    return tuple((name, _value(value)) for name, value in sorted(options.items()) if value is not None)


def _value(value: Any) -> Any:
    if isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Iterable):
        return tuple(_value(item) for item in value)
    return value


def engine_of(journal: Path | Iterable[Path] | None, tide: EngineSettings | None) -> EngineSettings:
    """The engine that has the journals."""
    if tide is not None and journal is None:
        return tide
    if journal is not None and tide is None:
        return EngineSettings(journal=journal)
    raise TypeError("give the directories, as `journal`, or the engine that has them, as `tide`")
