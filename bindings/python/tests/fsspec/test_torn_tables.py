"""Tables that pandas and pyarrow cannot write to their end: nothing is published, and what was there stays."""

import pandas as pd
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest


class Stop(Exception):
    pass


class Torn:
    """A value that cannot be written."""

    def __str__(self):
        raise Stop

    __repr__ = __str__

    def __reduce__(self):
        raise Stop


class Readings:
    """A source of batches that fails after the second."""

    schema = pyarrow.schema([("metres", pyarrow.float64())])

    def batches(self):
        for _ in range(2):
            yield pyarrow.record_batch([pyarrow.array([1.5] * 100_000)], schema=self.schema)
        raise Stop


def table():
    return pd.DataFrame({"metres": [1.5] * 50_000 + [Torn()]}, dtype=object)


def to_parquet_writer(fs, path):
    with fs.open(path, "wb") as file:
        with pyarrow.parquet.ParquetWriter(file, Readings.schema) as writer:
            for batch in Readings().batches():
                writer.write_batch(batch)


WRITES = {
    "csv": lambda fs, url: table().to_csv(url, storage_options=fs.storage_options),
    "csv.gz": lambda fs, url: table().to_csv(url, storage_options=fs.storage_options),
    "csv.bz2": lambda fs, url: table().to_csv(url, storage_options=fs.storage_options),
    "csv.zip": lambda fs, url: table().to_csv(url, storage_options=fs.storage_options),
    "pickle": lambda fs, url: table().to_pickle(url, storage_options=fs.storage_options),
    "pickle.gz": lambda fs, url: table().to_pickle(url, storage_options=fs.storage_options),
    "parquet": lambda fs, url: to_parquet_writer(fs, url),
}


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("there", [False, True], ids=["new", "replaced"])
def test_a_table_that_fails_is_not_published(on_minio, kind, there):
    fs = on_minio.fs()
    path = f"{on_minio.folder()}/table.{kind}"
    if there:
        fs.pipe_file(path, b"before")
    with pytest.raises(Stop):
        WRITES[kind](fs, fs.unstrip_protocol(path))
    fs.invalidate_cache()
    assert fs.exists(path) == there
    if there:
        assert fs.cat(path) == b"before"
