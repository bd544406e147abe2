"""Files that are opened for writing: Tidegate's writers, with what fsspec expects of a file."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from fsspec.compression import compr, register_compression

from .. import _native
from .._ending import Ended
from .._wait import ProgressCallback
from .._writer import Writer
from ..aio import Writer as AsyncWriter

if TYPE_CHECKING:
    from typing import Self

    from _typeshed import ReadableBuffer

    from ._listings import ListedFileSystem


class WrittenFile(Writer):
    """Writes one object of a file system; see :class:`tidegate.Writer` for when it never becomes visible."""

    def __init__(
        self, fs: ListedFileSystem, path: str, native: _native.Writer, progress: ProgressCallback | None = None
    ) -> None:
        super().__init__(native, progress)
        self.fs = fs
        self.path = path
        #: Whether its mode is ``ab``.
        self.is_appended = False

    def seekable(self) -> bool:
        """In mode ``ab``, says that it is: Python's text files ask only such a file for its position, and write the byte order
        mark of their encoding at position 0 alone. :meth:`seek` raises in every mode."""
        return self.is_appended

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        raise io.UnsupportedOperation("seek: an object is written from its beginning to its end")

    @property
    def full_name(self) -> str:
        """The URL that fsspec knows the file by."""
        return str(self.fs.unstrip_protocol(self.path))

    def _end(self, error: Ended = None, *, is_whole: bool = False) -> None:
        was_closed = self.closed
        try:
            super()._end(error, is_whole=is_whole)
        finally:
            if not was_closed:
                self.fs.forget(self.path)

    def commit(self) -> None:
        """Has no effect: closing has published the file already. Called by transactions."""


class DeferredFile(WrittenFile):
    """A file that is written in a transaction: closing completes it, and the end of the transaction publishes it.

    A file that an exception has ended is discarded, and the transaction publishes the others. One that is not closed at
    the end of the transaction is an error.
    """

    def __init__(
        self, fs: ListedFileSystem, path: str, native: _native.Writer, progress: ProgressCallback | None = None
    ) -> None:
        super().__init__(fs, path, native, progress)
        self._is_complete = False

    @property
    def closed(self) -> bool:
        return self._is_complete or super().closed

    @property
    def is_waiting(self) -> bool:
        """Whether the end of the transaction may publish the file."""
        return not super().closed

    def write(self, data: ReadableBuffer, /) -> int:
        if self._is_complete:
            raise self._ending.closed_error("I/O operation on a closed file, which its transaction will publish")
        return super().write(data)

    def _dealloc_warn(self, source: Any) -> None:
        # A wrapper may go before the transaction ends: it has closed the file.
        if not self._is_complete:
            super()._dealloc_warn(source)

    def _end(self, error: Ended = None, *, is_whole: bool = False) -> None:
        if not self.closed and self._ending.is_to_publish(error, is_whole=is_whole):
            self._is_complete = True

    def check_complete(self) -> None:
        """Raises :class:`ValueError` if the file is still open."""
        if not self.closed:
            raise ValueError(f"{self.name}: the file is still open at the end of its transaction, and was discarded")

    def commit(self) -> None:
        """Publishes the file, if it was closed and not discarded. Not while an exception is handled that was not handled
        when the file was opened: the file is discarded then."""
        try:
            self.check_complete()
        except ValueError:
            self.drop()
            raise
        if self._is_complete:
            self._is_complete = False
            WrittenFile._end(self)

    def publish_complete(self) -> None:
        """Publishes the file, if it was closed and not discarded. Its transaction has found that no exception has stopped
        it."""
        if self._is_complete:
            self._is_complete = False
            WrittenFile._end(self, is_whole=True)

    def drop(self, how: str | None = None) -> None:
        """Discards the file without waiting, unless it was published. ``how`` is that of a warning."""
        self._is_complete = False
        self._ending.drop_of_transaction(how)


class AsyncWrittenFile(AsyncWriter):
    """Writes one object of a file system; see :class:`tidegate.aio.Writer`."""

    def __init__(
        self, fs: ListedFileSystem, path: str, native: _native.Writer, progress: ProgressCallback | None = None
    ) -> None:
        super().__init__(native, progress)
        self._fs, self._path = fs, path

    async def _end(self, error: Ended = None, *, is_whole: bool = False) -> None:
        was_closed = self.closed
        try:
            await super()._end(error, is_whole=is_whole)
        finally:
            if not was_closed:
                self._fs.forget(self._path)


class _Compressor(Protocol):
    def write(self, data: Any, /) -> int | None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class CompressedFile(io.BufferedIOBase):
    """Compresses what is written into a file, and closes the file with itself: that publishes it."""

    def __init__(self, file: Writer, compressor: _Compressor) -> None:
        self._file = file
        self._compressor = compressor
        self.name = file.name
        self.mode = "wb"

    @property
    def closed(self) -> bool:
        return self._file.closed

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        taken = self._compressor.write(data)
        return memoryview(data).nbytes if taken is None else taken

    def flush(self) -> None:
        """Does nothing: nothing is visible before the file is closed."""

    def close(self) -> None:
        """Publishes the file, unless that would publish a torn one; see :class:`tidegate.Writer`."""
        if not self.closed:
            self._compress_all()
            self._file.close()

    def publish(self) -> None:
        """Publishes the file, also while an exception is being handled; see :meth:`tidegate.Writer.publish`."""
        if not self.closed:
            self._compress_all()
            self._file.publish()

    def _compress_all(self) -> None:
        try:
            self._compressor.close()
        except BaseException as error:
            self._file._end(error)
            raise

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        # On the stack, the arguments decide whether closing publishes.
        super().__exit__(kind, error, traceback)

    def discard(self) -> None:
        """Publishes nothing."""
        self._file.discard()

    def detach(self) -> NoReturn:
        raise io.UnsupportedOperation("detach")

    def _dealloc_warn(self, source: Any) -> None:
        """Called by Python's wrappers when they are garbage-collected, before they close."""
        self._file._dealloc_warn(source)

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file._dealloc_warn(self)


def _with_own_files(compress: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compress)
    def made(file: Any, *args: Any, **options: Any) -> Any:
        compressor = compress(file, *args, **options)
        return CompressedFile(file, compressor) if isinstance(file, Writer) else compressor

    return made


def close_with_compressors() -> None:
    """Has fsspec's compressors close the files of this package with themselves. fsspec leaves a compressed file to the
    garbage collector, which publishes nothing here."""
    for name, compress in list(compr.items()):
        if name is not None:
            register_compression(name, _with_own_files(compress), (), force=True)
