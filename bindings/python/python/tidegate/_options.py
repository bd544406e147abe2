"""The options of stores, writes and downloads, by name."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Literal, TypedDict

from . import _native
from ._tide import EngineOptions, Tidegate, TideOptions
from ._wait import ProgressCallback

#: How an object is cut into requests. ``put``: one request for the whole object, held in memory. ``chunked``: one part
#: after the other. ``parallel``: several parts at once, while the next are written. ``spool``: to the local disk first,
#: and sent by ``close``. ``journal``: safe on the local disk first, sent meanwhile, and resumed after a crash. ``auto``:
#: picks one of them.
Strategy = Literal["auto", "put", "chunked", "parallel", "spool", "journal"]


class ReachOptions(TypedDict, total=False):
    """How a store is reached. What is not given comes from the environment and from configuration files, as with every
    tool of that cloud."""

    #: The endpoint, as ``http[s]://host[:port]``; of Azure with the account in its path.
    endpoint_url: str
    #: A PEM file of certificate authorities to trust in addition to the system's.
    ca_bundle: str | os.PathLike[str]
    #: Seconds for opening a connection.
    connect_timeout: float
    #: Whether requests are sent without credentials.
    anonymous: bool

    #: S3: the region to sign for.
    region: str
    #: S3: the profile of AWS's configuration files.
    profile: str
    #: S3: the profile that gives credentials, region and endpoint; those of the environment are ignored.
    profile_only: str
    #: S3: the access key, with ``secret_key``.
    access_key: str
    #: S3: the secret key.
    secret_key: str
    #: S3: the token of temporary keys.
    session_token: str
    #: S3: whether the bucket is in the host or the path of addresses.
    addressing: Literal["auto", "path", "virtual"]
    #: S3: the checksum of objects.
    checksum: Literal["crc64nvme", "crc32c"]
    #: S3: whether the store takes a checksum after the bytes.
    trailers: bool
    #: S3: whether to sign the SHA-256 of bodies.
    payload_sha256: bool
    #: S3: whether all parts but the last must have one size.
    equal_parts: bool
    #: S3: the most parts of an upload, for stores that take fewer than 10,000.
    max_parts: int
    #: S3: whether the server is known to keep the condition of ``create_only``.
    kept_conditions: bool
    #: S3, Google: whether to pay for requests to buckets whose owners ask for that.
    request_payer: bool

    #: Google, Azure: an access token.
    token: str
    #: Google: the project whose buckets are created.
    project: str
    #: Google: the protocol for objects.
    transport: Literal["http", "grpc"]

    #: Azure: the storage account.
    account: str
    #: Azure: the account's key, in base64.
    account_key: str
    #: Azure: a shared access signature.
    sas: str
    #: Azure: a connection string.
    connection_string: str
    #: Azure: whether blobs are compared with the checksum in their metadata (``tidegate_crc64nvme``).
    metadata_checksums: bool


class UrlOptions(ReachOptions, EngineOptions, total=False):
    """How the store of a URL is reached, and its engine."""

    #: The engine, instead of options of one; that of the default settings if neither is given.
    tide: Tidegate | None


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
