"""What pyarrow's writers leave in a store when they are not closed well: nothing."""

import contextlib
import gc

import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet
import pytest
from pyarrow.fs import SubTreeFileSystem

import tidegate.pyarrow
from harness import ROOT
from harness.process import until

TABLE = pyarrow.table({"number": list(range(5000)), "word": ["tide"] * 5000})


class Trouble(Exception):
    pass


# Each function opens a writer with a `write_table`, and returns it with the streams to close after the writer.


def parquet(files):
    return pyarrow.parquet.ParquetWriter("a.parquet", TABLE.schema, filesystem=files), []


def parquet_stream(files):
    sink = files.open_output_stream("a.parquet")
    return pyarrow.parquet.ParquetWriter(sink, TABLE.schema), [sink]


def csv(files):
    sink = files.open_output_stream("a.csv")
    return pyarrow.csv.CSVWriter(sink, TABLE.schema), [sink]


def gzip_csv(files):
    sink = files.open_output_stream("a.csv.gz")
    return pyarrow.csv.CSVWriter(sink, TABLE.schema), [sink]


def buffered_csv(files):
    sink = files.open_output_stream("a.csv", buffer_size=100_000)
    return pyarrow.csv.CSVWriter(sink, TABLE.schema), [sink]


def buffered_zstd_csv(files):
    sink = files.open_output_stream("a.csv", compression="zstd", buffer_size=100_000)
    return pyarrow.csv.CSVWriter(sink, TABLE.schema), [sink]


def ipc_file(files):
    sink = files.open_output_stream("a.arrow")
    return pyarrow.ipc.new_file(sink, TABLE.schema), [sink]


def ipc_stream(files):
    sink = files.open_output_stream("a.arrows")
    return pyarrow.ipc.new_stream(sink, TABLE.schema), [sink]


WRITERS = [parquet, parquet_stream, csv, gzip_csv, buffered_csv, buffered_zstd_csv, ipc_file, ipc_stream]
every_writer = pytest.mark.parametrize("opened", WRITERS, ids=[opened.__name__ for opened in WRITERS])


@every_writer
def test_a_writer_that_is_closed_is_published(files, bucket, opened):
    writer, sinks = opened(files)
    writer.write_table(TABLE)
    assert bucket.keys() == []
    writer.close()
    for sink in sinks:
        sink.close()
    assert len(bucket.keys()) == 1


@every_writer
def test_an_exception_in_a_with_block_publishes_nothing(files, bucket, opened):
    with pytest.raises(Trouble), contextlib.ExitStack() as stack:
        writer, sinks = opened(files)
        for layer in (*reversed(sinks), writer):
            stack.enter_context(layer)
        writer.write_table(TABLE)
        raise Trouble
    assert bucket.keys() == []


@every_writer
def test_close_in_finally_publishes_nothing_after_an_exception(files, bucket, opened):
    with pytest.raises(Trouble):
        writer, sinks = opened(files)
        try:
            writer.write_table(TABLE)
            raise Trouble
        finally:
            writer.close()
            for sink in sinks:
                sink.close()
    assert bucket.keys() == []


@every_writer
def test_a_writer_that_is_dropped_publishes_nothing(files, bucket, opened):
    def write():
        writer, sinks = opened(files)
        writer.write_table(TABLE)
        return len(sinks)

    write()
    gc.collect()
    assert bucket.keys() == []


# In a cycle the stream may go first. Then the writer's own finalizer says that the stream is closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@every_writer
def test_a_writer_that_is_dropped_in_a_cycle_publishes_nothing(files, bucket, opened):
    def write():
        cycle = [opened(files)]
        cycle[0][0].write_table(TABLE)
        cycle.append(cycle)

    write()
    gc.collect()
    assert bucket.keys() == []


@every_writer
def test_a_writer_that_is_dropped_by_an_exception_publishes_nothing(files, bucket, opened):
    def write():
        writer, sinks = opened(files)
        writer.write_table(TABLE)
        raise Trouble(len(sinks))

    with pytest.raises(Trouble):
        write()
    gc.collect()
    assert bucket.keys() == []


ENDS = {
    "no close": "pass",
    "sys.exit": "with first: sys.exit(3)",
    "exception": "with first: raise KeyError",
    "os._exit": "with first: os._exit(3)",
    "kill -9": "with first: os.kill(os.getpid(), 9)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_no_end_of_a_process_publishes(program, bucket, end):
    running = program(
        f"""
        import os, sys
        import tidegate.pyarrow
        sys.path[:0] = {[str(__file__).rsplit("/", 1)[0], str(ROOT / "tests")]!r}
        from test_torn_arrow import TABLE, WRITERS
        files = tidegate.pyarrow.filesystem(os.environ["BUCKET"], concurrency=2)
        kept = []
        for opened in WRITERS:
            kept.append(opened(tidegate.pyarrow.filesystem(files.handler.store.within(opened.__name__))))
            kept[-1][0].write_table(TABLE)
        # Enough for a session at the store.
        large = files.open_output_stream("large")
        large.write(bytes(40 << 20))
        first = kept[0][0]
        print(len(kept), flush=True)
        {end}
        """
    )
    code, out, errors = running.ended(60)
    assert (code == 0) == (end == "pass"), errors
    assert int(out) == len(WRITERS)
    assert bucket.keys() == []
    if "kill" not in end and "_exit" not in end:
        assert bucket.sessions("large") == []


# Where C++ closes the files.


def batches(fail_at, before=lambda: True):
    for number in range(20):
        if number == fail_at:
            until("what was written before is there", before)
            raise Trouble
        yield pyarrow.record_batch({"number": pyarrow.array([number] * 1000, pyarrow.int64())})


@pytest.mark.parametrize("format", ["parquet", "csv", "feather"])
def test_a_dataset_whose_source_fails_has_only_whole_files(files, store, format):
    schema = pyarrow.schema([("number", pyarrow.int64())])

    def written():
        return [entry.key for entry in store.list("t/") if not entry.key.endswith("/")]

    with pytest.raises(Trouble):
        pyarrow.dataset.write_dataset(
            batches(15, written), "t", schema=schema, filesystem=files, format=format, max_rows_per_file=2_000,
            max_rows_per_group=1_000,
        )  # fmt: skip
    gc.collect()
    keys = written()
    assert keys
    for key in keys:
        read = pyarrow.dataset.dataset(key, filesystem=files, format=format).to_table()
        assert read.num_rows == 2_000, key


def test_a_dataset_whose_source_fails_in_its_only_file_has_none(files, store):
    schema = pyarrow.schema([("number", pyarrow.int64())])
    with pytest.raises(Trouble):
        pyarrow.dataset.write_dataset(batches(15), "t", schema=schema, filesystem=files, format="parquet")
    gc.collect()
    assert [entry.key for entry in store.list() if not entry.key.endswith("/")] == []


def test_a_write_that_fails_is_raised_and_publishes_nothing(store, bucket):
    files = tidegate.pyarrow.filesystem(store, exact_size=10)
    with pytest.raises(OSError), files.open_output_stream("a") as file:
        file.write(b"more than ten bytes")
    with pytest.raises(OSError):
        pyarrow.parquet.write_table(TABLE, "b", filesystem=files)
    gc.collect()
    assert bucket.keys() == []


def test_below_a_directory_the_same_holds_but_for_compressed_streams_that_are_dropped(files, bucket):
    below = SubTreeFileSystem("a", files)
    with pytest.raises(Trouble), below.open_output_stream("b.csv.gz") as file:
        file.write(b"tide")
        raise Trouble
    writer = pyarrow.parquet.ParquetWriter("c.parquet", TABLE.schema, filesystem=below)
    writer.write_table(TABLE)
    del writer
    gc.collect()
    assert bucket.keys() == []
