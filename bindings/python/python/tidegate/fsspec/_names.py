"""What paths, patterns and lists of them name, and where copies of that go."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sized
from glob import has_magic
from itertools import combinations
from typing import Any, ClassVar
from unicodedata import category, normalize

from fsspec.asyn import _run_coros_in_chunks
from fsspec.utils import other_paths, stringify_path

from .._local import are_one_name
from ._listings import ListedFileSystem


class NamedFileSystem(ListedFileSystem):
    """A file system that expands patterns, and takes the names of objects for what they are.

    Keys may contain ``*``, ``?`` and ``[``. A path is a pattern only if there is no object and no directory of exactly
    this name.
    """

    #: Whether its files are those of the local disk.
    local_file: ClassVar[bool] = False

    async def _patterns(self, paths: Collection[str]) -> set[str]:
        """Those of the paths, which have no protocol, that are patterns."""
        asked = [path for path in paths if has_magic(path)]
        answers = await _run_coros_in_chunks(
            [self._is_pattern(path) for path in asked], batch_size=self.batch_size, nofiles=True
        )
        return {path for path, is_pattern in zip(asked, answers, strict=True) if is_pattern}

    async def _is_pattern(self, path: str) -> bool:
        bucket, key = self._split(path)
        if not has_magic(key):
            # No bucket has such a name.
            return True
        # Asks for no description: a program may be allowed to list and remove objects, and not to read them.
        listed = await self._level(bucket, key)
        return all(info["name"] != path for info in listed or ())

    async def _expand_path(
        self,
        path: Any,
        recursive: bool = False,
        maxdepth: int | None = None,
        assume_literal: bool = False,
        **options: Any,
    ) -> list[str]:
        """As fsspec's own, but what has exactly the name of a pattern comes before all that the pattern matches."""
        paths = [self._strip_protocol(each) for each in ([path] if isinstance(path, str) else path)]
        patterns = set() if assume_literal else await self._patterns(paths)
        return sorted(await self._expanded(paths, patterns, recursive, maxdepth))

    async def _named(self, path: Any, recursive: bool, maxdepth: int | None) -> tuple[list[str], bool]:
        """What ``path`` names for a copy, and whether it is one pattern. As fsspec decides it, a single path or pattern names
        no directories, unless all that is in them is copied too."""
        paths = [self._strip_protocol(each) for each in ([path] if isinstance(path, str | os.PathLike) else path)]
        patterns = await self._patterns(paths)
        found = await self._expanded(paths, patterns, recursive, maxdepth)
        sources, is_text = sorted(found), isinstance(path, str)
        if is_text and (not recursive or maxdepth is not None):
            # An object may have the name of a directory.
            sources = [each for each in sources if found[each] == "file" or not await self._is_only_directory(each)]
        return sources, is_text and bool(patterns)

    async def _expanded(
        self, paths: Collection[str], patterns: set[str], recursive: bool, maxdepth: int | None
    ) -> dict[str, str | None]:
        """The paths that are found, and the types that listings say they have."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        found: dict[str, str | None] = {}

        def add(infos: Any) -> None:
            found.update((name, info["type"]) for name, info in infos.items())

        for path in paths:
            if path in patterns:
                matches = await self._glob(path, maxdepth=maxdepth, detail=True)
                add(matches)
                if recursive and maxdepth != 1:
                    below = None if maxdepth is None else maxdepth - 1
                    for match in matches:
                        add(await self._find(match, maxdepth=below, withdirs=True, detail=True))
                continue
            if recursive:
                add(await self._find(path, maxdepth=maxdepth, withdirs=True, detail=True))
            if path not in found and (not recursive or await self._exists(path)):
                found[path] = None
        if not found:
            raise FileNotFoundError(", ".join(paths))
        return found

    # What is there.

    async def _is_only_directory(self, path: str) -> bool:
        """Whether there is a directory of this name, and no object."""
        try:
            await self._file_info(path)
        except (FileNotFoundError, IsADirectoryError):
            return await self._isdir(path)
        return False

    async def _only_files(self, paths: list[str]) -> list[str]:
        return [path for path in paths if (await self._info(path))["type"] == "file"]

    # Targets.

    async def _targets(
        self, sources: list[str], path: Any, target: Any, strip: Callable[[str], str], *, is_pattern: bool
    ) -> list[str]:
        """Where copies of the sources that ``path`` names go in this file system, as fsspec decides it. ``strip`` takes the
        protocol of a source away."""
        if isinstance(target, list):
            return target
        target = stringify_path(target)
        is_directory = target.endswith("/") or await self._isdir(target)
        target = self._strip_protocol(target)
        return copied_to(sources, path, target, strip, is_pattern=is_pattern, is_directory=is_directory)

    def _real_path(self, path: str) -> str:
        """The same text for all names of one place."""
        return path

    def _place(self, path: str) -> str:
        """As :meth:`_real_path`, also of a path with its protocol."""
        return self._real_path(self._joined(*self._split(self._strip_protocol(path))))

    async def _refuse_shared_targets(self, pairs: list[tuple[str, str]], did: str) -> None:
        """Fails if two objects have one target in this file system. Two directories may."""
        for group in sharing(pairs, self._place, on_disk=self.local_file):
            await self._refuse_two_files(group, did)

    async def _refuse_two_files(self, group: list[tuple[str, str]], did: str) -> None:
        files = set(await self._only_files([source for source, _ in group]))
        group = [pair for pair in group if pair[0] in files]
        if len(group) > 1:
            raise two_files(group, did)


def copied_to(
    sources: list[str], path: Any, target: str, strip: Callable[[str], str], *, is_pattern: bool, is_directory: bool
) -> list[str]:
    """Where copies of the sources that ``path`` names go, as fsspec decides it. ``is_directory`` says so of the target, and
    ``strip`` takes the protocol of a source away."""
    is_text = isinstance(path, str)
    is_inside = is_text and (len(sources) == 1 if is_pattern else is_directory and not path.endswith("/"))
    # fsspec takes what all names begin with for the top of the tree: with ``maxdepth``, that may be a single file.
    tops = [strip(path)] if is_text and not is_pattern else []
    targets: list[str] = other_paths([*tops, *sources], target, exists=is_inside, flatten=not is_text)
    return targets[len(tops) :]


def check_counts(sources: Sized, targets: Sized, did: str) -> None:
    if len(sources) != len(targets):
        raise ValueError(f"nothing was {did}: {len(sources)} sources have {len(targets)} targets")


def sharing(
    pairs: Iterable[tuple[str, str]], place: Callable[[str], str], *, on_disk: bool
) -> Iterator[list[tuple[str, str]]]:
    """The sources and targets whose targets are one place, in groups. The disk is asked whether it takes two names that
    are alike for one."""
    by_place: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        by_place.setdefault(place(pair[1]), []).append(pair)
    yield from (group for group in by_place.values() if len(group) > 1)
    if on_disk:
        alike: dict[str, list[str]] = {}
        for path in by_place:
            alike.setdefault(_folded(path), []).append(path)
        for paths in alike.values():
            for one, other in combinations(paths, 2):
                if are_one_name(one, other):
                    yield by_place[one] + by_place[other]


def real_paths() -> Callable[[str], str]:
    """What :func:`os.path.realpath` says of paths, with one question to the disk for all of a directory."""
    directories: dict[str, str] = {}

    def real_path(path: str) -> str:
        directory, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        if directory not in directories:
            directories[directory] = os.path.realpath(directory)
        path = os.path.join(directories[directory], name)
        return os.path.realpath(path) if os.path.islink(path) else path

    return real_path


def _folded(path: str) -> str:
    """The same text for all paths that some file system may take for one."""
    if not path.isascii():
        path = normalize("NFD", "".join(letter for letter in path if category(letter) != "Cf"))
    return _IGNORED_AT_END.sub("", normalize("NFD", path.casefold()))


_IGNORED_AT_END = re.compile(r"[. ]+(?=/|$)")


def two_files(group: list[tuple[str, str]], did: str) -> ValueError:
    """The error about sources whose targets are one place."""
    (one, target), (other, its_target), *_ = group
    where = repr(target) if target == its_target else f"{target!r}, which is also {its_target!r}"
    return ValueError(f"nothing was {did}: {one!r} and {other!r} would both go to {where}")
