"""Takes over the protocols that other packages serve."""

from __future__ import annotations

import fsspec
from fsspec.registry import known_implementations

from ._filesystem import ObjectFileSystem
from ._stores import AzureFileSystem, GCSFileSystem, LocalFileSystem, MemoryFileSystem, S3FileSystem

#: The protocols that can be taken over.
_TAKEN: dict[str, type[ObjectFileSystem]] = {
    "s3": S3FileSystem,
    "s3a": S3FileSystem,
    "gs": GCSFileSystem,
    "gcs": GCSFileSystem,
    "az": AzureFileSystem,
    "abfs": AzureFileSystem,
    "abfss": AzureFileSystem,
}


def install(*protocols: str) -> None:
    """Has fsspec use Tidegate for ``s3``, ``s3a``, ``gs``, ``gcs``, ``az``, ``abfs`` and ``abfss``, or those of them that
    are given, in this process. File systems that were made before stay as they are.

    >>> import fsspec
    >>> import tidegate.fsspec
    >>> tidegate.fsspec.install("s3")
    >>> fsspec.get_filesystem_class("s3").__module__
    'tidegate.fsspec'
    """
    unknown = [protocol for protocol in protocols if protocol not in _TAKEN]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of the protocols that can be taken over: {', '.join(_TAKEN)}")
    for protocol in protocols or _TAKEN:
        fsspec.register_implementation(protocol, _TAKEN[protocol], clobber=True)


def hide_older_names() -> None:
    """Has fsspec no longer offer the older names, with a ``+``, among its protocols. They still work."""
    for cls in (AzureFileSystem, GCSFileSystem, LocalFileSystem, MemoryFileSystem, S3FileSystem):
        older = cls.protocol[1]
        known_implementations.pop(older, None)
        fsspec.register_implementation(older, cls, clobber=True)
