"""The jobs that are measured. Preparing and checking are done by the program that starts the measured processes; the checks
read the files in which versitygw keeps its objects, so that no library vouches for itself."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, ClassVar

from .at_once import Item
from .clock import Clock
from .content import PIECE, block, content
from .library import Library, Place, Range

GIB = 1 << 30
#: The directory of the bucket that the measured processes write to.
OUT = "out"
#: The key of the object that they read.
SOURCE = "in/source"
#: How many ranges a process asks for together, and checks together.
BATCH = 100


class Wrong(Exception):
    """The bytes are not those that were to be written or read."""


class Job(ABC):
    """One job, at a scale: 1 is the size that its title names."""

    title: ClassVar[str]
    #: The methods of `Library` that the job uses.
    uses: ClassVar[str]
    #: Whether the bucket has the object `SOURCE`.
    reads: ClassVar[bool] = False
    #: How many requests are in flight, where the job decides that.
    in_flight: ClassVar[int | None] = None

    def __init__(self, scale: float) -> None:
        #: Size of a large object in bytes.
        self.size = max(1, round(GIB * scale / PIECE)) * PIECE
        self._scale = scale

    def count(self, full: int) -> int:
        return max(1, round(full * self._scale))

    @abstractmethod
    def run(self, library: Library, place: Place, clock: Clock) -> None:
        """In the measured process: does the job, by the clock."""

    @abstractmethod
    def check(self, bucket: Path, scratch: Path) -> None:
        """Raises `Wrong` unless all bytes are there. `bucket` is the server's directory."""


class Upload(Job):
    title = "1 GiB, file to object"
    uses = "upload"

    def run(self, library: Library, place: Place, clock: Clock) -> None:
        with clock.running():
            library.upload(place.scratch / "source", f"{OUT}/object")

    def check(self, bucket: Path, scratch: Path) -> None:
        check_names(bucket / OUT, ["object"])
        check_large(bucket / OUT / "object", self.size)


class Download(Job):
    title = "1 GiB, object to file"
    uses = "download"
    reads = True

    def run(self, library: Library, place: Place, clock: Clock) -> None:
        with clock.running():
            library.download(SOURCE, place.scratch / OUT / "file")

    def check(self, bucket: Path, scratch: Path) -> None:
        check_names(scratch / OUT, ["file"])
        check_large(scratch / OUT / "file", self.size)


class Write(Job):
    title = "1 GiB in writes of 64 KiB"
    uses = "create"

    def run(self, library: Library, place: Place, clock: Clock) -> None:
        with clock.running():
            file = library.create(f"{OUT}/object")
            for number in range(self.size // PIECE):
                file.write(block(number, PIECE))
            file.close()

    def check(self, bucket: Path, scratch: Path) -> None:
        check_names(bucket / OUT, ["object"])
        check_large(bucket / OUT / "object", self.size)


class Put(Job):
    """Many objects of one size."""

    full_count: ClassVar[int]
    object_size: ClassVar[int]
    uses = "put_many"

    def objects(self) -> Iterator[Item]:
        # Not a generator, which two threads cannot use; and each object is made when it is taken.
        return map(lambda number: (f"{OUT}/{number:05}", block(number, self.object_size)), range(self.how_many))

    @property
    def how_many(self) -> int:
        return self.count(self.full_count)

    def run(self, library: Library, place: Place, clock: Clock) -> None:
        with clock.running():
            library.put_many(self.objects(), self.in_flight or library.puts_at_once)

    def check(self, bucket: Path, scratch: Path) -> None:
        check_names(bucket / OUT, [key.removeprefix(f"{OUT}/") for key, _ in self.objects()])
        for key, data in self.objects():
            if (bucket / key).read_bytes() != data:
                raise Wrong(f"{key} has other bytes than were put")


class PutMegabytes(Put):
    title = "1,000 × 1 MiB put"
    full_count = 1000
    object_size = 1 << 20


class PutSmall(Put):
    title = "10,000 × 4 KiB put, a hundred in flight"
    full_count = 10_000
    object_size = 4096
    in_flight = 100


class Parquet(Job):
    """Files that are all open before any has its first byte, and still open when all have their last."""

    title = "200 parquet files of 16 MiB at once"
    uses = "create_one_of_many"
    #: Row groups of a file, and their rows of 8 bytes.
    groups = 8
    rows = 2 << 17

    def schema(self, number: int) -> Any:
        """The schema of one file, whose metadata has the file's number."""
        import pyarrow

        return pyarrow.schema([("value", pyarrow.int64())], metadata={"file": str(number)})

    def values(self) -> Any:
        """The column of every row group."""
        import numpy

        return numpy.random.default_rng(33).integers(1 << 62, size=self.rows)

    def run(self, library: Library, place: Place, clock: Clock) -> None:
        import pyarrow.parquet

        count = self.count(200)
        column = pyarrow.array(self.values())
        barrier = Barrier(count)
        failures: list[BaseException] = []

        def write(number: int) -> None:
            try:
                table = pyarrow.table([column], schema=self.schema(number))
                file = library.create_one_of_many(f"{OUT}/{number:05}")
                barrier.wait()
                with pyarrow.parquet.ParquetWriter(
                    file, table.schema, compression="none", use_dictionary=False
                ) as writer:
                    for _ in range(self.groups):
                        writer.write_table(table)
                file.close()
            except BaseException as error:
                barrier.abort()
                failures.append(error)

        with clock.running():
            threads = [Thread(target=write, args=(number,)) for number in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if failures:
            raise failures[0]

    def check(self, bucket: Path, scratch: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        count = self.count(200)
        check_names(bucket / OUT, [f"{number:05}" for number in range(count)])
        expected = pyarrow.chunked_array([self.values()] * self.groups)
        for number in range(count):
            read = pyarrow.parquet.ParquetFile(bucket / OUT / f"{number:05}").read()
            if read.schema.metadata[b"file"] != str(number).encode() or not read.column(0).equals(expected):
                raise Wrong(f"the parquet file {number} has other rows than were written")


class Read(Job):
    """Ranges at random places of one object. The clock stands while a batch is checked."""

    reads = True

    def batches(self) -> Iterator[list[Range]]:
        dice = random.Random(33)
        count, length = self.count(20_000), min(PIECE, self.size)
        starts = [dice.randrange(self.size - length + 1) for _ in range(count)]
        for at in range(0, count, BATCH):
            yield [(start, start + length) for start in starts[at : at + BATCH]]

    @abstractmethod
    def batch_reader(self, library: Library) -> Callable[[list[Range]], Sequence[Any]]: ...

    def run(self, library: Library, place: Place, clock: Clock) -> None:
        with clock.running():
            read = self.batch_reader(library)
        for ranges in self.batches():
            with clock.running():
                found = read(ranges)
            for (start, end), data in zip(ranges, found, strict=True):
                if bytes(data) != content(start, end):
                    raise Wrong(f"the bytes from {start} until before {end} are not the object's")

    def check(self, bucket: Path, scratch: Path) -> None:
        """The bytes were checked when they were read."""


class ReadOneByOne(Read):
    title = "20,000 random reads of 64 KiB, one after the other"
    uses = "reader"

    def batch_reader(self, library: Library) -> Callable[[list[Range]], list[Any]]:
        read = library.reader(SOURCE)
        return lambda ranges: [read(*each) for each in ranges]


class ReadBatches(Read):
    title = "20,000 random reads of 64 KiB, a hundred known together"
    uses = "batch_reader"

    def batch_reader(self, library: Library) -> Callable[[list[Range]], Sequence[Any]]:
        return library.batch_reader(SOURCE)


JOBS: dict[str, type[Job]] = {
    "upload": Upload,
    "download": Download,
    "write": Write,
    "put-1m": PutMegabytes,
    "put-4k": PutSmall,
    "parquet": Parquet,
    "read": ReadOneByOne,
    "read-batches": ReadBatches,
}


def check_names(folder: Path, expected: Iterable[str]) -> None:
    """The directory has these files and no others."""
    found, wanted = {path.name for path in folder.iterdir()}, set(expected)
    if found != wanted:
        raise Wrong(f"{len(wanted - found)} objects are missing, {len(found - wanted)} are too many")


def check_large(path: Path, size: int) -> None:
    """The file has the content of a large object of this size."""
    if path.stat().st_size != size:
        raise Wrong(f"{path.name} has {path.stat().st_size} bytes instead of {size}")
    with path.open("rb") as file:
        for number in range(size // PIECE):
            if file.read(PIECE) != block(number, PIECE):
                raise Wrong(f"{path.name} has other bytes than it should in the 64 KiB from {number * PIECE} on")


def write_large(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for number in range(size // PIECE):
            file.write(block(number, PIECE))
