"""How a store is reached, and what the calls of both faces of a store share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from . import _native
from ._engine_options import TIDE_OPTIONS, ReachOptions
from ._engine_settings import EngineSettings, frozen
from ._errors import Error
from ._local import path_of, text_of
from ._options import no_option

if TYPE_CHECKING:
    from typing import Unpack

    from ._options import StoreOptions

#: Options whose values are never shown.
_SECRETS = frozenset({"secret_key", "session_token", "token", "account_key", "sas", "connection_string"})

#: A range of bytes: the first, and the one after the last; ``None`` is the end of the object.
Range = tuple[int, int | None]
#: Whether a bucket keeps the versions of its objects.
Versioning = Literal["off", "enabled", "suspended"]


class DeleteReport(NamedTuple):
    """What a removal of many objects has done."""

    #: How many keys have no object any more.
    deleted: int
    #: The other keys, each with the reason.
    failed: list[tuple[str | None, Error]]


class AbandonedSet(NamedTuple):
    """What became of the uploads of a set that was given up."""

    #: Those whose objects had been published before, and stay.
    visible: list[_native.Pending]
    #: Those that no commit publishes any more.
    abandoned: list[_native.Pending]


def split_engine(options: Mapping[str, Any]) -> tuple[EngineSettings, dict[str, Any]]:
    """The engine that the options of a store name or describe, and the other options: how the store is reached."""
    reach = dict(options)
    tide = reach.pop("tide", None)
    engine = {name: reach.pop(name) for name in list(reach) if name in TIDE_OPTIONS}
    if tide is not None and engine:
        raise TypeError(f"the option {next(iter(engine))!r} belongs to an engine, and `tide` is given too")
    if unknown := [name for name in reach if name not in ReachOptions.__optional_keys__]:
        raise no_option(unknown[0], {*ReachOptions.__optional_keys__, *TIDE_OPTIONS})
    return cast("EngineSettings", tide if tide is not None else EngineSettings(**engine)), reach


class StoreSettings:
    """How a store is reached: what both faces of a store have. A pickle has just this; so credentials that were found
    in the environment are not in it."""

    def __init__(self, url: str | os.PathLike[str], **options: Unpack[StoreOptions]) -> None:
        text = text_of(url)
        self.url = path_of(text) or text
        self._engine, reach = split_engine(options)
        self._options = frozen(reach)
        self._prefix: tuple[str, ...] = ()
        # At once, so that a mistake in the URL or in the options is known here.
        self._opened: tuple[int, _native.Store] | None = (os.getpid(), self._open())

    def _open(self) -> _native.Store:
        store = _native.Store(self._engine.engine(), self.url, dict(self._options))
        for prefix in self._prefix:
            store = store.within(prefix)
        return store

    def native(self) -> _native.Store:
        """The native half of this process."""
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            opened = self._opened = (os.getpid(), self._open())
        return opened[1]

    @property
    def location(self) -> str:
        """The store's URL without a trailing slash; of a local directory its path."""
        return self.native().location()

    def url_of(self, key: str) -> str:
        """The URL of a key."""
        return f"{self.location}/{key}"

    def in_flight_limit(self) -> int:
        """How many requests to the store's endpoint may be in flight now."""
        return self.native().in_flight_limit()

    def within(self, prefix: str) -> Any:
        """The part of this store below ``prefix``: keys are relative to it."""
        state = self.__getstate__()
        state["prefix"] = (*state["prefix"], prefix)
        made = type(self).__new__(type(self))
        made.__setstate__(state)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "engine": self._engine, "options": self._options, "prefix": self._prefix}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.url, self._engine = state["url"], state["engine"]
        self._options, self._prefix = state["options"], state["prefix"]
        # A process that only passes a store on needs no engine.
        self._opened = None

    def _identity(self) -> tuple[Any, ...]:
        return (type(self), self.url, self._engine, self._options, self._prefix)

    def is_local(self) -> bool:
        """Whether the store is a directory of the local disk."""
        return "://" not in self.location

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreSettings) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        shown = [repr(self.location)]
        shown += [f"{name}=…" if name in _SECRETS else f"{name}={value!r}" for name, value in self._options]
        return f"tidegate.{type(self).__name__}({', '.join(shown)})"


def native_options(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Options as the native half takes them: most calls have none."""
    return dict(options) if options else None


def several(keys: Iterable[str]) -> list[str]:
    """The keys. One string, whose letters would be keys, is a mistake."""
    if isinstance(keys, str):
        raise TypeError(f"`keys` is one string, {keys!r}: give a list of keys")
    return list(keys)


def check_range(start: int, end: int | None) -> None:
    """Raises ``ValueError`` for bytes that no object has."""
    for name, value in (("start", start), ("end", end)):
        if value is not None and value < 0:
            raise ValueError(f"`{name}` is {value}: bytes are counted from 0 at the beginning of the object")
