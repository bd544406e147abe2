"""The options of stores, writes and downloads, by name."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Literal, TypedDict

from . import _native
from ._engine_options import EngineOptions, ReachOptions, TideOptions
from ._engine_settings import EngineSettings
from ._wait import ProgressCallback

#: How an object is cut into requests. ``put``: one request for the whole object, held in memory. ``chunked``: one part
#: after the other. ``parallel``: several parts at once, while the next are written. ``spool``: to the local disk first,
#: and sent by ``close``. ``journal``: safe on the local disk first, sent meanwhile, and resumed after a crash. ``auto``:
#: picks one of them.
Strategy = Literal["auto", "put", "chunked", "parallel", "spool", "journal"]


class UrlOptions(ReachOptions, EngineOptions, total=False):
    """How the store of a URL is reached, and its engine."""

    #: The engine, a :class:`tidegate.Tidegate`, instead of options of one; that of the default settings if neither is given.
    tide: EngineSettings | None


class StoreOptions(UrlOptions, TideOptions, total=False):
    """How a store is reached, and its engine."""


class Attributes(TypedDict, total=False):
    """What an object carries besides its bytes."""

    #: MIME type; guessed from the key's ending if it is not given.
    content_type: str | None
    cache_control: str | None
    content_encoding: str | None
    content_disposition: str | None
    content_language: str | None
    #: An HTTP date.
    expires: str | None
    #: User metadata.
    metadata: Mapping[str, str] | None
    tags: Mapping[str, str] | None
    #: In the store's own words.
    storage_class: str | None
    #: ``"managed"``, ``"kms"``, or ``"kms:KEY"``.
    encryption: str | None


class CopyOptions(Attributes, total=False):
    """The options of a copy. Attributes that are given replace those of the source."""

    #: Fail with :class:`AlreadyExistsError` where the key has an object, by the store's own condition.
    create_only: bool
    #: Size of a part in bytes.
    part_size: int | None
    #: Most parts of this object in flight at once.
    concurrency: int | None
    progress: ProgressCallback | None


class WriteOptions(CopyOptions, total=False):
    """The options of a write."""

    strategy: Strategy | None
    #: The object's size in bytes, where it is known or guessed.
    size_hint: int | None
    #: The exact size in bytes: nothing of another size is published.
    exact_size: int | None
    #: Seconds that the writer may take no byte while others wait for the memory that it holds.
    idle_limit: float | None
    #: Fail with :class:`ReplacedError` where the key no longer has this object.
    replaces: _native.Object | None


class UploadOptions(WriteOptions, total=False):
    """The options of an upload of a file."""

    #: Keep the file's time and permissions in the metadata, as rclone does.
    preserve: bool


class DownloadOptions(TypedDict, total=False):
    """The options of a download into a file."""

    #: Fail with :class:`AlreadyExistsError` where there is a file already.
    create_only: bool
    #: Sync the file and its name to disk before the download ends.
    sync: bool
    #: Give the file the time at which the store last changed the object.
    keep_modified: bool
    #: Give the file the time and the permissions that the metadata has.
    preserve: bool
    #: Refuse symbolic links on the way from this directory to the file.
    refuse_links_below: str | os.PathLike[str] | None
    #: The object's size in bytes, for example from a listing; may be wrong.
    size_hint: int | None
    progress: ProgressCallback | None


class OpenOptions(UrlOptions, WriteOptions, total=False):
    """How the store of a URL is reached, and how an object is written."""


class UploadUrlOptions(UrlOptions, UploadOptions, total=False):
    """How the store of a URL is reached, and how a file is uploaded."""


class DownloadUrlOptions(UrlOptions, DownloadOptions, total=False):
    """How the store of a URL is reached, and how an object is downloaded."""


def no_option(name: str, known: Collection[str]) -> TypeError:
    """The exception for an option that nobody knows."""
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    return TypeError(f"there is no option {name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))


def check_write_options(given: Mapping[str, object]) -> None:
    """Raises for what is no option of a write."""
    for name in given.keys() - WriteOptions.__optional_keys__:
        raise no_option(name, WriteOptions.__optional_keys__)
