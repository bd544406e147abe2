"""obstore: the crate object_store, for Python."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import obstore
from obstore.store import S3Store

from ..at_once import Item, by_tasks
from ..library import Library, Place, Range

#: The smallest part that S3 allows.
SMALLEST = 5 << 20


class File:
    """A file as pyarrow expects it. obstore's has a method `closed` where Python's files have a property, so that pyarrow
    believes it to be closed."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.write = file.write
        self.flush = file.flush

    @property
    def closed(self) -> bool:
        return bool(self._file.closed())

    def close(self) -> None:
        if not self.closed:
            self._file.close()


class Obstore(Library):
    settings = {
        "upload": "`put` of a path, defaults: parts of 5 MiB, 12 at once",
        "download": "`get(…).stream()` into the file, pieces of 10 MiB (the default): obstore has no parallel download",
        "create": "`open_writer`, defaults: buffers of 10 MiB, 12 at once",
        "create_one_of_many": "`open_writer`, buffers of 5 MiB, the smallest; its `closed`, a method, made a property",
        "put_many": "asyncio, `put_async`; here and above with `unsigned_payload`",
        "reader": "`get_range`",
        "batch_reader": "`get_ranges`, defaults: 10 at once",
    }
    puts_at_once = 32

    def __init__(self, place: Place, in_flight: int | None) -> None:
        self._store = S3Store(
            place.bucket,
            endpoint=place.url,
            region=place.region,
            access_key_id=place.access_key,
            secret_access_key=place.secret_key,
            client_options={"allow_http": True},
            # As Tidegate: otherwise it takes a SHA-256 of every body.
            unsigned_payload=True,
        )

    def upload(self, path: Path, key: str) -> None:
        obstore.put(self._store, key, path)

    def download(self, key: str, path: Path) -> None:
        with path.open("wb") as file:
            for piece in obstore.get(self._store, key).stream():
                file.write(piece)

    def create(self, key: str) -> Any:
        return obstore.open_writer(self._store, key)

    def create_one_of_many(self, key: str) -> Any:
        return File(obstore.open_writer(self._store, key, buffer_size=SMALLEST))

    def put_many(self, objects: Iterator[Item], at_once: int) -> None:
        asyncio.run(by_tasks(objects, at_once, lambda key, data: obstore.put_async(self._store, key, data)))

    def reader(self, key: str) -> Callable[[int, int], Any]:
        return lambda start, end: obstore.get_range(self._store, key, start=start, end=end)

    def batch_reader(self, key: str) -> Callable[[Sequence[Range]], Sequence[Any]]:
        def read(ranges: Sequence[Range]) -> Any:
            starts, ends = zip(*ranges, strict=True)
            return obstore.get_ranges(self._store, key, starts=starts, ends=ends)

        return read
