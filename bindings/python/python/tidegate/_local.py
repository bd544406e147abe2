"""Files of the local disk."""

from __future__ import annotations

import errno
import os
import re

from ._errors import Error, from_fields

#: What a local path begins with only by mistake: the scheme of a URL, and a URL that a `pathlib.Path` has shortened.
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_NEAR_URL = re.compile(r"(s3a?|gs|az|abfss?|memory|dev|https?):/", re.IGNORECASE)


def text_of(url: str | os.PathLike[str]) -> str:
    """A URL or path as text; ``TypeError`` for anything else."""
    text: object = os.fspath(url) if isinstance(url, os.PathLike) else url
    if not isinstance(text, str):
        raise TypeError(f"a URL or path is a str or an os.PathLike[str], not {type(text).__name__}: {text!r}")
    return text


def path_of(url: str) -> str | None:
    """The path that a ``file:`` URL names; ``None`` for what is none.

    >>> path_of("file:///tmp/a%20b"), path_of("file://localhost/tmp/a"), path_of("s3://bucket/a")
    ('/tmp/a b', '/tmp/a', None)
    """
    if url[:5].lower() != "file:":
        return None
    # It takes some milliseconds to import, and most programs have no such URL.
    from urllib.parse import unquote

    rest = url[5:]
    if rest.startswith("//"):
        host, _, path = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise ValueError(f"{url}: {host!r} is not this machine, whose files have URLs like file:///path")
        rest = f"/{path}"
    return unquote(rest, errors="surrogateescape")


def local_path(path: str | os.PathLike[str]) -> str:
    """The path of a local file that is given as a path or a ``file:`` URL. Other URLs are refused: they would be names of
    directories.

    >>> local_path("data/a.csv"), local_path("file:///tmp/a%20b"), local_path("./s3://bucket/a")
    ('data/a.csv', '/tmp/a b', './s3://bucket/a')
    """
    text = os.fsdecode(path)
    found = path_of(text)
    if found is not None:
        return found
    written = f"a local path of this name is written ./{text}"
    if _URL.match(text):
        raise _refused(
            f'"{text}": this is a URL, not a local path: tidegate.copy() copies from one URL to another ({written})'
        )
    if near := _NEAR_URL.match(text):
        meant = f"{near[0]}/{text[near.end() :]}"
        raise _refused(f'"{text}": this is no URL: did you mean {meant}? ({written})')
    return text


def _refused(message: str) -> Error:
    return from_fields(message, {"kind": "invalid_input"})


def is_directory(path: str | os.PathLike[str]) -> IsADirectoryError:
    return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))


def are_one_name(one: str, other: str) -> bool:
    """Whether the file system takes both paths for one file, whose directories may not exist yet: it may ignore case, or
    the form of a character. A file is made beside them for a moment, if their directory can be written to."""
    # It takes some milliseconds to import.
    import tempfile

    one, other = os.path.abspath(one), os.path.abspath(other)
    if one == other:
        return True
    top = os.path.commonpath([one, other])
    while not os.path.isdir(top):
        top = os.path.dirname(top)
    try:
        with tempfile.TemporaryDirectory(prefix=".tidegate-", dir=top) as probe:
            first, second = (os.path.join(probe, os.path.relpath(path, top)) for path in (one, other))
            os.makedirs(os.path.dirname(first), exist_ok=True)
            with open(first, "xb"):
                return os.path.lexists(second)
    except OSError:
        # No file can be made there. Below it, both names may lead into one directory.
        above, (other_above, other_name) = os.path.dirname(one), os.path.split(other)
        if above == other_above or not (os.path.isdir(above) and os.path.isdir(other_above)):
            return False
        return os.path.samefile(above, other_above) and are_one_name(one, os.path.join(above, other_name))
