"""The options of engines, and how stores are reached, by name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Literal, TypedDict

Path = str | os.PathLike[str]


class EngineOptions(TypedDict, total=False):
    """The settings of an engine whose names no write has too. They have the names that the Rust library and the command
    line give them."""

    #: The memory budget in bytes, 256 MiB by default: all writers and readers together hold at most this.
    memory: int
    #: Size of the buffers that the budget consists of, in bytes.
    slab: int
    #: Directories for bytes that do not fit in memory.
    spool: Path | Iterable[Path]
    #: Directories for the journals of the strategy ``journal``.
    journal: Path | Iterable[Path]
    #: When bytes in a journal survive a loss of power: ``"write"``, ``"sync"``, or ``(bytes, seconds)``.
    durability: Literal["write", "sync"] | tuple[int, float]
    #: How many acknowledged bytes a journal keeps on its disk.
    journal_keep: int
    #: Seconds that a writer waits for memory that nothing in flight can free.
    memory_wait: float
    #: The most bytes a second that all transfers move together.
    bandwidth: int
    #: Most parts that one writer may have in flight.
    parts_in_flight: int
    #: Whether a part that is far slower than its peers is sent a second time.
    hedge: bool
    #: A directory for records of this process's upload sessions, which a sweep by another process leaves alone.
    records: Path
    #: More users whose journals, records and partial downloads are trusted, by number.
    owner: Iterable[int]
    #: Most attempts of one request.
    attempts: int
    #: Seconds that one attempt may go without moving a byte.
    patience: float
    #: The least rate of a response, in bytes a second.
    min_rate: int


class TideOptions(EngineOptions, total=False):
    """All settings of an engine."""

    #: Requests in flight to one endpoint: ``"auto"``, or a number.
    concurrency: int | Literal["auto"]
    #: Part size in bytes, for writers that set none.
    part_size: int
    #: Seconds that a writer may take no byte while others wait for the memory that it holds; for writers that set none.
    idle_limit: float


#: The names of the settings of engines; the other options of a store say how it is reached.
TIDE_OPTIONS = TideOptions.__optional_keys__


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
