"""The filesystem for pyarrow: what pyarrow's own cases do not ask."""

import multiprocessing
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
from pyarrow.fs import FileSelector, FileType

import tidegate
import tidegate.pyarrow
from between import without_copies
from reach import reached
from tidegate._arrow_file import InputFile


def table(rows, first=0):
    return pyarrow.table(
        {
            "number": pyarrow.array(range(first, first + rows), pyarrow.int64()),
            "part": [f"part-{number % 3}" for number in range(rows)],
            "word": [f"tide {number}" for number in range(first, first + rows)],
        }
    )


def paths(files, base="", **options):
    return [info.path for info in files.get_file_info(FileSelector(base, recursive=True, **options)) if info.is_file]


# How it is opened.


def test_a_url_and_a_store_open_the_same(store):
    options = {name: value for name, value in store.__getstate__()["options"]}
    by_url = tidegate.pyarrow.filesystem(store.url, **options)
    assert by_url == tidegate.pyarrow.filesystem(store)
    assert by_url != tidegate.pyarrow.filesystem(store.within("a"))
    assert by_url != tidegate.pyarrow.filesystem(store, storage_class="STANDARD_IA")
    assert by_url.type_name == "py::tidegate"
    assert by_url.handler.store == store


def test_options_of_a_store_and_a_store_are_refused(store):
    with pytest.raises(TypeError, match="'region' belongs to a store"):
        tidegate.pyarrow.filesystem(store, region="eu-west-1")


def test_a_name_that_is_no_option_is_refused(store):
    for given in ({"endpoint_override": "http://127.0.0.1:9"}, {"storage_clas": "STANDARD"}):
        with pytest.raises(TypeError, match=f"'{next(iter(given))}'"):
            tidegate.pyarrow.filesystem("s3://bucket", **given)
        with pytest.raises(TypeError, match=f"'{next(iter(given))}'"):
            tidegate.pyarrow.filesystem(store, **given)


def test_a_pickle_has_no_credentials_of_the_environment(monkeypatch, bucket):
    for name, value in bucket.env.items():
        monkeypatch.setenv(name, value)
    files = tidegate.pyarrow.filesystem(bucket.url().rstrip("/"))
    with files.open_output_stream("a") as file:
        file.write(b"tide")
    pickled = pickle.dumps(files)
    assert bucket.endpoint.secret_key.encode() not in pickled
    assert pickle.loads(pickled).get_file_info("a").size == 4


# Directories.


def test_a_directory_of_objects_needs_no_marker(files, store):
    store.put("a/b/c", b"1")
    assert [info.type for info in files.get_file_info(["a", "a/", "a/b", "a/b/c", "a/b/c/", "x"])] == [
        FileType.Directory,
        FileType.Directory,
        FileType.Directory,
        FileType.File,
        FileType.NotFound,
        FileType.NotFound,
    ]
    found = files.get_file_info(FileSelector("a", recursive=True))
    assert [(info.path, info.type, info.size) for info in found] == [
        ("a/b", FileType.Directory, None),
        ("a/b/c", FileType.File, 1),
    ]
    assert [info.path for info in files.get_file_info(FileSelector("", recursive=False))] == ["a"]


def test_creating_a_directory_writes_one_marker(files, store):
    files.create_dir("a/b/c")
    assert [(entry.key, entry.size) for entry in store.list()] == [("a/b/c/", 0)]
    assert store.head("a/b/c/").content_type == "application/x-directory"
    assert files.get_file_info("a/b").type == FileType.Directory
    with pytest.raises(FileNotFoundError):
        files.create_dir("x/y", recursive=False)
    files.create_dir("a/d", recursive=False)


def test_deleting_the_contents_keeps_the_directory(files, store):
    store.put("a/b/c", b"1")
    store.put("ab", b"1")
    files.delete_dir_contents("a")
    assert files.get_file_info("a").type == FileType.Directory
    assert paths(files) == ["ab"]
    files.delete_dir_contents("", accept_root_dir=True)
    assert list(store.list()) == []


def test_a_file_is_no_directory_and_a_directory_no_file(files, store):
    store.put("a/b", b"1")
    for call in (files.delete_dir, files.delete_dir_contents, lambda path: files.get_file_info(FileSelector(path))):
        with pytest.raises(NotADirectoryError):
            call("a/b")
    with pytest.raises(IsADirectoryError):
        files.delete_file("a")
    with pytest.raises(IsADirectoryError, match="a directory cannot be moved"):
        files.move("a", "c")
    for path in ("a/", "", "/"):
        with pytest.raises(IsADirectoryError):
            files.open_output_stream(path)
        with pytest.raises(IsADirectoryError):
            files.open_input_file(path)
    assert paths(files) == ["a/b"]


@pytest.mark.parametrize(
    "call",
    [
        lambda files: files.open_input_stream("x"),
        lambda files: files.open_input_file("x"),
        lambda files: files.delete_file("x"),
        lambda files: files.delete_dir("x"),
        lambda files: files.delete_dir_contents("x"),
        lambda files: files.copy_file("x", "y"),
        lambda files: files.move("x", "y"),
        lambda files: files.get_file_info(FileSelector("x")),
        lambda files: pyarrow.parquet.read_table("x", filesystem=files),
        lambda files: pyarrow.dataset.dataset("x", filesystem=files),
    ],
)
def test_what_is_not_there_is_a_file_not_found_error(files, call):
    with pytest.raises(FileNotFoundError):
        call(files)


def nowhere(store, tmp_path, where):
    if where == "disk":
        return tidegate.pyarrow.filesystem(tmp_path / "none")
    options = dict(store.__getstate__()["options"])
    return tidegate.pyarrow.filesystem("s3://no-such-bucket-of-anybody", **options)


@pytest.mark.parametrize("where", ["bucket", "disk"])
def test_in_a_bucket_or_directory_that_is_not_there_nothing_is_found(store, tmp_path, where):
    """As pyarrow's own filesystems say of theirs."""
    files = nowhere(store, tmp_path, where)
    for path in ("a", "a/b", "a/", ""):
        assert files.get_file_info(path).type == FileType.NotFound, path
    assert [info.type for info in files.get_file_info(["a", "b"])] == [FileType.NotFound] * 2
    for recursive in (False, True):
        for base in ("", "a"):
            assert files.get_file_info(FileSelector(base, recursive=recursive, allow_not_found=True)) == []
            with pytest.raises(FileNotFoundError):
                files.get_file_info(FileSelector(base, recursive=recursive))


def test_a_root_without_objects_is_a_directory(files, tmp_path):
    for empty in (files, tidegate.pyarrow.filesystem(tmp_path)):
        assert empty.get_file_info("").type == FileType.Directory
        assert empty.get_file_info(FileSelector("", recursive=True)) == []


def test_a_bucket_that_is_not_there_is_a_file_not_found_error(store, tmp_path):
    files = nowhere(store, tmp_path, "bucket")
    for call in (
        lambda: files.open_input_file("a"),
        lambda: files.delete_file("a"),
        lambda: files.get_file_info(FileSelector("")),
        lambda: files.copy_file("a", "b"),
    ):
        with pytest.raises(tidegate.NoBucketError):
            call()


def test_wrong_credentials_are_a_permission_error(store):
    options = {**dict(store.__getstate__()["options"]), "secret_key": "wrong"}
    files = tidegate.pyarrow.filesystem(store.url, **options)
    with pytest.raises(PermissionError):
        files.open_input_file("a")
    with pytest.raises(PermissionError):
        pyarrow.parquet.read_table("a", filesystem=files)


def test_moving_or_copying_a_file_to_itself_keeps_it(files, store):
    store.put("a", b"1")
    files.move("a", "a")
    files.copy_file("a", "/a")
    assert store.get("a") == b"1"


def test_a_path_that_ends_with_a_slash_moves_no_file(files, store):
    store.put("a", b"1")
    store.put("d/b", b"2")
    with pytest.raises(NotADirectoryError):
        files.move("a/", "c")
    with pytest.raises(IsADirectoryError, match="a directory cannot be moved"):
        files.move("d/", "c")
    with pytest.raises(FileNotFoundError):
        files.move("x/", "c")
    assert paths(files) == ["a", "d/b"]


def test_a_server_that_makes_no_copies(embedded_bucket, embedded):
    options = {**reached(embedded_bucket), "kept_conditions": True}
    with without_copies(embedded.url) as (url, refused):
        store = tidegate.Store(embedded_bucket.url().rstrip("/"), **{**options, "endpoint_url": url})
        files = tidegate.pyarrow.filesystem(store)
        store.put("a", b"1" * 1000, metadata={"team": "tide"})
        files.copy_file("a", "b")
        files.move("b", "c")
        assert refused
        with pytest.raises(FileNotFoundError):
            files.move("none", "d")
    assert embedded_bucket.keys() == ["a", "c"]
    assert embedded_bucket.get("c") == b"1" * 1000 and embedded_bucket.head("c")["Metadata"]["team"] == "tide"


def test_a_local_directory_has_real_directories(tmp_path):
    files = tidegate.pyarrow.filesystem(tmp_path / "root")
    files.create_dir("a/b")
    assert (tmp_path / "root" / "a" / "b").is_dir()
    pyarrow.parquet.write_table(table(10), "a/t.parquet", filesystem=files)
    assert pyarrow.parquet.read_table("a/t.parquet", filesystem=files).num_rows == 10
    assert [info.path for info in files.get_file_info(FileSelector("a"))] == ["a/b", "a/t.parquet"]
    files.delete_dir_contents("a")
    assert [info.type for info in files.get_file_info(["a", "a/b"])] == [FileType.Directory, FileType.NotFound]
    files.delete_dir("a")
    with pytest.raises(FileNotFoundError):
        files.delete_dir("a")
    for outside in ("..", "a/../.."):
        with pytest.raises(ValueError):
            files.delete_dir(outside)
    assert (tmp_path / "root").is_dir()


# Attributes.


def test_metadata_becomes_attributes(store):
    files = tidegate.pyarrow.filesystem(store, cache_control="no-cache", metadata={"team": "tide"})
    metadata = {"Content-Type": "text/x-tide", "content-language": "en", "row-count": "3"}
    with files.open_output_stream("a", metadata=metadata) as file:
        file.write(b"tide")
    found = store.head("a")
    assert (found.content_type, found.content_language, found.cache_control) == ("text/x-tide", "en", "no-cache")
    assert found.metadata == {"team": "tide", "row-count": "3"}
    with pytest.raises(NotImplementedError, match="ACL"):
        files.open_output_stream("b", metadata={"ACL": "public-read"})


def test_options_of_writes_hold_for_datasets(store):
    files = tidegate.pyarrow.filesystem(store, create_only=True)
    pyarrow.parquet.write_table(table(1), "a", filesystem=files)
    with pytest.raises(FileExistsError):
        pyarrow.parquet.write_table(table(2), "a", filesystem=files)
    assert pyarrow.parquet.read_table("a", filesystem=files).num_rows == 1


def test_options_of_writes_hold_for_directories_and_copies(store, bucket):
    files = tidegate.pyarrow.filesystem(store, storage_class="REDUCED_REDUNDANCY", content_type="text/x-all")
    store.put("a", b"1", content_type="text/x-own")
    files.create_dir("d")
    files.copy_file("a", "b")
    files.move("a", "c")
    for key in ("d/", "b", "c"):
        assert bucket.head(key)["StorageClass"] == "REDUCED_REDUNDANCY", key
    assert bucket.head("d/")["ContentType"] == "application/x-directory"
    assert bucket.head("b")["ContentType"] == bucket.head("c")["ContentType"] == "text/x-own"
    assert bucket.keys() == ["b", "c", "d/"]
    create_only = tidegate.pyarrow.filesystem(store, create_only=True)
    for change in (create_only.copy_file, create_only.move):
        with pytest.raises(FileExistsError):
            change("b", "c")
    assert bucket.keys() == ["b", "c", "d/"]


# Reading.


@pytest.mark.parametrize("size", [0, 1, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 5 << 20])
def test_random_access_reads_what_is_there(files, store, size):
    content = bytes(number % 251 for number in range(size))
    store.put("a", content)
    with files.open_input_file("a") as file:
        assert file.size() == size
        assert file.read() == content
        for start, length in [(0, 10), (size // 2, 100), (max(size - 7, 0), 100), (size, 5), (200 << 10, 100 << 10)]:
            start = min(start, size)
            file.seek(start)
            assert file.read(length) == content[start : start + length]
            assert file.tell() == min(start + length, size)
            assert file.read_at(length, start) == content[start : start + length]
    assert file.closed


def test_a_small_file_is_one_request(embedded_bucket, store_on, embedded):
    files = tidegate.pyarrow.filesystem(store_on(embedded_bucket))
    pyarrow.parquet.write_table(table(1000), "a.parquet", filesystem=files)
    embedded.control("DELETE", "counts")
    with files.open_input_file("a.parquet") as file:
        assert pyarrow.parquet.read_table(file).num_rows == 1000
    counts = embedded.control("GET", "counts")["requests"]
    assert sum(counts.values()) == 1, counts


def test_the_beginning_of_a_file_is_kept_until_a_read_goes_past_it(embedded_bucket, store_on, embedded):
    store = store_on(embedded_bucket)
    store.put("a", bytes(range(256)) * 4096)
    opened = tidegate.pyarrow.Handler(store).open_input_file("a")
    file = InputFile(store, "a", store.head("a"), bytes(range(256)) * 1024)
    embedded.control("DELETE", "counts")
    assert bytes(file.read(10)) == bytes(range(10)) and len(file._beginning) == 256 << 10
    assert embedded.control("GET", "counts")["requests"] == {}
    file.seek(256 << 10)
    assert file.read(3) == b"\0\1\2" and len(file._beginning) == 0
    file.seek(1)
    assert file.read(2) == b"\1\2"
    file.close()
    assert opened.read_at(2, 1) == b"\1\2"


def test_all_reads_of_a_file_are_of_one_object(files, store):
    store.put("a", bytes(1 << 20))
    with files.open_input_file("a") as file:
        store.put("a", b"1" * (1 << 20))
        with pytest.raises(tidegate.ReplacedError):
            file.read_at(100, 1_000_000)


def test_threads_read_one_file_at_once(files, store):
    content = bytes(range(256)) * (8 << 12)
    store.put("a", content)
    with files.open_input_file("a") as file, ThreadPoolExecutor(8) as threads:
        starts = range(0, len(content), 61_001)
        for start, read in zip(starts, threads.map(lambda start: file.read_at(70_000, start), starts), strict=True):
            assert read == content[start : start + 70_000]


def test_a_read_lets_other_threads_run(files, store):
    """A thread that waits for the store holds nothing that Python code needs."""
    store.put("a", bytes(64 << 20))
    ticks, done = 0, threading.Event()

    def read():
        with files.open_input_stream("a") as file:
            assert len(file.read()) == 64 << 20
        done.set()

    reading = threading.Thread(target=read)
    reading.start()
    while not done.wait(0.001):
        ticks += 1
    reading.join()
    assert ticks > 5


# Datasets.


def test_a_partitioned_dataset_is_written_and_read(files, store):
    partitioning = pyarrow.dataset.partitioning(pyarrow.schema([("part", pyarrow.string())]), flavor="hive")
    pyarrow.dataset.write_dataset(
        table(9000), "t", filesystem=files, format="parquet", partitioning=partitioning, max_rows_per_file=1000,
        max_rows_per_group=1000,
    )  # fmt: skip
    written = paths(files, "t")
    assert len(written) == 9
    assert {path.split("/")[1] for path in written} == {"part=part-0", "part=part-1", "part=part-2"}
    found = pyarrow.dataset.dataset("t", filesystem=files, partitioning=partitioning)
    assert found.count_rows() == 9000
    assert found.to_table(filter=pyarrow.dataset.field("part") == "part-1").num_rows == 3000
    read = found.to_table(columns=["number", "word"]).sort_by("number")
    assert read.equals(table(9000).select(["number", "word"]))
    pyarrow.dataset.write_dataset(
        table(30), "t", filesystem=files, format="parquet", partitioning=partitioning,
        existing_data_behavior="delete_matching",
    )  # fmt: skip
    assert pyarrow.dataset.dataset("t", filesystem=files, partitioning=partitioning).count_rows() == 30


@pytest.mark.parametrize("format", ["csv", "feather", "ipc", "orc"])
def test_other_formats_are_written_and_read(files, format):
    if format == "orc":
        from pyarrow import orc

        with files.open_output_stream("t/a.orc") as file:
            orc.write_table(table(1000), file)
    else:
        pyarrow.dataset.write_dataset(table(1000), "t", filesystem=files, format=format)
    assert pyarrow.dataset.dataset("t", filesystem=files, format=format).to_table().equals(table(1000))


def test_a_scan_of_many_threads_reads_every_row(files):
    for part in range(8):
        pyarrow.parquet.write_table(
            table(20_000, first=part * 20_000), f"t/{part}.parquet", filesystem=files, row_group_size=2_000
        )
    found = pyarrow.dataset.dataset("t", filesystem=files)
    with ThreadPoolExecutor(4) as threads:
        tables = list(threads.map(lambda _: found.to_table(columns=["number"], use_threads=True), range(4)))
    for read in tables:
        assert read.sort_by("number").equals(table(160_000).select(["number"]))


def test_200_files_are_written_at_once_under_one_budget(bucket, store_on):
    memory = 32 << 20
    store = store_on(bucket, memory=memory)
    files = tidegate.pyarrow.filesystem(store)
    content = table(2_000)
    writers = [pyarrow.parquet.ParquetWriter(f"t/{n:03}.parquet", content.schema, filesystem=files) for n in range(200)]
    for _ in range(4):
        for writer in writers:
            writer.write_table(content)
    assert list(store.list()) == []
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda writer: writer.close(), writers))
    assert store.tide.usage()["peak"] <= memory
    found = pyarrow.dataset.dataset("t", filesystem=files)
    assert len(found.files) == 200
    assert found.count_rows() == 200 * 4 * 2_000


def test_files_are_copied_between_two_filesystems(files, store, tmp_path):
    for number in range(5):
        store.put(f"t/{number}/x", bytes([number]) * 1000)
    pyarrow.fs.copy_files("t", str(tmp_path / "t"), source_filesystem=files)
    assert (tmp_path / "t" / "3" / "x").read_bytes() == b"\3" * 1000
    pyarrow.fs.copy_files(str(tmp_path / "t"), "u", destination_filesystem=files)
    assert [store.get(f"u/{number}/x") for number in range(5)] == [bytes([number]) * 1000 for number in range(5)]


# Processes.


def count_rows(files):
    return pyarrow.dataset.dataset("t", filesystem=files).count_rows()


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_other_processes_use_a_filesystem(files, way):
    pyarrow.parquet.write_table(table(1000), "t/a.parquet", filesystem=files)
    with multiprocessing.get_context(way).Pool(2) as pool:
        assert pool.map(count_rows, [files] * 4) == [1000] * 4


def in_child(files, opened, result):
    result.put((opened.read_at(20, 800_000), files.get_file_info("a").size))


def test_a_forked_child_goes_on_with_an_open_file(files, store):
    content = bytes(number % 251 for number in range(1 << 20))
    store.put("a", content)
    context = multiprocessing.get_context("fork")
    with files.open_input_file("a") as opened:
        assert opened.read_at(20, 600_000) == content[600_000:600_020]
        result = context.SimpleQueue()
        child = context.Process(target=in_child, args=(files, opened, result))
        child.start()
        assert result.get() == (content[800_000:800_020], 1 << 20)
        child.join(20)
        assert child.exitcode == 0
        assert opened.read_at(20, 700_000) == content[700_000:700_020]
