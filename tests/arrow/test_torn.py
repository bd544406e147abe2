"""Nothing torn is published. The tests of the file system in Python, unchanged, with ours: the rule is the same."""

import gc
import sys
import warnings

import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyarrow.fs import FileSelector, FileSystem, FileType, SubTreeFileSystem

from harness import ROOT
from tidegate import _arrow_rule

from .conftest import SOURCES, reached

sys.path.append(str(ROOT / "bindings/python/tests/arrow"))
from test_torn_arrow import (  # noqa: E402, F401
    ENDS,
    TABLE,
    WRITERS,
    Trouble,
    batches,
    test_a_writer_that_is_closed_is_published,
    test_a_writer_that_is_dropped_by_an_exception_publishes_nothing,
    test_a_writer_that_is_dropped_in_a_cycle_publishes_nothing,
    test_a_writer_that_is_dropped_publishes_nothing,
    test_an_exception_in_a_with_block_publishes_nothing,
    test_below_a_directory_the_same_holds_but_for_compressed_streams_that_are_dropped,
    test_close_in_finally_publishes_nothing_after_an_exception,
)

pytestmark = pytest.mark.filterwarnings("ignore:.* was not published:UserWarning")


def written(files, path):
    return [info.path for info in files.get_file_info(FileSelector(path, True, True)) if info.is_file]


@pytest.mark.parametrize("any_bucket", ["embedded"], indirect=True)
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_no_end_of_a_process_publishes(program, bucket, end):
    run = program(f"""
import os, sys
import tidegate.arrow
from pyarrow.fs import FileSystem
sys.path[:0] = {[str(ROOT / "bindings/python/tests/arrow"), str(ROOT / "tests")]!r}
from test_torn_arrow import TABLE, WRITERS
kept = []
for opened in WRITERS:
    kept.append(opened(tidegate.arrow.filesystem(os.environ["BUCKET"] + "/" + opened.__name__)))
    kept[-1][0].write_table(TABLE)
# Enough for a session at the store.
large = tidegate.arrow.filesystem(os.environ["BUCKET"]).open_output_stream("large")
large.write(bytes(20 << 20))
first = kept[0][0]
print(len(kept), flush=True)
{end}
""")
    assert (run.returncode == 0) == (end == "pass"), run
    assert int(run.stdout) == len(WRITERS), run
    assert "terminate" not in run.stderr, run
    assert bucket.keys() == []
    if "kill" not in end and "_exit" not in end:
        assert bucket.sessions("large") == []


@pytest.mark.parametrize("format", ["parquet", "csv", "feather"])
def test_a_dataset_whose_source_fails_has_only_whole_files(files, format):
    schema = pyarrow.schema([("number", pyarrow.int64())])
    with pytest.raises(Trouble):
        pyarrow.dataset.write_dataset(
            batches(15, lambda: written(files, "t")), "t", schema=schema, filesystem=files, format=format,
            max_rows_per_file=2_000, max_rows_per_group=1_000,
        )  # fmt: skip
    gc.collect()
    paths = written(files, "t")
    assert paths
    for path in paths:
        assert pyarrow.dataset.dataset(path, filesystem=files, format=format).to_table().num_rows == 2_000, path


def test_a_dataset_whose_source_fails_in_its_only_file_has_none(files):
    schema = pyarrow.schema([("number", pyarrow.int64())])
    with pytest.raises(Trouble):
        pyarrow.dataset.write_dataset(batches(15), "t", schema=schema, filesystem=files, format="parquet")
    gc.collect()
    assert written(files, "") == []


def test_the_same_rule_holds_by_uri_and_below_a_directory(bucket, files):
    query = "&".join(f"{name}={value}" for name, value in reached(bucket.endpoint).items())
    by_uri, _ = FileSystem.from_uri(f"tidegates3://{bucket.name}/?{query}")
    for each in (by_uri, SubTreeFileSystem("a", files)):
        with pytest.raises(Trouble), each.open_output_stream("b") as stream:
            stream.write(b"tide")
            raise Trouble
        with pytest.raises(Trouble), pyarrow.parquet.ParquetWriter("c", TABLE.schema, filesystem=each) as writer:
            writer.write_table(TABLE)
            raise Trouble
        with pytest.raises(Trouble):
            stream = each.open_output_stream("d")
            try:
                stream.write(b"tide")
                raise Trouble
            finally:
                stream.close()
        try:
            raise Trouble
        except Trouble:
            # It was in flight before.
            with each.open_output_stream("e") as stream:
                stream.write(b"tide")
        assert each.get_file_info("e").type == FileType.File
        each.delete_file("e")
    assert written(files, "") == []


def test_a_stream_is_told_of(files, caplog):
    with pytest.raises(Trouble), files.open_output_stream("a") as stream:
        stream.write(b"tide")
        raise Trouble
    assert "a was not published: Trouble has ended its `with` block" in caplog.text
    stream = SubTreeFileSystem("b", files).open_output_stream("c")
    del stream
    # It is noticed when the next one is opened.
    with files.open_output_stream("d"):
        pass
    assert "b/c was not published: it was not closed" in caplog.text


class NoRoom(Exception):
    pass


@pytest.fixture
def reported(monkeypatch):
    """The exceptions that had nobody to go to."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: found.append(about.exc_type))
    return found


def fails(*_):
    raise NoRoom


@pytest.mark.parametrize("wrapped", [False, True], ids=["ours", "of pyarrow"])
def test_a_stream_that_python_cannot_note_is_not_opened(files, monkeypatch, reported, wrapped):
    each = SubTreeFileSystem("a", files) if wrapped else files
    monkeypatch.setattr(_arrow_rule, "Ending", fails)
    # Nothing but the rule keeps the first bytes from being published by the end of the block.
    with pytest.raises(OSError, match="Python has failed to note"), each.open_output_stream("b") as stream:
        stream.write(b"tide")
        raise Trouble
    monkeypatch.undo()
    assert written(files, "") == []
    with each.open_output_stream("b") as stream:
        stream.write(b"tide")
    assert written(files, "") == ["a/b" if wrapped else "b"]


def test_an_exception_of_the_question_itself_publishes_nothing(files, monkeypatch, reported):
    stream = files.open_output_stream("a")
    stream.write(b"tide")
    # As Ctrl-C that comes before the call is guarded.
    monkeypatch.setattr(_arrow_rule, "_ends_well", fails)
    with pytest.raises(OSError, match="a was not published: Python has failed"):
        stream.close()
    monkeypatch.undo()
    assert reported == [NoRoom]
    assert written(files, "") == []


def test_a_close_fails_if_python_cannot_say_whether_the_file_is_whole(files, monkeypatch, reported):
    stream = files.open_output_stream("a")
    stream.write(b"tide")
    monkeypatch.setattr(_arrow_rule.Ending, "drop_if_stopped", fails)
    with pytest.raises(OSError, match="a was not published: Python has failed"):
        stream.close()
    assert reported == [NoRoom]
    assert written(files, "") == []


def test_streams_that_nobody_has_closed_do_not_end_the_close_of_another(files, caplog):
    stream = files.open_output_stream("a")
    stream.write(b"tide")
    below = SubTreeFileSystem("b", files)
    for name in ("c", "d"):
        dropped = below.open_output_stream(name)
        del dropped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.close()
    assert written(files, "") == ["a"]
    assert "b/c was not published" in caplog.text
    assert "b/d was not published" in caplog.text


def test_a_child_of_a_fork_leaves_the_streams_of_its_parent_alone(program, bucket):
    run = program("""
import os, tidegate.arrow
files = tidegate.arrow.filesystem(os.environ["BUCKET"])
stream = files.open_output_stream("a")
stream.write(b"tide")
child = os.fork()
if child == 0:
    del stream
    raise SystemExit(0)
assert os.waitpid(child, 0)[1] == 0
stream.close()
""")
    assert run.returncode == 0, run
    assert bucket.get("a") == b"tide"


def test_the_sources_are_ours():
    import tidegate.arrow

    assert tidegate.arrow.__file__.startswith(str(SOURCES))
