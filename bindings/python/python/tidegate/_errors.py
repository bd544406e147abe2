"""The exceptions of this package. Each is a :class:`Error`; where Python has an exception of its own for the same
thing, it is that one too, so that code written for local files catches it.
"""

from __future__ import annotations

import errno
from typing import Any


class Error(Exception):
    """A failed operation. Its text is one sentence for people; :attr:`kind` is for programs."""

    #: One word, such as ``"not_found"``.
    kind: str = "error"
    #: What failed, such as ``"get"``; empty if no operation was begun.
    operation: str = ""
    #: The URL of the object, or bucket.
    url: str = ""
    #: Of a part that failed: its number, its first byte, and the byte after its last.
    part: tuple[int, int, int] | None = None
    #: How many requests were made; 0 if there was none.
    attempts: int = 0
    #: Seconds from the first attempt to giving up.
    elapsed: float = 0.0
    #: Whether the store could not be reached.
    is_unreachable: bool = False

    def __str__(self) -> str:
        # That of an OSError with a number would be put together from its parts.
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        # A class that was made for this error has no name by which a pickle could find it.
        of_file = getattr(self, "errno", None)
        exception_type = type(self).__bases__[0] if type(self) in _of_files.values() else type(self)
        return (_restored, (exception_type, str(self), self.__dict__, of_file))


class NotFoundError(Error, FileNotFoundError):
    """No such object."""


class NoBucketError(NotFoundError):
    """No such bucket or root directory."""


class AlreadyExistsError(Error, FileExistsError):
    """There is an object already, and ``create_only`` was asked for. Nothing was changed."""


class NotEmptyError(Error, OSError):
    """The bucket that was to be removed has objects. Nothing was changed."""


class ReplacedError(Error, OSError):
    """The object was replaced: it is no longer the one that was being read, copied or replaced."""


class PermissionDeniedError(Error, PermissionError):
    """The credentials do not allow it."""


class CredentialsError(PermissionDeniedError):
    """No usable credentials."""


class ClockSkewError(PermissionDeniedError):
    """This machine's clock and the store's are too far apart."""


class InvalidInputError(Error, ValueError):
    """An argument or a setting is wrong."""


class TooLargeError(Error, OSError):
    """The object is larger than the store, or the memory budget, allows."""


class SourceError(Error, OSError):
    """The source could not be read, or changed while it was sent; or a spool directory failed."""


class ThrottledError(Error, OSError):
    """The store asked for fewer requests for longer than the retries last."""


class StoreTimeoutError(Error, TimeoutError):
    """No answer in time, in any of the attempts."""


class UnavailableError(Error, ConnectionError):
    """The store or the network failed, in all of the attempts."""


class NotAStoreError(Error, ConnectionError):
    """The answer is not an object store's."""


class IntegrityError(Error, OSError):
    """The bytes that the store has are not those that were sent."""


class UncertainError(Error, OSError):
    """The store cannot say whether the object was committed, or that it will outlast a loss of power."""


class NoSpaceError(Error, OSError):
    """The disk is full, or a quota is used up."""


class StarvedError(Error, OSError):
    """The wait for memory could not end: half-filled parts hold it, and their producers do not continue."""


class IdleError(Error, OSError):
    """The writer took no byte for longer than its idle limit, and others waited for the memory that it held."""


class SessionLostError(Error, OSError):
    """The server-side session is gone, or has lost parts that it had acknowledged."""


class ClosedError(Error, ValueError):
    """The writer or reader was closed, discarded, or has failed before."""


class UnsupportedError(Error, OSError):
    """Not possible on this store."""


class ForkError(ClosedError):
    """A forked process has used a writer that it inherited. Only the process that opened it can write."""


class NotPublishedWarning(UserWarning):
    """A file was discarded, though nobody has asked for that and no ordinary exception says so. The message says how to
    publish. See :class:`tidegate.Writer`."""


class NotClosedWarning(NotPublishedWarning, ResourceWarning):
    """A file was discarded because nobody has closed it."""


_KINDS: dict[str, tuple[type[Error], int]] = {
    "not_found": (NotFoundError, errno.ENOENT),
    "no_bucket": (NoBucketError, errno.ENOENT),
    "already_exists": (AlreadyExistsError, errno.EEXIST),
    "not_empty": (NotEmptyError, errno.ENOTEMPTY),
    "replaced": (ReplacedError, errno.ESTALE),
    "permission_denied": (PermissionDeniedError, errno.EACCES),
    "credentials": (CredentialsError, errno.EACCES),
    "clock_skew": (ClockSkewError, errno.EACCES),
    "invalid_input": (InvalidInputError, errno.EINVAL),
    "too_large": (TooLargeError, errno.EFBIG),
    "source": (SourceError, errno.EIO),
    "throttled": (ThrottledError, errno.EBUSY),
    "timeout": (StoreTimeoutError, errno.ETIMEDOUT),
    "unavailable": (UnavailableError, errno.EHOSTUNREACH),
    "not_a_store": (NotAStoreError, errno.EPROTO),
    "integrity": (IntegrityError, errno.EIO),
    "uncertain": (UncertainError, errno.EIO),
    "no_space": (NoSpaceError, errno.ENOSPC),
    "starved": (StarvedError, errno.ENOMEM),
    "idle": (IdleError, errno.ETIME),
    "session_lost": (SessionLostError, errno.EIO),
    "closed": (ClosedError, errno.EBADF),
    "unsupported": (UnsupportedError, errno.ENOTSUP),
}


#: What Python raises for a file, by the system's number of the error.
_OF_FILES: dict[int, type[OSError]] = {
    errno.ENOENT: FileNotFoundError,
    errno.EISDIR: IsADirectoryError,
    errno.ENOTDIR: NotADirectoryError,
    errno.EACCES: PermissionError,
    errno.EPERM: PermissionError,
}


def from_fields(message: str, fields: dict[str, Any]) -> Error:
    """The exception of the kind that ``fields`` name. Called by the native half. With ``errno``, the system's number of the
    error of a local file, it is also the exception that Python's own functions raise then."""
    number = fields.pop("errno", None)
    exception_type, _ = _KINDS.get(fields["kind"], (Error, errno.EIO))
    return _restored(exception_type, message, fields, number)


def _restored(exception_type: type[Error], message: str, fields: dict[str, Any], number: int | None) -> Error:
    of_file = _OF_FILES.get(number) if number is not None else None
    if of_file is not None:
        exception_type = _and_of_file(exception_type, of_file)
    error = exception_type(message)
    error.__dict__.update(fields)
    if isinstance(error, OSError):
        error.errno = number if of_file is not None else _KINDS.get(error.kind, (Error, errno.EIO))[1]
        error.strerror = message
        error.filename = error.url
    return error


#: The classes that were made of two others.
_of_files: dict[tuple[type[Error], type[OSError]], type[Error]] = {}


def _and_of_file(kind: type[Error], of_file: type[OSError]) -> type[Error]:
    """``kind``, as a class of exceptions that are ``of_file`` too."""
    if issubclass(kind, of_file):
        return kind
    made = _of_files.get((kind, of_file))
    if made is None:
        made = type(kind.__name__, (kind, of_file), {"__doc__": kind.__doc__, "__module__": kind.__module__})
        made = _of_files.setdefault((kind, of_file), made)
    return made


def closed(url: str, message: str) -> ClosedError:
    """The exception for the use of what was closed."""
    error = ClosedError(f"{url}: {message}" if url else message)
    error.kind = "closed"
    error.url = url
    return error


def inherited(parent: int, url: str = "") -> ForkError:
    """The exception for the use of what process ``parent`` has opened, in a process that was forked from it."""
    error = ForkError(
        f"{url or 'this'} was opened by process {parent}, before a fork: only that process can go on with it (open it "
        "anew here)"
    )
    error.kind = "forked"
    error.url = url
    return error


for _exception in [Error, ForkError, NotPublishedWarning, NotClosedWarning, *(kind[0] for kind in _KINDS.values())]:
    # What a traceback shows is the name by which a program catches it.
    _exception.__module__ = "tidegate"
