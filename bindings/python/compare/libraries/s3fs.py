"""s3fs: asyncio where its documentation has it, its blocking face for files and transfers."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import s3fs

from ..at_once import Item, by_tasks
from ..library import Library, Place, Range

#: Connections of its client, whose default of 10 would leave most of a hundred tasks waiting.
CONNECTIONS = 100
#: The smallest part that S3 allows.
SMALLEST = 5 << 20


class S3fs(Library):
    settings = {
        "upload": "`put_file`, defaults: chunks of 50 MiB, 10 at once",
        "download": "`get_file`, defaults: ranges of 50 MiB, 10 at once",
        "create": "`open(…, 'wb')`, defaults: blocks of 50 MiB",
        "create_one_of_many": "`open(…, 'wb')`, blocks of 5 MiB, the smallest",
        "put_many": "asyncio, `_pipe_file` (`asynchronous=True`), 100 connections",
        "reader": "`open(…, 'rb', cache_type='none')`, as for random access",
        "batch_reader": "`cat_ranges`, 100 connections",
    }
    puts_at_once = 32

    def __init__(self, place: Place, in_flight: int | None) -> None:
        self._bucket = place.bucket
        self._options: dict[str, Any] = {
            "key": place.access_key,
            "secret": place.secret_key,
            "endpoint_url": place.url,
            "client_kwargs": {"region_name": place.region},
            "config_kwargs": {"max_pool_connections": CONNECTIONS},
            "skip_instance_cache": True,
        }
        self._files = s3fs.S3FileSystem(**self._options)
        self._files.connect()

    def _path(self, key: str) -> str:
        return f"{self._bucket}/{key}"

    def upload(self, path: Path, key: str) -> None:
        self._files.put_file(str(path), self._path(key))

    def download(self, key: str, path: Path) -> None:
        self._files.get_file(self._path(key), str(path))

    def create(self, key: str) -> Any:
        return self._files.open(self._path(key), "wb")

    def create_one_of_many(self, key: str) -> Any:
        return self._files.open(self._path(key), "wb", block_size=SMALLEST)

    def put_many(self, objects: Iterator[Item], at_once: int) -> None:
        async def work() -> None:
            files = s3fs.S3FileSystem(asynchronous=True, **self._options)
            session = await files.set_session()
            await by_tasks(objects, at_once, lambda key, data: files._pipe_file(self._path(key), data))
            await session.close()

        asyncio.run(work())

    def reader(self, key: str) -> Callable[[int, int], Any]:
        file = self._files.open(self._path(key), "rb", cache_type="none")

        def read(start: int, end: int) -> Any:
            file.seek(start)
            return file.read(end - start)

        return read

    def batch_reader(self, key: str) -> Callable[[Sequence[Range]], Sequence[Any]]:
        def read(ranges: Sequence[Range]) -> Any:
            starts, ends = zip(*ranges, strict=True)
            return self._files.cat_ranges([self._path(key)] * len(ranges), starts, ends, on_error="raise")

        return read
