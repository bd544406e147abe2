"""The places that URLs name."""

from __future__ import annotations

import os
from typing import Any

from ._local import path_of, text_of
from ._options import UrlOptions

_URL_OPTIONS = UrlOptions.__optional_keys__


def split(url: str | os.PathLike[str]) -> tuple[str, str]:
    """The store of an object's URL, and the object's key there.

    >>> split("s3://bucket/a/b.csv")
    ('s3://bucket', 'a/b.csv')
    >>> split("data/b.csv")
    ('data', 'b.csv')
    """
    text = text_of(url)
    path = path_of(text)
    scheme, separator, rest = text.partition("://")
    if path is not None or not separator:
        directory, name = os.path.split(text if path is None else path)
        if not name:
            raise IsADirectoryError(f"{text} names no file")
        return directory or ".", name
    bucket, _, key = rest.partition("/")
    if not key:
        raise ValueError(f"{text} names no object: a key is missing after the bucket")
    return f"{scheme}://{bucket}", key


def below(place: str) -> str | None:
    """The directory that a relative path is below now; ``None`` for all other places."""
    return None if "://" in place or os.path.isabs(place) else os.getcwd()


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of the store from those of a call."""
    return {name: options.pop(name) for name in list(options) if name in _URL_OPTIONS}
