"""Without a library for the Arrow that is there, the file system is that of tidegate.pyarrow, and that is said once."""

import subprocess

import pyarrow

import tidegate.arrow
import tidegate.pyarrow
from harness.s3 import Bucket

from .conftest import reached

WITHOUT = """
import os, pathlib, warnings
from tidegate import _arrow_library
_arrow_library._PLACE = pathlib.Path({place!r})
import tidegate.arrow, tidegate.pyarrow
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    files = [tidegate.arrow.filesystem(os.environ["BUCKET"], memory=64 << 20) for _ in range(3)]
assert all(type(each) is tidegate.pyarrow.FileSystem for each in files)
with files[0].open_output_stream("a") as stream:
    stream.write(b"tide")
print(len(told), told[0].filename == __file__, told[0].message)
"""


def test_another_arrow_gets_the_file_system_in_python(program, bucket, tmp_path):
    (tmp_path / "libtidegate_arrow_1400.so").touch()
    run = program(WITHOUT.format(place=str(tmp_path)))
    version = pyarrow.cpp_build_info.so_version
    assert run.stdout.startswith("1 True tidegate.arrow uses tidegate.pyarrow"), run
    assert f"no file system for Arrow {version}" in run.stdout
    assert "it has those of 1400" in run.stdout
    assert bucket.get("a") == b"tide"


def test_a_library_that_cannot_be_loaded_says_why(program, bucket, tmp_path):
    (tmp_path / f"libtidegate_arrow_{pyarrow.cpp_build_info.so_version}.so").write_text("no library")
    run = program(WITHOUT.format(place=str(tmp_path)))
    assert run.stdout.startswith("1 True tidegate.arrow uses tidegate.pyarrow"), run
    assert "cannot be loaded" in run.stdout


def test_another_c_library_on_the_path_is_not_taken(program, bucket, tmp_path):
    subprocess.run(["gcc", "-shared", "-x", "c", "/dev/null", "-o", tmp_path / "libtidegate.so.1"], check=True)
    text = (
        "import os, tidegate.arrow; print(tidegate.arrow.filesystem(os.environ['BUCKET']).get_file_info('a').type.name)"
    )
    run = program(text, LD_LIBRARY_PATH=str(tmp_path))
    assert (run.stdout, run.stderr, run.returncode) == ("NotFound\n", "", 0), run


def test_a_local_directory_has_the_file_system_in_python(tmp_path):
    for place in (tmp_path, str(tmp_path), f"file://{tmp_path}", tidegate.Store(tmp_path)):
        assert type(tidegate.arrow.filesystem(place)) is tidegate.pyarrow.FileSystem


def test_a_store_is_taken_with_its_options(embedded_bucket):
    bucket: Bucket = embedded_bucket
    store = tidegate.Store(f"s3://{bucket.name}", **reached(bucket.endpoint), memory=64 << 20).within("a")
    files = tidegate.arrow.filesystem(store, metadata={"team": "tides"}, tags={"a": "b"})
    with files.open_output_stream("b") as stream:
        stream.write(b"tide")
    assert files.url == f"s3://{bucket.name}/a"
    assert bucket.head("a/b")["Metadata"]["team"] == "tides"
    assert files.open_input_stream("b").metadata()["team"] == b"tides"
