"""What people write files through. Each wrapper takes a binary file and writes some of its content; what it returns is
to be closed, in that order, before the file. Readers say what a file that was closed well contains."""

import bz2
import csv
import gzip
import io
import json
import lzma
import pickle
import tarfile
import zipfile

import numpy
import pandas
import pyarrow
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

TABLE = pyarrow.table({"number": list(range(1000)), "word": ["tide"] * 1000})
FRAME = pandas.DataFrame({"number": range(1000), "word": ["tide"] * 1000})


def plain(file):
    file.write(b"tide" * 1000)
    return []


def large(file):
    """More than a part: there is a session at the store."""
    for _ in range(40):
        file.write(bytes(1 << 20))
    return []


def buffered(file):
    buffer = io.BufferedWriter(file, 1000)
    buffer.write(b"tide" * 1000)
    return [buffer]


def text(file):
    wrapper = io.TextIOWrapper(file, encoding="utf-8")
    wrapper.write("tide\n" * 1000)
    return [wrapper]


def text_over_buffer(file):
    wrapper = io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8")
    wrapper.write("tide\n" * 1000)
    return [wrapper]


def csv_writer(file):
    wrapper = io.TextIOWrapper(file, encoding="utf-8", newline="")
    csv.writer(wrapper).writerows([[1, "tide"]] * 1000)
    return [wrapper]


def json_dump(file):
    wrapper = io.TextIOWrapper(file, encoding="utf-8")
    json.dump(list(range(1000)), wrapper)
    return [wrapper]


def pickle_dump(file):
    pickle.dump(list(range(1000)), file)
    return []


def gzip_file(file):
    wrapper = gzip.GzipFile(fileobj=file, mode="wb")
    wrapper.write(b"tide" * 1000)
    return [wrapper]


def gzip_text(file):
    wrapper = gzip.open(file, "wt", encoding="utf-8")
    wrapper.write("tide\n" * 1000)
    return [wrapper]


def bz2_file(file):
    wrapper = bz2.BZ2File(file, "wb")
    wrapper.write(b"tide" * 1000)
    return [wrapper]


def lzma_file(file):
    wrapper = lzma.LZMAFile(file, "wb")
    wrapper.write(b"tide" * 1000)
    return [wrapper]


def zip_file(file):
    wrapper = zipfile.ZipFile(file, "w")
    wrapper.writestr("a", b"tide" * 1000)
    return [wrapper]


def zip_entry(file):
    wrapper = zipfile.ZipFile(file, "w")
    entry = wrapper.open("a", "w")
    entry.write(b"tide" * 1000)
    return [entry, wrapper]


def tar_stream(file):
    wrapper = tarfile.open(fileobj=file, mode="w|")
    entry = tarfile.TarInfo("a")
    entry.size = 4000
    wrapper.addfile(entry, io.BytesIO(b"tide" * 1000))
    return [wrapper]


def numpy_save(file):
    numpy.save(file, numpy.arange(1000))
    return []


def numpy_savez(file):
    numpy.savez(file, a=numpy.arange(1000), b=numpy.arange(10))
    return []


def pandas_csv(file):
    FRAME.to_csv(file)
    return []


def pandas_json(file):
    FRAME.to_json(file, orient="records", lines=True)
    return []


def pandas_parquet(file):
    FRAME.to_parquet(file)
    return []


def pandas_pickle(file):
    FRAME.to_pickle(file)
    return []


def pandas_gzip(file):
    FRAME.to_csv(file, compression="gzip")
    return []


def parquet_writer(file):
    writer = pyarrow.parquet.ParquetWriter(file, TABLE.schema)
    writer.write_table(TABLE)
    return [writer]


def parquet_over_python_file(file):
    sink = pyarrow.PythonFile(file, mode="w")
    writer = pyarrow.parquet.ParquetWriter(sink, TABLE.schema)
    writer.write_table(TABLE)
    return [writer, sink]


def arrow_compressed(file):
    sink = pyarrow.CompressedOutputStream(pyarrow.PythonFile(file, mode="w"), "gzip")
    sink.write(b"tide" * 1000)
    return [sink]


def arrow_buffered(file):
    sink = pyarrow.BufferedOutputStream(pyarrow.PythonFile(file, mode="w"), 4096)
    sink.write(b"tide" * 1000)
    return [sink]


def arrow_ipc(file):
    writer = pyarrow.ipc.new_file(file, TABLE.schema)
    writer.write_table(TABLE)
    return [writer]


def arrow_csv(file):
    writer = pyarrow.csv.CSVWriter(file, TABLE.schema)
    writer.write_table(TABLE)
    return [writer]


WRAPPERS = {
    wrap.__name__: wrap
    for wrap in [
        plain,
        large,
        buffered,
        text,
        text_over_buffer,
        csv_writer,
        json_dump,
        pickle_dump,
        gzip_file,
        gzip_text,
        bz2_file,
        lzma_file,
        zip_file,
        zip_entry,
        tar_stream,
        numpy_save,
        numpy_savez,
        pandas_csv,
        pandas_json,
        pandas_parquet,
        pandas_pickle,
        pandas_gzip,
        parquet_writer,
        parquet_over_python_file,
        arrow_compressed,
        arrow_buffered,
        arrow_ipc,
        arrow_csv,
    ]
}


def torch_save(file):
    import torch

    torch.save({"a": torch.arange(1000)}, file)
    return []


try:
    import torch  # noqa: F401
except ImportError:
    pass
else:
    WRAPPERS["torch_save"] = torch_save
