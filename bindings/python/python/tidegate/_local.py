"""Files of the local disk."""

from __future__ import annotations

import errno
import os


def path_of(url: str) -> str | None:
    """The path that a ``file:`` URL names; ``None`` for what is none.

    >>> path_of("file:///tmp/a%20b"), path_of("file://localhost/tmp/a"), path_of("s3://bucket/a")
    ('/tmp/a b', '/tmp/a', None)
    """
    if not url.startswith("file:"):
        return None
    # It takes some milliseconds to import, and most programs have no such URL.
    from urllib.parse import unquote

    rest = url.removeprefix("file:")
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise ValueError(f"{url}: {host!r} is not this machine, whose files have URLs like file:///path")
        rest = f"/{path}"
    return unquote(rest, errors="surrogateescape")


def is_directory(path: str | os.PathLike[str]) -> IsADirectoryError:
    return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
