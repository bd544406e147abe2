"""pyarrow's S3FileSystem, of Arrow's C++ library."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import fs

from ..at_once import Item, by_threads
from ..library import Library, Place, Range

#: Arrow's default number of threads for I/O.
THREADS = 8
#: Pieces of a transfer, each a request of its own when they are read.
PIECE = 16 << 20


class Pyarrow(Library):
    settings = {
        "upload": "`copy_files`, `chunk_size` of 16 MiB; parts of 10 MiB in the background, which cannot be set",
        "download": "`copy_files`, `chunk_size` of 16 MiB",
        "create": "`open_output_stream`; parts of 10 MiB in the background, which cannot be set",
        "create_one_of_many": "the same",
        "put_many": "threads, `open_output_stream`, `allow_delayed_open` (one request an object), as many I/O threads",
        "reader": "`open_input_file`, `read_at`",
        "batch_reader": "`open_input_file`, `read_at` in 8 threads, Arrow's default",
    }
    puts_at_once = THREADS

    def __init__(self, place: Place, in_flight: int | None) -> None:
        pyarrow.set_io_thread_count(in_flight or THREADS)
        self._bucket = place.bucket
        self._files = fs.S3FileSystem(
            access_key=place.access_key,
            secret_key=place.secret_key,
            region=place.region,
            scheme="http",
            endpoint_override=place.host,
            allow_delayed_open=True,
        )
        self._local = fs.LocalFileSystem()
        self._threads = ThreadPoolExecutor(THREADS)

    def _path(self, key: str) -> str:
        return f"{self._bucket}/{key}"

    def upload(self, path: Path, key: str) -> None:
        fs.copy_files(
            str(path),
            self._path(key),
            source_filesystem=self._local,
            destination_filesystem=self._files,
            chunk_size=PIECE,
        )

    def download(self, key: str, path: Path) -> None:
        fs.copy_files(
            self._path(key),
            str(path),
            source_filesystem=self._files,
            destination_filesystem=self._local,
            chunk_size=PIECE,
        )

    def create(self, key: str) -> Any:
        return self._files.open_output_stream(self._path(key))

    def create_one_of_many(self, key: str) -> Any:
        return self.create(key)

    def put_many(self, objects: Iterator[Item], at_once: int) -> None:
        def put(key: str, data: bytes) -> None:
            with self._files.open_output_stream(self._path(key)) as file:
                file.write(data)

        by_threads(objects, at_once, put)

    def reader(self, key: str) -> Callable[[int, int], Any]:
        file = self._files.open_input_file(self._path(key))
        return lambda start, end: file.read_at(end - start, start)

    def batch_reader(self, key: str) -> Callable[[Sequence[Range]], list[Any]]:
        read = self.reader(key)
        return lambda ranges: list(self._threads.map(lambda each: read(*each), ranges))
