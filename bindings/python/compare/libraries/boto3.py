"""boto3, whose transfers are s3transfer's. It has no files: a file that is written is a temporary one."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from ..at_once import Item, by_threads
from ..library import Library, Place, Range

#: Threads of a transfer, and connections of a client: the defaults of both.
THREADS = 10


class TemporaryFile:
    """A temporary file, uploaded when it is closed."""

    def __init__(self, folder: Path, upload: Callable[[Path], None]) -> None:
        self._file = tempfile.NamedTemporaryFile(dir=folder)  # noqa: SIM115
        self._upload = upload
        self.write = self._file.write

    @property
    def closed(self) -> bool:
        return self._file.file.closed

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if self.closed:
            return
        self._file.flush()
        self._upload(Path(self._file.name))
        self._file.close()


class Boto3(Library):
    settings = {
        "upload": "`upload_file`, the default `TransferConfig`: parts of 8 MiB, 10 threads",
        "download": "`download_file`, the default `TransferConfig`",
        "create": "a temporary file on the same disk, then `upload_file`: boto3 has no files",
        "create_one_of_many": "the same",
        "put_many": "threads, `put_object`, `max_pool_connections` as many as threads",
        "reader": "`get_object(Range=…)`",
        "batch_reader": "`get_object(Range=…)` in 10 threads",
    }
    puts_at_once = THREADS

    def __init__(self, place: Place, in_flight: int | None) -> None:
        self._bucket, self._scratch = place.bucket, place.scratch
        self._client = boto3.client(
            "s3",
            endpoint_url=place.url,
            region_name=place.region,
            aws_access_key_id=place.access_key,
            aws_secret_access_key=place.secret_key,
            config=Config(s3={"addressing_style": "path"}, max_pool_connections=max(in_flight or 0, THREADS)),
        )
        self._transfer = TransferConfig()
        self._threads = ThreadPoolExecutor(THREADS)

    def upload(self, path: Path, key: str) -> None:
        self._client.upload_file(str(path), self._bucket, key, Config=self._transfer)

    def download(self, key: str, path: Path) -> None:
        self._client.download_file(self._bucket, key, str(path), Config=self._transfer)

    def create(self, key: str) -> TemporaryFile:
        return TemporaryFile(self._scratch, lambda path: self.upload(path, key))

    def create_one_of_many(self, key: str) -> TemporaryFile:
        return self.create(key)

    def put_many(self, objects: Iterator[Item], at_once: int) -> None:
        def put(key: str, data: bytes) -> None:
            self._client.put_object(Bucket=self._bucket, Key=key, Body=data)

        by_threads(objects, at_once, put)

    def reader(self, key: str) -> Callable[[int, int], Any]:
        def read(start: int, end: int) -> Any:
            answer = self._client.get_object(Bucket=self._bucket, Key=key, Range=f"bytes={start}-{end - 1}")
            return answer["Body"].read()

        return read

    def batch_reader(self, key: str) -> Callable[[Sequence[Range]], list[Any]]:
        read = self.reader(key)
        return lambda ranges: list(self._threads.map(lambda each: read(*each), ranges))
