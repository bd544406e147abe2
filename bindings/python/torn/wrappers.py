"""What people write files through. Each writes half of what a program would have written."""

import csv
import gzip
import io
import random
import zipfile
from collections.abc import Callable
from typing import NamedTuple

# 12 MiB that do not compress: more than the first part of every library.
CONTENT = random.Random(33).randbytes(12 << 20)


class Wrapper(NamedTuple):
    #: What is put around the file, and is closed before the file.
    around: Callable | None
    #: Writes through it, or to the file.
    write: Callable


def text():
    return CONTENT[: len(CONTENT) // 2].hex()


def rows():
    content = text()
    return [[number, content[number * 200 : number * 200 + 200]] for number in range(len(content) // 200)]


def write_frame(file):
    import pandas

    pandas.DataFrame(rows(), columns=["number", "word"]).to_csv(file)


def parquet_writer(file):
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(file, pyarrow.schema([("number", pyarrow.int64())]))


def write_table(writer):
    import pyarrow

    numbers = pyarrow.Array.from_buffers(pyarrow.int64(), len(CONTENT) // 8, [None, pyarrow.py_buffer(CONTENT)])
    writer.write_table(pyarrow.table({"number": numbers}))


def write_array(file):
    import numpy

    numpy.save(file, numpy.frombuffer(CONTENT, dtype=numpy.int64))


WRAPPERS = {
    "plain": Wrapper(None, lambda file: file.write(CONTENT)),
    "text": Wrapper(lambda file: io.TextIOWrapper(file, "utf-8"), lambda wrapper: wrapper.write(text())),
    "gzip": Wrapper(lambda file: gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1), lambda f: f.write(CONTENT)),
    "zipfile": Wrapper(lambda file: zipfile.ZipFile(file, "w"), lambda archive: archive.writestr("a", CONTENT)),
    "csv": Wrapper(
        lambda file: io.TextIOWrapper(file, "utf-8", newline=""), lambda wrapper: csv.writer(wrapper).writerows(rows())
    ),
    "pandas": Wrapper(None, write_frame),
    "ParquetWriter": Wrapper(parquet_writer, write_table),
    "numpy.save": Wrapper(None, write_array),
}
