"""What each library does for the jobs, in the way that its documentation recommends."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from .at_once import Item

#: The first byte, and the one after the last.
Range = tuple[int, int]


class Place(NamedTuple):
    """The bucket, and who may use it."""

    url: str
    region: str
    access_key: str
    secret_key: str
    bucket: str
    #: A directory for files of this run.
    scratch: Path

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    @classmethod
    def of_environment(cls) -> "Place":
        env = os.environ
        return cls(
            url=env["AWS_ENDPOINT_URL"],
            region=env["AWS_REGION"],
            access_key=env["AWS_ACCESS_KEY_ID"],
            secret_key=env["AWS_SECRET_ACCESS_KEY"],
            bucket=env["COMPARE_BUCKET"],
            scratch=Path(env["COMPARE_SCRATCH"]),
        )


class Library(ABC):
    """One library, with what it keeps between calls (clients, connections)."""

    #: How the library is used, by the method that uses it so.
    settings: ClassVar[dict[str, str]]
    #: How many objects of 1 MiB it puts at once.
    puts_at_once: ClassVar[int]

    @abstractmethod
    def __init__(self, place: Place, in_flight: int | None) -> None:
        """`in_flight`: how many requests the job has in flight, where the job and not the library decides that."""

    @abstractmethod
    def upload(self, path: Path, key: str) -> None: ...

    @abstractmethod
    def download(self, key: str, path: Path) -> None: ...

    @abstractmethod
    def create(self, key: str) -> Any:
        """A binary file that is written; closing it publishes the object."""

    @abstractmethod
    def create_one_of_many(self, key: str) -> Any:
        """The same, where hundreds of files are open at once: with the smallest buffer that the library allows."""

    @abstractmethod
    def put_many(self, objects: Iterator[Item], at_once: int) -> None: ...

    @abstractmethod
    def reader(self, key: str) -> Callable[[int, int], Any]:
        """Reads ranges one after the other: a function of a range's first byte and the one after its last."""

    @abstractmethod
    def batch_reader(self, key: str) -> Callable[[Sequence[Range]], Sequence[Any]]:
        """Reads ranges that are known together: a function of the ranges."""
