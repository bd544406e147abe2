"""smart_open: file objects on boto3."""

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import smart_open
from botocore.config import Config

from ..at_once import Item, by_threads
from ..library import Library, Place, Range

#: Threads, and connections of the client: boto3's default.
THREADS = 10
#: The smallest part that S3 allows.
SMALLEST = 5 << 20
#: What a copy between files moves at a time.
PIECE = 1 << 20
#: What one of the reads asks for.
READ = 64 << 10


class SmartOpen(Library):
    settings = {
        "upload": "`shutil.copyfileobj` into `open(…, 'wb')`, parts of 50 MiB (the default), one at a time",
        "download": "`shutil.copyfileobj` from `open(…, 'rb')`, a buffer of 1 MiB",
        "create": "`open(…, 'wb')`, defaults: parts of 50 MiB, one at a time",
        "create_one_of_many": "`open(…, 'wb')`, parts of 5 MiB, the smallest",
        "put_many": "threads, `open(…, 'wb')` with `multipart_upload=False`, as many connections",
        "reader": "`open(…, 'rb')`, `defer_seek`, `buffer_size` and `range_chunk_size` of 64 KiB",
        "batch_reader": "the same in 10 threads, each with a file of its own",
    }
    puts_at_once = THREADS

    def __init__(self, place: Place, in_flight: int | None) -> None:
        self._bucket = place.bucket
        # One client for all, as its documentation says for threads.
        self._client = boto3.client(
            "s3",
            endpoint_url=place.url,
            region_name=place.region,
            aws_access_key_id=place.access_key,
            aws_secret_access_key=place.secret_key,
            config=Config(s3={"addressing_style": "path"}, max_pool_connections=max(in_flight or 0, THREADS)),
        )
        self._threads = ThreadPoolExecutor(THREADS)
        self._of_thread = threading.local()

    def _open(self, key: str, mode: str, **settings: Any) -> Any:
        return smart_open.open(
            f"s3://{self._bucket}/{key}",
            mode,
            compression="disable",
            transport_params={"client": self._client, **settings},
        )

    def upload(self, path: Path, key: str) -> None:
        with path.open("rb") as source, self._open(key, "wb") as target:
            shutil.copyfileobj(source, target, PIECE)

    def download(self, key: str, path: Path) -> None:
        with self._open(key, "rb", buffer_size=PIECE) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, PIECE)

    def create(self, key: str) -> Any:
        return self._open(key, "wb")

    def create_one_of_many(self, key: str) -> Any:
        return self._open(key, "wb", min_part_size=SMALLEST)

    def put_many(self, objects: Iterator[Item], at_once: int) -> None:
        def put(key: str, data: bytes) -> None:
            with self._open(key, "wb", multipart_upload=False) as file:
                file.write(data)

        by_threads(objects, at_once, put)

    def reader(self, key: str) -> Callable[[int, int], Any]:
        file = self._open(key, "rb", defer_seek=True, buffer_size=READ, range_chunk_size=READ)

        def read(start: int, end: int) -> Any:
            file.seek(start)
            return file.read(end - start)

        return read

    def batch_reader(self, key: str) -> Callable[[Sequence[Range]], list[Any]]:
        def read(each: Range) -> Any:
            if not hasattr(self._of_thread, "read"):
                self._of_thread.read = self.reader(key)
            return self._of_thread.read(*each)

        return lambda ranges: list(self._threads.map(read, ranges))
