"""What the file system does that pyarrow's own cases do not ask: its promises, errors, and pickles."""

import gc
import pickle
import subprocess
import sys
import threading

import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet
import pytest
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, SubTreeFileSystem, copy_files

import tidegate.arrow
from between import without_copies
from harness.command import clean_env

from .conftest import SOURCES, reached

TABLE = pyarrow.table({"number": list(range(5000)), "word": ["tide"] * 5000, "day": [1, 2] * 2500})


class Trouble(Exception):
    pass


def test_tables_and_datasets(files):
    pyarrow.parquet.write_table(TABLE, "t/a.parquet", filesystem=files)
    assert pyarrow.parquet.read_table("t/a.parquet", filesystem=files).equals(TABLE)
    assert pyarrow.dataset.dataset("t", filesystem=files).to_table().equals(TABLE)
    pyarrow.parquet.write_to_dataset(TABLE, "d", partition_cols=["day"], filesystem=files)
    read = pyarrow.dataset.dataset("d", filesystem=files, partitioning="hive").to_table()
    assert read.sort_by("number")["number"].equals(TABLE["number"])


def test_files_are_copied_from_and_to_another_file_system(files, tmp_path):
    for name in ("a", "back"):
        (tmp_path / name).mkdir()
    (tmp_path / "a/b").write_bytes(b"tide" * 100_000)
    local = LocalFileSystem()
    copy_files(str(tmp_path / "a"), "copied", source_filesystem=local, destination_filesystem=files)
    copy_files("copied", str(tmp_path / "back"), source_filesystem=files, destination_filesystem=local)
    assert (tmp_path / "back/b").read_bytes() == b"tide" * 100_000


def test_a_directory_that_is_made_leaves_the_bytes_of_its_key(bucket, files):
    bucket.put("docs/", b"the page")
    files.create_dir("docs")
    pyarrow.parquet.write_to_dataset(TABLE, "docs", filesystem=files)
    files.delete_dir_contents("docs")
    assert bucket.keys() == ["docs/"] and bucket.get("docs/") == b"the page"


def test_it_is_shown_and_equal_and_pickled_also_below_a_directory(bucket, files, files_on):
    assert repr(files).startswith(f"tidegate.arrow.FileSystem('s3://{bucket.name}'")
    assert bucket.endpoint.secret_key not in repr(files).replace(bucket.endpoint.access_key, "")
    assert files == files_on(bucket)
    assert files != files_on(bucket, "a")
    assert files != files_on(bucket, storage_class="STANDARD_IA")
    for each in (files, SubTreeFileSystem("a/b", files), SubTreeFileSystem("c", SubTreeFileSystem("a", files))):
        again = pickle.loads(pickle.dumps(each))
        assert again == each
        assert "tidegate" in repr(again) or f"s3://{bucket.name}/" in repr(again)
    assert isinstance(pickle.loads(pickle.dumps(files)), tidegate.arrow.FileSystem)


def test_no_more_file_systems_are_known_than_can_be(files, bucket, files_on, monkeypatch):
    monkeypatch.setattr(tidegate.arrow, "_MOST_KNOWN", 2)
    monkeypatch.setattr(tidegate.arrow, "_known", {})
    each = [files_on(bucket, cache_control=f"max-age={number}") for number in range(3)]
    each[1] = files_on(bucket, cache_control="max-age=1")
    assert len(tidegate.arrow._known) == 2
    below = SubTreeFileSystem("a", each[1])
    assert pickle.loads(pickle.dumps(below)) == below
    assert pickle.loads(pickle.dumps(each[0])) == each[0]


def test_a_pickle_of_another_process_works(bucket, files):
    pyarrow.parquet.write_table(TABLE, "a.parquet", filesystem=files)
    code = "import pickle, sys, pyarrow.parquet\n"
    code += "files = pickle.load(sys.stdin.buffer)\n"
    code += "print(type(files).__name__, pyarrow.parquet.read_table('a.parquet', filesystem=files).num_rows)\n"
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(files),
        env=clean_env({"PYTHONPATH": str(SOURCES)}),
        capture_output=True,
        timeout=60,
    )
    assert run.stdout == b"FileSystem 5000\n", run


@pytest.mark.parametrize("size", [0, 1, 1000, 300_000, 9 << 20])
def test_every_way_to_read_gives_the_same_bytes(files, make_file, size):
    content = make_file(size)[0].read_bytes() if size else b""
    with files.open_output_stream("a") as stream:
        stream.write(content)
    with files.open_input_file("a") as file:
        assert file.size() == size
        assert file.read_at(size, 0) == content
        assert file.read_at(100, size // 2) == content[size // 2 :][:100]
        assert file.read() == content
        assert file.read_at(10, size) == b""
        with pytest.raises(OSError, match="past the"):
            file.read_at(1, size + 1)
    with files.open_input_stream("a") as file:
        assert file.read(size // 3) + file.read() == content


def test_many_threads_read_one_file(files, make_file):
    content = make_file(9 << 20)[0].read_bytes()
    with files.open_output_stream("a") as stream:
        stream.write(content)
    wrong = []
    with files.open_input_file("a") as file:

        def read(first):
            for at in range(first, len(content) - 200_000, 1_700_000):
                if file.read_at(200_000, at) != content[at : at + 200_000]:
                    wrong.append(at)

        threads = [threading.Thread(target=read, args=(number * 12_345,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_buffers_of_arrow_and_of_python_are_written_whole(files):
    number = pyarrow.array(range(1_000_000))
    arrow = pyarrow.record_batch({"a": number, "b": pyarrow.compute.add(number, 1)})
    python = pyarrow.py_buffer(bytes(range(256)) * 4096)
    with files.open_output_stream("a") as sink, pyarrow.ipc.new_file(sink, arrow.schema) as writer:
        writer.write_batch(arrow)
        writer.write_batch(arrow.slice(1000, 500_000))
    with files.open_output_stream("b", buffer_size=1) as sink:
        sink.write(python)
        sink.write(python.slice(1000))
    with files.open_input_file("a") as source:
        read = pyarrow.ipc.open_file(source)
        assert read.get_batch(0).equals(arrow)
        assert read.get_batch(1).equals(arrow.slice(1000, 500_000))
    with files.open_input_stream("b") as source:
        assert source.read() == python.to_pybytes() + python.to_pybytes()[1000:]


@pytest.mark.parametrize("size", [100_000, 600_000], ids=["read whole", "in ranges"])
def test_a_file_that_is_replaced_is_never_mixed(files, size):
    with files.open_output_stream("b") as stream:
        stream.write(bytes(size))
    with files.open_input_file("b") as file:
        if size > 256 << 10:
            assert file.read_at(10, 0) == bytes(10)
        with files.open_output_stream("b") as stream:
            stream.write(b"1" * size)
        with pytest.raises(OSError, match=r"s3://.*/b: .*replaced"):
            file.read_at(10, size // 2)


def test_errors_name_the_url_and_why(bucket, files):
    url = f"s3://{bucket.name}"
    with pytest.raises(FileNotFoundError, match=f"{url}/missing"):
        files.open_input_file("missing")
    with pytest.raises(FileNotFoundError, match=f"{url}/missing"):
        files.open_input_stream("missing")
    with pytest.raises(FileNotFoundError, match=f"{url}/missing"):
        files.delete_file("missing")
    with pytest.raises(FileNotFoundError, match=f"{url}/missing"):
        files.move("missing", "b")
    files.create_dir("directory")
    with pytest.raises(IsADirectoryError, match=f"{url}/directory"):
        files.delete_file("directory")
    with pytest.raises(IsADirectoryError, match=f"cannot be moved, .*{url}/directory"):
        files.move("directory", "b")
    with pytest.raises(IsADirectoryError, match=f"{url}/a"):
        files.open_output_stream("a/")
    with pytest.raises(NotImplementedError, match=f"cannot be appended to, .*{url}/a"):
        files.open_append_stream("a")
    with files.open_output_stream("a"):
        pass
    with pytest.raises(NotADirectoryError, match=f"{url}/a"):
        files.delete_dir("a")
    with pytest.raises(NotADirectoryError, match=f"{url}/a"):
        files.get_file_info(FileSelector("a"))
    with pytest.raises(NotImplementedError, match="ACL"):
        files.open_output_stream("a", metadata={"ACL": "public-read"})
    with pytest.raises(pyarrow.ArrowInvalid, match=f"is a URI, .*{url}"):
        files.get_file_info("s3://bucket/key")


def test_wrong_settings_give_one_clear_error():
    with pytest.raises(TypeError, match="regio"):
        tidegate.arrow.filesystem("s3://bucket", regio="a")
    with pytest.raises(TypeError, match="'replaces' is of one file"):
        tidegate.arrow.filesystem("s3://bucket", replaces=None)
    with pytest.raises(pyarrow.ArrowInvalid, match="`nope` is not a URL"):
        tidegate.arrow.filesystem("s3://bucket", endpoint_url="nope")
    with pytest.raises(pyarrow.ArrowInvalid, match="unknown scheme `s4`"):
        tidegate.arrow.filesystem("s4://bucket")
    for uri, why in {
        "tidegates3:///a": "names no bucket",
        "tidegates3://user:secret@bucket/a": "has a user or a port",
        "tidegates3://bucket/a?regio=b": "no option `regio`",
        "tidegateopened://7": "for tidegate.arrow only",
    }.items():
        with pytest.raises(pyarrow.ArrowInvalid, match=why) as raised:
            FileSystem.from_uri(uri)
        assert "secret" not in str(raised.value)


def test_no_setting_is_cut_at_a_nul_or_told():
    for url, options in {"memory://a\0b": {}, "memory://a": {"metadata": {"secret\0": "b"}}}.items():
        with pytest.raises(ValueError, match="NUL") as raised:
            tidegate.arrow.filesystem(url, **options)
        assert "secret" not in str(raised.value)
    with pytest.raises(pyarrow.ArrowInvalid, match="UTF-8"):
        tidegate.arrow.filesystem("memory://a", cache_control="\udcff")


def test_settings_of_writes_in_a_uri_arrive(bucket, files):
    reach = {**reached(bucket.endpoint), "write.cache_control": "no-store", "write.metadata": "team%3Dtides"}
    query = "&".join(f"{name}={value}" for name, value in reach.items())
    by_uri, _ = FileSystem.from_uri(f"tidegates3://{bucket.name}/?{query}")
    with by_uri.open_output_stream("a") as stream:
        stream.write(b"tide")
    head = bucket.head("a")
    assert (head["CacheControl"], head["Metadata"]["team"]) == ("no-store", "tides")


def test_a_copy_has_the_settings_of_writes_and_a_move_that_would_change_them_is_refused(embedded_bucket, files_on):
    embedded_bucket.put("a", b"tide")
    files = files_on(embedded_bucket, storage_class="STANDARD_IA")
    with pytest.raises(NotImplementedError, match=f"cannot change the storage_class.*{embedded_bucket.name}/a"):
        files.move("a", "b")
    assert embedded_bucket.keys() == ["a"]
    files.copy_file("a", "b")
    assert embedded_bucket.head("b")["StorageClass"] == "STANDARD_IA"
    files = files_on(embedded_bucket, create_only=True)
    for end in (files.move, files.copy_file):
        with pytest.raises(FileExistsError, match=f"{embedded_bucket.name}/b"):
            end("a", "b")
    files.move("a", "c")
    assert embedded_bucket.keys() == ["b", "c"]


def test_a_store_without_copies_refuses_copies_and_moves(embedded_bucket, files_on):
    embedded_bucket.put("a", b"tide")
    with without_copies(embedded_bucket.endpoint.url) as (proxy, refused):
        files = files_on(embedded_bucket.by(proxy))
        for end in (files.copy_file, files.move):
            with pytest.raises(NotImplementedError, match=f"{embedded_bucket.name}/"):
                end("a", "b")
    # The engine asks once.
    assert len(refused) == 1
    assert embedded_bucket.keys() == ["a"]


def test_a_directory_of_more_objects_than_one_call_removes(embedded, embedded_bucket, files_on):
    keys = [f"a/{number}" for number in range(10_001)]
    embedded.control("POST", "objects", {"bucket": embedded_bucket.name, "keys": [*keys, "b/c"]})
    files_on(embedded_bucket).delete_dir("a")
    assert embedded_bucket.keys() == ["b/c"]


def test_a_uri_reaches_the_bucket(bucket, files):
    pyarrow.parquet.write_table(TABLE, "t/a.parquet", filesystem=files)
    query = "&".join(f"{name}={value}" for name, value in reached(bucket.endpoint).items())
    uri = f"tidegates3://{bucket.name}/t/a.parquet?{query}"
    found, path = FileSystem.from_uri(uri)
    assert path == "t/a.parquet"
    assert SubTreeFileSystem("", found) == files
    assert pyarrow.parquet.read_table(uri).equals(TABLE)
    assert pyarrow.dataset.dataset(uri).to_table().equals(TABLE)


def test_directories_stay_as_in_the_file_system_of_s3(files):
    with files.open_output_stream("a/b/c/file") as stream:
        stream.write(b"x")
    assert files.get_file_info("a/b").type == FileType.Directory
    files.delete_file("a/b/c/file")
    assert files.get_file_info("a/b/c").type == FileType.Directory
    files.delete_dir("a/b/c")
    assert [info.path for info in files.get_file_info(FileSelector("", recursive=True))] == ["a", "a/b"]
    with pytest.raises(FileNotFoundError, match="a/x"):
        files.create_dir("a/x/y", recursive=False)
    files.create_dir("a/x/y")
    assert files.get_file_info("a/x").type == FileType.Directory


def test_a_missing_bucket_has_nothing(bucket, files_on):
    missing = tidegate.arrow.filesystem("s3://missing-bucket-of-nobody", **reached(bucket.endpoint))
    assert [info.type for info in missing.get_file_info(["a", "a/", ""])] == [FileType.NotFound] * 3
    assert missing.get_file_info(FileSelector("", allow_not_found=True, recursive=True)) == []
    with pytest.raises(FileNotFoundError):
        missing.get_file_info(FileSelector("", recursive=True))


@pytest.mark.filterwarnings("ignore:.* was not published:UserWarning")
def test_what_is_not_closed_or_has_failed_is_not_published(files, files_on, bucket):
    stream = files.open_output_stream("dropped")
    stream.write(b"x" * 100_000)
    del stream
    sized = files_on(bucket, exact_size=10)
    stream = sized.open_output_stream("failed")
    with pytest.raises(OSError, match="failed"):
        stream.write(b"x" * 1_000_000)
        stream.flush()
    with pytest.raises(OSError, match="failed"):
        stream.close()
    gc.collect()
    assert bucket.keys() == []


def test_a_child_of_a_fork_opens_its_own(program):
    run = program("""
import os, warnings, pyarrow.parquet, pyarrow, tidegate.arrow
warnings.simplefilter("ignore", DeprecationWarning)
files = tidegate.arrow.filesystem(os.environ["BUCKET"])
pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), "a", filesystem=files)
parents = files.open_output_stream("parents")
parents.write(b"x" * 100_000)
child = os.fork()
if child == 0:
    code = 1
    try:
        with files.open_output_stream("child") as stream:
            stream.write(b"child")
        assert files.open_input_file("a").size() > 0
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(child, 0)[1] == 0
parents.close()
print([info.path for info in files.get_file_info(pyarrow.fs.FileSelector(""))])
""")
    assert run.stdout == "['a', 'child', 'parents']\n", run


def test_a_child_of_a_fork_that_reads_a_file_of_its_parent_is_told(program):
    run = program("""
import os, threading, warnings, tidegate.arrow
warnings.simplefilter("ignore", DeprecationWarning)
files = tidegate.arrow.filesystem(os.environ["BUCKET"])
with files.open_output_stream("a") as stream:
    stream.write(b"tide")
file = files.open_input_file("a")
ends = threading.Event()
def read():
    # Its locks are taken while the process forks.
    while not ends.is_set():
        assert file.read_at(4, 0) == b"tide"
        assert files.get_file_info("a").size == 4
threads = [threading.Thread(target=read) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                file.read_at(4, 0)
            except OSError as error:
                assert "opened by another process" in str(error), error
                file.close()
                assert files.get_file_info("a").size == 4
                code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
ends.set()
for thread in threads:
    thread.join()
print("done")
""")
    assert run.stdout == "done\n", run
