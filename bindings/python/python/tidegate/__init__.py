"""Tidegate moves byte streams into and out of object storage as fast as the network allows, in a fixed amount of
memory, and never loses, truncates or half-publishes an object.

>>> import tidegate
>>> with tidegate.open("memory://demo/hello.txt", "w") as file:
...     _ = file.write("hello, tide")
>>> tidegate.open("memory://demo/hello.txt").read()
'hello, tide'
"""

from typing import TYPE_CHECKING

from ._engine_settings import Bucket
from ._errors import (
    AlreadyExistsError,
    ClockSkewError,
    ClosedError,
    CredentialsError,
    Error,
    ForkError,
    IdleError,
    IntegrityError,
    InvalidInputError,
    NoBucketError,
    NoSpaceError,
    NotAStoreError,
    NotEmptyError,
    NotFoundError,
    NotPublishedWarning,
    PermissionDeniedError,
    ReplacedError,
    SessionLostError,
    SourceError,
    StarvedError,
    StoreTimeoutError,
    ThrottledError,
    TooLargeError,
    UnavailableError,
    UncertainError,
    UnsupportedError,
)
from ._left import LeftUpload
from ._native import Manifest, Object, Other, Pending, Prefix, Progress, Resumable, __version__
from ._open import open
from ._reader import Reader
from ._recover import recover
from ._settings import AbandonedSet, DeleteReport
from ._store import Store, Tidegate
from ._sync_report import SyncError, SyncReport
from ._transfer import copy, download, sync, upload
from ._writer import Writer

if TYPE_CHECKING:
    from . import trees

__all__ = [
    "AbandonedSet",
    "AlreadyExistsError",
    "Bucket",
    "ClockSkewError",
    "ClosedError",
    "CredentialsError",
    "DeleteReport",
    "Error",
    "ForkError",
    "IdleError",
    "IntegrityError",
    "InvalidInputError",
    "LeftUpload",
    "Manifest",
    "NoBucketError",
    "NoSpaceError",
    "NotAStoreError",
    "NotEmptyError",
    "NotFoundError",
    "NotPublishedWarning",
    "Object",
    "Other",
    "PermissionDeniedError",
    "Pending",
    "Prefix",
    "Progress",
    "Reader",
    "ReplacedError",
    "Resumable",
    "SessionLostError",
    "SourceError",
    "StarvedError",
    "Store",
    "StoreTimeoutError",
    "SyncError",
    "SyncReport",
    "ThrottledError",
    "Tidegate",
    "TooLargeError",
    "UnavailableError",
    "UncertainError",
    "UnsupportedError",
    "Writer",
    "__version__",
    "copy",
    "download",
    "open",
    "recover",
    "sync",
    "trees",
    "upload",
]


def __getattr__(name: str) -> object:
    # Most programs copy no trees.
    if name == "trees":
        from importlib import import_module

        return import_module(".trees", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
