"""Files for random access, as pyarrow reads them.

Arrow has one read of a file of Python at a time, also where it asks for many ranges at once: each waits for the one
before. So a file of Parquet, of which some columns are read, would be read chunk after chunk. Here, once the same columns
of a second row group are asked for, those of further row groups are fetched ahead, in parallel.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ._reader import Reader

if TYPE_CHECKING:
    from ._native import Object
    from ._store import Store

#: How many bytes Arrow reads at the end of a file of Parquet first: mostly all of its footer.
_FOOTER = 64 << 10
#: A longer footer is not parsed a second time.
_LONGEST_FOOTER = 1 << 20
#: A file of more column chunks is not read ahead, because to know them all takes too long.
_MOST_CHUNKS = 20_000
#: How many bytes are fetched ahead at first; twice as many after each time that all of them were read.
_FIRST_AHEAD = 8 << 20
#: The most bytes that one file has fetched ahead. What is never read, because row groups are left out, ends it at that.
_MOST_AHEAD = 32 << 20
#: How many threads read for Arrow, unless it is told otherwise.
_THREADS = 8
#: Ranges with no more between them are one, as Arrow has it.
_HOLE = 8 << 10


class InputFile:
    """A file for random access. Whoever opens it has read its beginning, so nothing reads that a second time."""

    closed = False

    def __init__(self, store: Store, key: str, described: Object, beginning: bytes) -> None:
        self._reader = Reader(store, key, if_unchanged=described)
        self._beginning = memoryview(beginning)
        self._position = 0
        self._ahead = _Ahead(store, key, self._reader) if beginning[:4] == b"PAR1" else None

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        match whence:
            case os.SEEK_CUR:
                offset += self._position
            case os.SEEK_END:
                offset += self._reader.size
        if offset < 0:
            raise ValueError(f"there is no byte before the first: position {offset}")
        self._position = offset
        return offset

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1, /) -> bytes | memoryview:
        start = self._position
        until = self._reader.size if size < 0 else min(start + size, self._reader.size)
        data: bytes | memoryview | None = None
        if until <= len(self._beginning):
            data = self._beginning[start:until]
        elif self._ahead is not None:
            data = self._ahead.read(start, until)
        if data is None:
            self._reader.seek(start)
            data = self._reader.read(max(until - start, 0))
        self._position = start + len(data)
        return data

    def close(self) -> None:
        self.closed = True
        self._ahead = None
        self._reader.close()


class _Chunk(NamedTuple):
    """The bytes of one column in one row group."""

    start: int
    until: int
    column: int


class _Ahead:
    """What is fetched ahead of the reads of one file of Parquet."""

    def __init__(self, store: Store, key: str, reader: Reader) -> None:
        self._store, self._key = store, key
        self._reader = reader
        #: The chunks of each row group in the order of the file. `None` before they were looked up.
        self._groups: list[list[_Chunk]] | None = None
        self._starts: list[int] = []
        self._footer = b""
        #: The columns of each row group that were read or fetched.
        self._columns: dict[int, set[int]] = {}
        #: The columns that were asked for, each with the first row group.
        self._asked: dict[int, int] = {}
        #: What was fetched and not read, by its place.
        self._fetched: dict[int, memoryview] = {}
        self._most = _FIRST_AHEAD

    def read(self, start: int, until: int) -> bytes | memoryview | None:
        """The bytes of a read, if the file itself is not to read them."""
        size = self._reader.size
        if until == size:
            # The footer, which says where the chunks are.
            self._footer = self._read(start, until)
            return self._footer
        if self._groups is None:
            self._groups = self._looked_up()
            self._starts = [group[0].start for group in self._groups]
        if (fetched := self._taken(start, until)) is not None:
            return fetched
        group = bisect_right(self._starts, start) - 1
        if group < 0:
            return None
        columns = {chunk.column for chunk in self._groups[group] if start <= chunk.start and chunk.until <= until}
        self._columns.setdefault(group, set()).update(columns)
        for column in columns:
            self._asked.setdefault(column, group)
        # The columns that another row group was asked for.
        repeated = {column for column, first in self._asked.items() if first != group}
        if not columns or not columns <= repeated:
            return None
        ahead = self._next(group, repeated)
        if not ahead:
            return None
        wanted, *others = self._store.get_ranges(self._key, [(start, until), *ahead], if_unchanged=self._reader.object)
        for (place, _), content in zip(ahead, others, strict=True):
            self._fetched[place] = memoryview(content)
        return wanted

    def _read(self, start: int, until: int) -> bytes:
        self._reader.seek(start)
        return self._reader.read(until - start)

    def _taken(self, start: int, until: int) -> memoryview | None:
        for place, content in self._fetched.items():
            if place <= start and until <= place + len(content):
                if until == place + len(content):
                    del self._fetched[place]
                    if not self._fetched:
                        self._most = min(2 * self._most, _MOST_AHEAD)
                return content[start - place : until - place]
        return None

    def _next(self, group: int, columns: set[int]) -> list[tuple[int, int]]:
        """What is to be fetched now: these columns of this row group and of further ones, as far as they were not."""
        groups = self._groups or []
        left = self._most - sum(map(len, self._fetched.values()))
        ranges: list[tuple[int, int]] = []
        # Threads of Arrow pass each other: some ask for row groups before this one yet.
        first = max(min(self._asked.values()), group - _THREADS)
        for number in range(first, len(groups)):
            known = self._columns.setdefault(number, set())
            wanted = [chunk for chunk in groups[number] if chunk.column in columns - known]
            left -= sum(chunk.until - chunk.start for chunk in wanted)
            if left < 0:
                break
            known |= columns
            ranges += _joined(wanted)
        return ranges

    def _looked_up(self) -> list[list[_Chunk]]:
        """The chunks of each row group; none if they cannot be known at little cost."""
        import pyarrow
        from pyarrow import parquet

        size = self._reader.size
        footer = self._footer or self._read(max(size - _FOOTER, 0), size)
        length = int.from_bytes(footer[-8:-4], "little") + 8
        if footer[-4:] != b"PAR1" or length > min(size, _LONGEST_FOOTER):
            return []
        if length > len(footer):
            footer = self._read(size - length, size)
        try:
            described = parquet.read_metadata(pyarrow.BufferReader(footer))
        except (OSError, pyarrow.ArrowException):
            # Whoever reads it as a file of Parquet is told so by pyarrow.
            return []
        if described.num_row_groups * described.num_columns > _MOST_CHUNKS:
            return []
        groups = []
        for number in range(described.num_row_groups):
            group = described.row_group(number)
            chunks = [_chunk(group.column(column), column) for column in range(group.num_columns)]
            if chunks:
                groups.append(sorted(chunks))
        return sorted(groups)


def _chunk(described: Any, column: int) -> _Chunk:
    start, dictionary = described.data_page_offset, described.dictionary_page_offset
    if dictionary is not None and 0 < dictionary < start:
        start = dictionary
    return _Chunk(start, start + described.total_compressed_size, column)


def _joined(chunks: Iterable[_Chunk]) -> list[tuple[int, int]]:
    """The ranges of chunks that are in order; those that lie close together are one."""
    ranges: list[tuple[int, int]] = []
    for chunk in chunks:
        if ranges and chunk.start - ranges[-1][1] <= _HOLE:
            ranges[-1] = (ranges[-1][0], chunk.until)
        else:
            ranges.append((chunk.start, chunk.until))
    return ranges
