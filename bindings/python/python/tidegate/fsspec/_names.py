"""What paths, patterns and lists of them name, and where copies of that go."""

from __future__ import annotations

from collections.abc import Collection
from glob import has_magic
from typing import Any

from fsspec.asyn import _run_coros_in_chunks
from fsspec.utils import other_paths

from ._listings import ListedFileSystem


class NamedFileSystem(ListedFileSystem):
    """A file system that expands patterns, and takes the names of objects for what they are.

    Keys may contain ``*``, ``?`` and ``[``. A path is a pattern only if there is no object and no directory of exactly
    this name.
    """

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
        return await self._expanded(paths, patterns, recursive, maxdepth)

    async def _expanded(
        self, paths: Collection[str], patterns: set[str], recursive: bool, maxdepth: int | None
    ) -> list[str]:
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        found: set[str] = set()
        for path in paths:
            if path in patterns:
                matches = await self._glob(path, maxdepth=maxdepth)
                found.update(matches)
                if recursive and maxdepth != 1:
                    below = None if maxdepth is None else maxdepth - 1
                    for match in matches:
                        found.update(await self._find(match, maxdepth=below, withdirs=True))
                continue
            if recursive:
                found.update(await self._find(path, maxdepth=maxdepth, withdirs=True))
            if path not in found and (not recursive or await self._exists(path)):
                found.add(path)
        if not found:
            raise FileNotFoundError(", ".join(paths))
        return sorted(found)


def copied_to(sources: list[str], path: Any, target: str, *, is_pattern: bool, is_directory: bool) -> list[str]:
    """Where copies of the sources that ``path`` names go, as fsspec decides it. ``is_directory`` says so of the target."""
    is_text = isinstance(path, str)
    is_inside = is_text and (len(sources) == 1 if is_pattern else is_directory and not path.endswith("/"))
    targets: list[str] = other_paths(sources, target, exists=is_inside, flatten=not is_text)
    return targets
