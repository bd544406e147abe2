"""Columns, row groups and filters of Parquet files are read right."""

import random

import numpy
import pyarrow
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet
import pytest

import tidegate
import tidegate.pyarrow

GROUPS, ROWS, COLUMNS = 12, 5_000, 16


@pytest.fixture(scope="module")
def table():
    source = numpy.random.default_rng(3)
    columns = {f"c{number}": source.random(GROUPS * ROWS) for number in range(COLUMNS)}
    columns["id"] = numpy.arange(GROUPS * ROWS)
    columns["word"] = [f"word {number % 50}" for number in range(GROUPS * ROWS)]
    columns["list"] = [[number, number + 1] for number in range(GROUPS * ROWS)]
    columns["struct"] = [{"a": number, "b": str(number)} for number in range(GROUPS * ROWS)]
    return pyarrow.table(columns)


@pytest.fixture
def written(files, table):
    pyarrow.parquet.write_table(table, "t/a.parquet", filesystem=files, row_group_size=ROWS)
    return pyarrow.dataset.dataset("t", filesystem=files)


@pytest.mark.parametrize("seed", range(3))
def test_any_columns_and_row_groups_are_read_right(files, written, table, seed):
    source = random.Random(seed)
    with files.open_input_file("t/a.parquet") as file:
        read = pyarrow.parquet.ParquetFile(file, pre_buffer=source.random() < 0.5)
        for _ in range(6):
            names = source.sample(table.column_names, source.randrange(1, 6))
            groups = sorted(source.sample(range(GROUPS), source.randrange(1, GROUPS)))
            found = read.read_row_groups(groups, columns=names)
            wanted = pyarrow.concat_tables([table.slice(number * ROWS, ROWS) for number in groups])
            assert found.equals(wanted.select(found.column_names))


def test_filters_leave_row_groups_out(written, table):
    wanted = pc.field("id") >= (GROUPS - 2) * ROWS
    assert written.to_table(columns=["c3", "id"], filter=wanted).num_rows == 2 * ROWS
    odd = pc.is_in(pc.field("id"), pyarrow.array([ROWS * number + 7 for number in range(0, GROUPS, 3)]))
    assert written.to_table(columns=["word", "struct", "list"], filter=odd).num_rows == 4
    assert written.to_table().equals(table)


def test_a_file_that_only_looks_like_parquet_is_read_as_it_is(files, store):
    content = b"PAR1" + random.Random(1).randbytes(1 << 20)
    for end in (b"PAR1", b"", b"\xff\xff\xff\xffPAR1", b"\x10\0\0\0PAR1"):
        store.put("a", content + end)
        with files.open_input_file("a") as file:
            for start in (400_000, 600_000, 300_000, len(content) - 10):
                assert file.read_at(1000, start) == (content + end)[start : start + 1000]


def test_a_file_that_is_replaced_is_never_mixed(files, written, store, table):
    with files.open_input_file("t/a.parquet") as file:
        read = pyarrow.parquet.ParquetFile(file)
        read.read_row_group(0, columns=["c1"])
        pyarrow.parquet.write_table(table.slice(0, 2 * ROWS), "t/a.parquet", filesystem=files, row_group_size=ROWS)
        with pytest.raises(tidegate.ReplacedError):
            read.read_row_groups(range(1, GROUPS), columns=["c1", "c5"])
