"""What a file system is opened with: the options of its user, sorted by what takes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from fsspec.registry import known_implementations

from .._engine_options import TIDE_OPTIONS
from .._options import WriteOptions, no_option

#: Options of fsspec itself.
_LISTING_OPTIONS = frozenset({"use_listings_cache", "listings_expiry_time", "max_paths"})
#: Tidegate's options of a write. Where an engine has one of the same name, it is taken for the write, as by
#: `tidegate.open`; `tide` sets that of the engine.
WRITE_OPTIONS = WriteOptions.__optional_keys__ | WriteOptions.__required_keys__
_ENGINE_OPTIONS = (TIDE_OPTIONS | {"tide"}) - WRITE_OPTIONS
#: Options of every store that is reached by HTTP.
REACH_OPTIONS = frozenset({"anonymous", "ca_bundle", "connect_timeout", "endpoint_url"})


@dataclass
class Settings:
    """The options of a file system."""

    #: How the store is reached, and its engine: options of :class:`tidegate.Store`.
    store: dict[str, Any] = field(default_factory=dict)
    #: Options of every write that says nothing else.
    write: dict[str, Any] = field(default_factory=dict)
    #: Options of fsspec's cache of listings.
    listing: dict[str, Any] = field(default_factory=dict)
    #: Size in bytes of the buffer that files are read through.
    block_size: int | None = None
    #: The cache of fsspec that files are read through.
    cache_type: str | None = None
    #: Whether the cache may keep what it has read beside what was asked for.
    fill_cache: bool = True
    #: Whether writes are refused.
    read_only: bool = False


#: Takes the value of one option.
Taker = Callable[[Settings, Any], None]


@dataclass(frozen=True)
class Dialect:
    """The options of one other package, beside Tidegate's own."""

    #: The package whose names these are.
    package: str
    #: What becomes of each option.
    options: Mapping[str, Taker]
    #: Tidegate's options of how such a store is reached.
    reach: frozenset[str] = frozenset()

    def settings(self, given: Mapping[str, Any]) -> Settings:
        """Sorts the options. Raises :class:`ValueError` for one that is refused, and :class:`TypeError` for one that
        nobody knows."""
        settings = Settings()
        for name, value in given.items():
            if value is None:
                continue
            if name in self.options:
                self.options[name](settings, value)
            elif name in _LISTING_OPTIONS:
                settings.listing[name] = value
            elif name == "concurrency" and value == "auto":
                # Of the two options of this name, only that of the engine has this value.
                settings.store[name] = value
            elif name in WRITE_OPTIONS:
                settings.write[name] = value
            elif name in self.reach or name in _ENGINE_OPTIONS:
                settings.store[name] = value
            elif name in known_implementations and isinstance(value, Mapping):
                # The options of another file system, by its protocol, as datasets gives them to all.
                continue
            else:
                raise TypeError(f"there is no option {name!r}, neither of Tidegate nor of {self.package}")
        return settings


def to_store(name: str) -> Taker:
    """Gives the value to the store's option ``name``."""

    def take(settings: Settings, value: Any) -> None:
        settings.store[name] = value

    return take


def to_write(name: str) -> Taker:
    """Gives the value to the option ``name`` of writes."""

    def take(settings: Settings, value: Any) -> None:
        settings.write[name] = value

    return take


def to_flag(name: str) -> Taker:
    """Sets the store's option ``name`` if the value is true."""

    def take(settings: Settings, value: Any) -> None:
        if value:
            settings.store[name] = True

    return take


def to_file(name: str) -> Taker:
    """Keeps the value for the files that are read."""

    def take(settings: Settings, value: Any) -> None:
        setattr(settings, name, value)

    return take


def ignored(settings: Settings, value: Any) -> None:
    """Takes an option that has no effect here. ``docs/fsspec.md`` says of each why not."""


def refused(name: str, instead: str) -> Taker:
    """Refuses the option unless its value asks for nothing."""

    def take(settings: Settings, value: Any) -> None:
        if value:
            raise ValueError(f"the option {name!r} is not supported: {instead}")

    return take


#: Parameters of S3's API that say what an object carries, by Tidegate's names of them.
_S3_ATTRIBUTES = {
    "CacheControl": "cache_control",
    "ContentDisposition": "content_disposition",
    "ContentEncoding": "content_encoding",
    "ContentLanguage": "content_language",
    "ContentType": "content_type",
    "Expires": "expires",
    "Metadata": "metadata",
    "StorageClass": "storage_class",
}
#: Names that other packages give to options of a write, by Tidegate's names of them.
_WRITE_NAMES = {"chunksize": "part_size", "max_concurrency": "concurrency"}
#: Options of calls that have no effect here, or say what is so anyway. Some versions of fsspec give ``onerror`` to copies
#: when they move files.
_CALL_IGNORED = frozenset({"batch_size", "consistency", "fill_cache", "onerror", "preserve_etag", "size", "timeout"})
#: Options of files that are read, of s3fs and others, that have no effect here: what they are for
#: is so anyway, or belongs to the file system.
_READ_IGNORED = frozenset(
    {"acl", "consistency", "default_cache", "fill_cache", "max_concurrency", "requester_pays", "timeout"}
)


def call_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a write in those that a call was given: Tidegate's own, parameters of S3's API, and the names that
    s3fs, gcsfs and adlfs have for some."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or name in _CALL_IGNORED:
            continue
        if name in WRITE_OPTIONS:
            options[name] = value
        elif name in _S3_ATTRIBUTES:
            options[_S3_ATTRIBUTES[name]] = value
        elif name in _WRITE_NAMES:
            options[_WRITE_NAMES[name]] = value
        elif name == "overwrite":
            options["create_only"] = not value
        elif name == "mode":
            options["create_only"] = _is_create(value)
        elif name == "fixed_key_metadata":
            options |= call_options(value)
        elif name == "ServerSideEncryption":
            options.setdefault("encryption", _encryption(value))
        elif name == "SSEKMSKeyId":
            options["encryption"] = f"kms:{value}"
        elif name == "Tagging":
            options["tags"] = dict(parse_qsl(value, keep_blank_values=True, strict_parsing=True))
        elif name in ("requester_pays", "RequestPayer"):
            raise ValueError(f"the option {name!r} is one of the file system, not of a call: give requester_pays there")
        else:
            raise TypeError(f"a write has no option {name!r}")
    return options


def check_newest(given: Mapping[str, Any]) -> None:
    """Refuses the options of a call that name another version of the object than the newest. Names that are not known are
    passed over, as by other file systems: Dask and others give all files names that only some file systems have."""
    for name in ("version_id", "generation"):
        if given.get(name) is not None:
            raise ValueError(f"the option {name!r} is not supported: only the newest version of an object is reached")


def check_known(given: Mapping[str, Any], known: Collection[str] = ()) -> None:
    """As :func:`check_newest`, and :class:`TypeError` for every other name: of calls that remove. ``known`` are the names
    that the call has."""
    check_newest(given)
    for name in given:
        if name not in ("version_id", "generation"):
            raise no_option(name, known)


def check_read_options(given: Mapping[str, Any]) -> None:
    """Refuses what opening to read does not know: :class:`TypeError` for an option that nobody knows."""
    check_newest(given)
    for name, value in given.items():
        if value is not None and name not in _READ_IGNORED:
            raise TypeError(f"opening to read has no option {name!r}")


def _is_create(mode: str) -> bool:
    if mode not in ("create", "overwrite"):
        raise ValueError(f"mode {mode!r} is none of 'create', 'overwrite'")
    return mode == "create"


def _encryption(algorithm: str) -> str:
    match algorithm:
        case "AES256":
            return "managed"
        case "aws:kms":
            return "kms"
        case _:
            raise ValueError(f"the option 'ServerSideEncryption' is 'AES256' or 'aws:kms', not {algorithm!r}")
