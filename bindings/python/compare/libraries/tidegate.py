"""Tidegate in its default settings, with its default budget of 256 MiB."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tidegate
import tidegate.aio

from ..at_once import Item, by_tasks
from ..library import Library, Place, Range


class Tidegate(Library):
    settings = {
        "upload": "`Store.upload`; its limiter decides on parts and requests",
        "download": "`Store.download`; its limiter decides on ranges and requests",
        "create": "`Store.writer`, defaults",
        "create_one_of_many": "`Store.writer`, defaults: all under one budget of 256 MiB",
        "put_many": "asyncio, `tidegate.aio.Store.put`",
        "reader": "`Store.reader(random=True)`, `seek` and `read`",
        "batch_reader": "`Store.get_ranges`",
    }
    puts_at_once = 32

    def __init__(self, place: Place, in_flight: int | None) -> None:
        self._url = f"s3://{place.bucket}"
        self._options: Any = {
            "endpoint_url": place.url,
            "region": place.region,
            "access_key": place.access_key,
            "secret_key": place.secret_key,
        }
        self._store = tidegate.Store(self._url, **self._options)

    def upload(self, path: Path, key: str) -> None:
        self._store.upload(path, key)

    def download(self, key: str, path: Path) -> None:
        self._store.download(key, path)

    def create(self, key: str) -> tidegate.Writer:
        return self._store.writer(key)

    def create_one_of_many(self, key: str) -> tidegate.Writer:
        return self.create(key)

    def put_many(self, objects: Iterator[Item], at_once: int) -> None:
        store = tidegate.aio.Store(self._url, **self._options)
        asyncio.run(by_tasks(objects, at_once, store.put))

    def reader(self, key: str) -> Callable[[int, int], bytes]:
        file = self._store.reader(key, random=True)

        def read(start: int, end: int) -> bytes:
            file.seek(start)
            return file.read(end - start)

        return read

    def batch_reader(self, key: str) -> Callable[[Sequence[Range]], list[bytes]]:
        return lambda ranges: self._store.get_ranges(key, ranges)
