"""What fsspec's own suite does not ask of a file system, on each kind of store."""

import asyncio
import gzip
import io
import json
import multiprocessing
import os
import pickle
import random
import secrets
import urllib.request

import fsspec
import pytest
from fsspec.callbacks import Callback
from fsspec.generic import GenericFileSystem, set_generic_fs
from places import s3_options
from pyarrow.fs import FileSelector, FileType

import tidegate.fsspec
import tidegate.pyarrow
from harness.s3 import Bucket

MIB = 1 << 20

#: fsspec's cache in a file does not close the file.
fsspec_closes_no_file = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def tree(fs, folder):
    """Six files in three directories."""
    names = ["one", "two", "a/three", "a/four", "a/deep/five", "b/six"]
    fs.pipe({f"{folder}/{name}": name.split("/")[-1].encode() for name in names})
    return folder


# Reading.


LIMITS = [
    *((None, None), (0, None), (3, None), (None, 4), (2, 5), (0, 100), (8, 100), (10, 12), (50, None), (4, 4), (6, 2)),
    *((-3, None), (-3, -1), (1, -1), (-100, None), (-100, 3), (None, -2)),
]


def test_a_range_is_that_of_a_slice(fs, folder):
    path, data = f"{folder}/digits", b"0123456789"
    fs.pipe_file(path, data)
    for start, end in LIMITS:
        assert fs.cat_file(path, start, end) == data[start:end], (start, end)
        assert fs.cat_ranges([path], [start], [end]) == [data[start:end]], (start, end)
    starts, ends = zip(*LIMITS, strict=True)
    assert fs.cat_ranges([path] * len(LIMITS), starts, ends) == [data[start:end] for start, end in LIMITS]


def test_ranges_of_many_objects_keep_their_order_and_their_errors(fs, folder):
    fs.pipe({f"{folder}/{n}": bytes([48 + n]) * 100 for n in range(3)})
    paths = [f"{folder}/{name}" for name in ("1", "0", "none", "1", "2")]
    first, second, missing, third, fourth = fs.cat_ranges(paths, [0, 5, 0, 90, -3], [3, 7, 9, 200, None])
    assert (first, second, third, fourth) == (b"111", b"00", b"1" * 10, b"222")
    assert isinstance(missing, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(paths, 0, 3, on_error="raise")


def test_a_file_reads_what_was_written(fs, folder):
    data = random.Random(1).randbytes(3 * MIB + 7)
    path = f"{folder}/data"
    with fs.open(path, "wb") as file:
        for at in range(0, len(data), 100_000):
            file.write(data[at : at + 100_000])
    with fs.open(path) as file:
        assert file.size == len(data)
        assert file.read(10) == data[:10]
        file.seek(-5, io.SEEK_END)
        assert file.read() == data[-5:]
        file.seek(MIB)
        assert file.read(2 * MIB) == data[MIB : 3 * MIB]
        assert file.info()["name"] == file.path == path
        assert fsspec.open(file.full_name, **fs.storage_options).path == path


@fsspec_closes_no_file
def test_a_cache_of_fsspec_can_be_chosen(fs, folder):
    data = random.Random(2).randbytes(100_000)
    fs.pipe_file(f"{folder}/data", data)
    for cache in ("readahead", "bytes", "all", "background", "blockcache", "first", "mmap", "none"):
        with fs.open(f"{folder}/data", block_size=1000, cache_type=cache) as file:
            for position, size in ((0, 10), (50_000, 3000), (99_990, 100), (7, 20_000)):
                file.seek(position)
                assert file.read(size) == data[position : position + size], cache
            with pytest.raises(TypeError):
                file.seek(1.5)


def test_known_parts_are_not_read_again(fs, folder):
    path = f"{folder}/data"
    fs.pipe_file(path, b"0123456789")
    parts = {(0, 2): b"ab", (2, 4): b"cd", (6, 8): b"gh"}
    with fs.open(path, cache_type="parts", cache_options={"data": parts}) as file:
        assert file.read(3) == b"abc"
        assert file.read(1) == b"d"
        # What is not known is read, and is not zeros.
        assert file.read(3) == b"456"
        file.seek(6)
        assert file.read(2) == b"gh"
        assert file.read() == b"89"


def test_a_file_reads_one_object_though_it_is_replaced(fs, folder):
    path = f"{folder}/data"
    fs.pipe_file(path, b"a" * 3 * MIB)
    with fs.open(path, cache_type="readahead", block_size=1000) as file:
        assert file.read(10) == b"a" * 10
        fs.pipe_file(path, b"b" * 2 * MIB)
        file.seek(MIB)
        with pytest.raises(tidegate.ReplacedError):
            file.read(10)


def test_lines_and_text(fs, folder):
    path = f"{folder}/text.txt"
    with fs.open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("één\ntwee\n")
    with fs.open(path, "r", encoding="utf-8") as file:
        assert file.readlines() == ["één\n", "twee\n"]
    with fs.open(path) as file:
        assert file.readuntil(b"\n", blocks=2) == "één\n".encode()
        assert file.readline() == b"twee\n"
    assert fs.read_block(path, 3, 4, delimiter=b"\n") == b"twee\n"
    assert fs.head(path, 2) == "é".encode() and fs.tail(path, 2) == b"e\n"


# Writing.


class Stop(Exception):
    pass


def opened(fs, path, how):
    match how:
        case "bytes":
            return fs.open(path, "wb")
        case "text":
            return fs.open(path, "w")
        case "gzip":
            return fs.open(path, "wb", compression="gzip")
        case "gzip text":
            return fs.open(path, "w", compression="gzip")
        case "bz2":
            return fs.open(path, "wb", compression="bz2")
        case "xz":
            return fs.open(path, "wb", compression="xz")
        case "open_files":
            url = fs.unstrip_protocol(path)
            return fsspec.open(url, "w", compression="gzip", auto_mkdir=False, **fs.storage_options)
        case "open_files bytes":
            return fsspec.open(fs.unstrip_protocol(path), "wb", auto_mkdir=False, **fs.storage_options)


HOWS = ["bytes", "text", "gzip", "gzip text", "bz2", "xz", "open_files", "open_files bytes"]


def line(how):
    return "line\n" if "text" in how or how == "open_files" else b"line\n"


@pytest.mark.parametrize("how", HOWS)
def test_a_file_is_there_once_it_is_closed(fs, folder, how):
    path = f"{folder}/file"
    with opened(fs, path, how) as file:
        file.write(line(how) * 100)
        assert not fs.exists(path)
    compression = {"bz2": "bz2", "xz": "xz"}.get(how, "gzip" if "gzip" in how or how == "open_files" else None)
    with fs.open(path, "rb", compression=compression) as file:
        assert file.read() == b"line\n" * 100


@pytest.mark.parametrize("how", HOWS)
def test_an_exception_publishes_nothing(fs, folder, how):
    path = f"{folder}/file"
    with pytest.raises(Stop):
        with opened(fs, path, how) as file:
            file.write(line(how) * 100_000)
            raise Stop
    assert not fs.exists(path)


@pytest.mark.parametrize("how", HOWS)
def test_a_file_that_nobody_closes_publishes_nothing(fs, folder, how):
    path = f"{folder}/file"
    file = opened(fs, path, how)
    if how.startswith("open_files"):
        file = file.open()
    file.write(line(how) * 100_000)
    del file
    assert not fs.exists(path)


def test_an_exclusive_file_is_refused_at_the_end_too(fs, folder):
    path = f"{folder}/file"
    with pytest.raises(FileExistsError):
        with fs.open(path, "xb") as file:
            file.write(b"second")
            fs.pipe_file(path, b"first")
    assert fs.cat_file(path) == b"first"


@pytest.mark.parametrize("mode", ["r+b", "w+b", "a+b"])
def test_a_file_that_changes_an_object_is_refused(fs, folder, mode):
    with pytest.raises(ValueError, match="an object is read, or written as a whole"):
        fs.open(f"{folder}/file", mode)


def test_create_only(fs, folder, tmp_path):
    path = f"{folder}/file"
    source = tmp_path / "source"
    source.write_bytes(b"from disk")
    fs.put_file(source, path, mode="create")
    with pytest.raises(FileExistsError):
        fs.put_file(source, path, mode="create")
    with pytest.raises(FileExistsError):
        fs.pipe_file(path, b"other", overwrite=False)
    assert fs.cat(path) == b"from disk"


def test_transaction(fs, folder):
    with fs.transaction:
        with fs.open(f"{folder}/one", "wb") as file:
            file.write(b"1")
        with fs.open(f"{folder}/two.gz", "wb", compression="gzip") as file:
            file.write(b"2")
        with fs.open(f"{folder}/three", "w") as text:
            text.write("3")
        with pytest.raises(Stop):
            with fs.open(f"{folder}/torn", "wb") as file:
                file.write(b"torn")
                raise Stop
        del file, text
        assert fs.find(folder) == []
    assert fs.find(folder) == [f"{folder}/one", f"{folder}/three", f"{folder}/two.gz"]
    assert gzip.decompress(fs.cat(f"{folder}/two.gz")) == b"2"


def test_a_transaction_that_fails_publishes_nothing(fs, folder):
    with pytest.raises(Stop):
        with fs.transaction:
            with fs.open(f"{folder}/one", "wb") as file:
                file.write(b"1")
            raise Stop
    with pytest.raises(ValueError, match="still open at the end of its transaction"):
        with fs.transaction:
            open_still = fs.open(f"{folder}/two", "wb")
            open_still.write(b"2")
            with fs.open(f"{folder}/three", "wb") as file:
                file.write(b"3")
    assert fs.find(folder) == []
    with pytest.raises(ValueError):
        file.write(b"more")


# Directories, and what is known of them.


def test_listings(fs, tree):
    assert fs.ls(tree) == [f"{tree}/{name}" for name in ("a", "b", "one", "two")]
    assert [info["type"] for info in fs.ls(tree, detail=True)] == ["directory", "directory", "file", "file"]
    assert fs.ls(f"{tree}/one") == [f"{tree}/one"]
    assert fs.isdir(tree) and fs.isdir(f"{tree}/a/") and not fs.isdir(f"{tree}/one") and not fs.isdir(f"{tree}/none")
    assert fs.isfile(f"{tree}/a/three") and not fs.isfile(f"{tree}/a")
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{tree}/none")
    with pytest.raises(FileNotFoundError):
        fs.info(f"{tree}/none")
    assert not fs.exists(f"{tree}/on")
    info = fs.info(f"{tree}/a/three")
    assert (info["name"], info["size"], info["type"]) == (f"{tree}/a/three", 5, "file")
    assert fs.du(tree) == sum(map(len, ("one", "two", "three", "four", "five", "six")))


@pytest.mark.parametrize("maxdepth", [None, 1, 2, 3])
def test_find(fs, tree, maxdepth):
    files = ["a/deep/five", "a/four", "a/three", "b/six", "one", "two"]
    expected = [f"{tree}/{name}" for name in files if maxdepth is None or name.count("/") < maxdepth]
    assert fs.find(tree, maxdepth=maxdepth) == expected
    directories = [name for name in ("a", "a/deep", "b") if maxdepth is None or name.count("/") < maxdepth]
    expected = sorted([tree, *expected, *(f"{tree}/{name}" for name in directories)])
    assert fs.find(tree, maxdepth=maxdepth, withdirs=True) == expected
    assert fs.find(f"{tree}/one") == [f"{tree}/one"]
    assert fs.find(f"{tree}/none") == []


def test_find_and_glob_agree_with_the_local_file_system(fs, tree, tmp_path):
    local = fsspec.filesystem("file")
    for name in fs.find(tree):
        path = tmp_path / "local" / name.removeprefix(f"{tree}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(fs.cat(name))
    for pattern in ("*", "**", "a*", "*/t*", "**/f*", "?/*", "[ab]/*", "a/**", "o*e", "*/", "a/deep/*", "none/*"):
        expected = sorted(name.removeprefix(f"{tmp_path}/local") for name in local.glob(f"{tmp_path}/local/{pattern}"))
        assert sorted(name.removeprefix(tree) for name in fs.glob(f"{tree}/{pattern}")) == expected, pattern


def test_listings_are_kept_until_a_write(place, folder, tmp_path):
    fs = place.fs(skip_instance_cache=True, use_listings_cache=True)
    other = place.fs(skip_instance_cache=True, use_listings_cache=True)
    fs.pipe_file(f"{folder}/one", b"1")
    assert fs.ls(folder) == [f"{folder}/one"]
    other.pipe_file(f"{folder}/two", b"2")
    assert fs.ls(folder) == [f"{folder}/one"]
    assert fs.ls(folder, refresh=True) == [f"{folder}/one", f"{folder}/two"]
    source = tmp_path / "source"
    source.write_bytes(b"3")

    def written():
        with fs.open(f"{folder}/five", "wb") as file:
            file.write(b"5")

    changes = {
        "three": lambda: fs.put_file(str(source), f"{folder}/three"),
        "four": lambda: fs.cp_file(f"{folder}/one", f"{folder}/four"),
        "five": written,
        "deep/six": lambda: fs.pipe_file(f"{folder}/deep/six", b"6"),
    }
    for name, change in changes.items():
        fs.ls(folder)
        change()
        assert f"{folder}/{name.split('/')[0]}" in fs.ls(folder), name
    fs.rm_file(f"{folder}/one")
    assert f"{folder}/one" not in fs.ls(folder)
    fs.ls(f"{folder}/deep")
    fs.rm(f"{folder}/deep", recursive=True)
    assert f"{folder}/deep" not in fs.ls(folder)
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{folder}/deep")


def test_removal(fs, tree):
    fs.rm([f"{tree}/one", f"{tree}/b/six"])
    fs.rm_file(f"{tree}/two")
    fs.rm(f"{tree}/a/*e*")
    assert fs.find(tree) == [f"{tree}/a/deep/five", f"{tree}/a/four"]
    fs.rm(f"{tree}/a", recursive=True)
    assert fs.find(tree) == []
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{tree}/none", recursive=True)


def test_move_and_copy(fs, tree):
    fs.mv(f"{tree}/a/three", f"{tree}/moved")
    fs.copy(f"{tree}/a", f"{tree}/c", recursive=True)
    assert fs.cat(f"{tree}/moved") == b"three"
    assert fs.find(f"{tree}/c") == [f"{tree}/c/deep/five", f"{tree}/c/four"]
    with pytest.raises(FileNotFoundError):
        fs.cp_file(f"{tree}/none", f"{tree}/other")


def test_what_tells_contents_apart(fs, folder):
    path = f"{folder}/file"
    fs.pipe_file(path, b"first")
    told = fs.ukey(path), fs.checksum(path)
    fs.ls(folder)
    assert (fs.ukey(path), fs.checksum(path)) == told
    fs.pipe_file(path, b"other")
    assert fs.ukey(path) != told[0] and fs.checksum(path) != told[1]
    assert fs.modified(path).tzinfo is not None


def test_mapping(fs, folder):
    mapping = fs.get_mapper(folder)
    mapping["a/b"] = b"1"
    mapping["c"] = b"2"
    assert sorted(mapping) == ["a/b", "c"] and mapping["a/b"] == b"1"
    del mapping["a/b"]
    assert "a/b" not in mapping
    with pytest.raises(KeyError):
        mapping["a/b"]


# Files of the local disk.


class Figures(Callback):
    def __init__(self):
        super().__init__()
        self.said = []

    def call(self, *arguments, **options):
        self.said.append((self.size, self.value))


def test_files_are_moved_with_their_figures(fs, folder, tmp_path):
    data = random.Random(3).randbytes(9 * MIB)
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(data)
    for move in (
        lambda figures: fs.put_file(str(source), f"{folder}/file", callback=figures),
        lambda figures: fs.get_file(f"{folder}/file", str(target), callback=figures),
    ):
        figures = Figures()
        move(figures)
        assert figures.said[-1] == (len(data), len(data))
    assert target.read_bytes() == data
    into = io.BytesIO()
    fs.get_file(f"{folder}/file", into)
    assert into.getvalue() == data


def test_trees_are_moved(fs, tree, tmp_path):
    figures = Figures()
    fs.get(tree, str(tmp_path / "down"), recursive=True, callback=figures)
    assert (tmp_path / "down" / "a" / "deep" / "five").read_bytes() == b"five"
    fs.put(str(tmp_path / "down"), f"{tree}-again", recursive=True)
    assert [name.removeprefix(f"{tree}-again") for name in fs.find(f"{tree}-again")] == [
        name.removeprefix(tree) for name in fs.find(tree)
    ]
    with pytest.raises(FileNotFoundError):
        fs.get_file(f"{tree}/none", str(tmp_path / "none"))


def test_a_file_does_not_take_the_place_of_a_directory(fs, tree, tmp_path):
    with pytest.raises((OSError, tidegate.Error)):
        fs.get_file(f"{tree}/one", str(tmp_path))
    assert tmp_path.is_dir()


def test_a_store_that_fails_is_no_directory_that_is_not_there():
    fs = fsspec.filesystem("tidegates3", endpoint_url="http://127.0.0.1:9", key="k", secret="s", attempts=1)
    for ask in (fs.exists, fs.isdir, fs.isfile, fs.info, fs.ls, fs.find, fs.cat, fs.open):
        with pytest.raises(tidegate.UnavailableError):
            ask("bucket/key")


def test_options_of_files_are_checked(fs, folder):
    fs.pipe_file(f"{folder}/file", b"1")
    with pytest.raises(ValueError, match="version_id"):
        fs.open(f"{folder}/file", version_id="1")
    with pytest.raises(TypeError, match="nonsense"):
        fs.open(f"{folder}/file", "wb", nonsense=1)
    with pytest.raises(TypeError, match="nonsense"):
        fs.open(f"{folder}/file", nonsense=1)
    with fs.open(f"{folder}/file", fill_cache=False, version_id=None, default_cache="parts") as file:
        assert file.read() == b"1"


# Requests.


def test_requests_are_few(embedded):
    """One for each thing that is asked, as the embedded server counts them."""
    fs = fsspec.filesystem("tidegates3", **s3_options(embedded.endpoint), skip_instance_cache=True)
    folder = f"{Bucket(embedded.endpoint).name}/requests"

    def asked(do, *arguments, **options):
        embedded.control("DELETE", "counts")
        do(*arguments, **options)
        return embedded.control("GET", "counts")["requests"]

    assert asked(fs.pipe_file, f"{folder}/one", b"1") == {"PutObject": 1}
    assert asked(fs.pipe, {f"{folder}/deep/{n}": b"2" for n in range(50)}) == {"PutObject": 50}
    with_file = asked(lambda: fs.open(f"{folder}/one").read())
    assert with_file == {"GetObject": 1}
    assert asked(fs.cat_file, f"{folder}/one") == {"GetObject": 1}
    assert asked(fs.cat_ranges, [f"{folder}/one"] * 3, [0, 0, 0], [1, 1, 1]) == {"GetObject": 1}
    assert asked(fs.exists, f"{folder}/one") == {"HeadObject": 1}
    assert asked(fs.isdir, f"{folder}/deep") == {"ListObjectsV2": 1}
    assert asked(fs.find, folder) == {"ListObjectsV2": 1}
    assert asked(fs.ls, folder) == {"ListObjectsV2": 1}
    assert asked(fs.ls, folder) == {}
    assert asked(fs.info, f"{folder}/one") == {}
    assert asked(fs.makedirs, f"{folder}/new/one", exist_ok=True) == {}
    assert asked(fs.cp_file, f"{folder}/one", f"{folder}/two").get("CopyObject") == 1
    assert asked(fs.rm, folder, recursive=True) == {"ListObjectsV2": 1, "DeleteObjects": 1}


# Processes, threads and event loops.


def test_pickles(place, folder):
    fs = place.fs()
    fs.pipe_file(f"{folder}/file", b"0123456789")
    again = pickle.loads(pickle.dumps(fs))
    assert again == fs and again.cat(f"{folder}/file") == b"0123456789"
    assert fsspec.AbstractFileSystem.from_json(fs.to_json()) == fs
    with fs.open(f"{folder}/file") as file:
        file.seek(4)
        with pickle.loads(pickle.dumps(file)) as copy:
            assert copy.read() == b"456789"
    with pytest.raises(TypeError):
        pickle.dumps(fs.open(f"{folder}/other", "wb"))


def _in_child(fs, path, pipe):
    pipe.send((fs.cat(path), fs.ls(os.path.dirname(path), refresh=True)))
    fs.pipe_file(f"{path}-of-child", b"child")
    with fs.open(path) as file:
        pipe.send(file.read())


def test_a_file_system_works_in_a_forked_child(place, fs, folder):
    if place.protocol == "tidegatememory":
        pytest.skip("its objects are in one process")
    path = f"{folder}/file"
    fs.pipe_file(path, b"parent")
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_in_child, args=(fs, path, theirs))
    child.start()
    theirs.close()
    try:
        assert ours.poll(60)
        assert ours.recv() == (b"parent", [path])
        assert ours.poll(60)
        assert ours.recv() == b"parent"
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
    assert fs.cat(f"{path}-of-child") == b"child"
    assert fs.cat(path) == b"parent"


def test_asyncio(place, folder):
    async def main():
        fs = place.fs(asynchronous=True, skip_instance_cache=True)
        await fs._pipe({f"{folder}/{n}": str(n).encode() for n in range(20)})
        assert len(await fs._find(folder)) == 20
        assert await fs._cat_file(f"{folder}/7") == b"7"
        file = await fs.open_async(f"{folder}/streamed", "wb")
        async with file:
            await file.write(b"streamed")
        with pytest.raises(Stop):
            async with await fs.open_async(f"{folder}/torn", "wb") as file:
                await file.write(b"torn")
                raise Stop
        assert not await fs._exists(f"{folder}/torn")
        async with await fs.open_async(f"{folder}/streamed") as file:
            assert file.size == 8 and await file.read() == b"streamed"

    asyncio.run(main())


def test_signed_urls(on_minio, on_azurite):
    for place in (on_minio, on_azurite):
        fs, path = place.fs(), f"{place.folder()}/file"
        fs.pipe_file(path, b"signed")
        with urllib.request.urlopen(fs.sign(path, expiration=60)) as answer:
            assert answer.read() == b"signed"


def test_directories_that_azure_has_beside_blobs(azurite, on_azurite):
    """Empty blobs with a mark, as blobfuse, Hadoop and Storage Explorer make them."""
    fs, folder = on_azurite.fs(skip_instance_cache=True), on_azurite.folder()
    bucket, key = folder.split("/")
    container = azurite.endpoint.client().get_container_client(bucket)

    def stubs(*names):
        for name in names:
            container.upload_blob(name, b"", metadata={"hdi_isfolder": "true"})

    stubs(key, f"{key}/empty", f"{key}/full", f"{key}/full/deep")
    fs.pipe_file(f"{folder}/full/file", b"1")
    assert fs.ls(folder) == [f"{folder}/empty", f"{folder}/full"]
    assert fs.isdir(f"{folder}/empty") and fs.ls(f"{folder}/empty") == []
    assert fs.info(f"{folder}/full")["type"] == "directory" and not fs.isfile(f"{folder}/empty")
    assert fs.find(folder) == [f"{folder}/full/file"]
    fs.rm(folder, recursive=True)
    assert list(container.list_blob_names(name_starts_with=key)) == []

    stubs(key, f"{key}/empty", f"{key}/full", f"{key}/full/deep")
    fs.pipe_file(f"{folder}/full/file", b"1")
    connection = azurite.endpoint.connection
    with tidegate.Store(f"az://{bucket}", connection_string=connection) as store:
        files = tidegate.pyarrow.filesystem(store)
        assert files.get_file_info(f"{key}/empty").type == FileType.Directory
        infos = files.get_file_info(FileSelector(key, recursive=True))
        assert {info.path: info.type for info in infos} == {
            f"{key}/empty": FileType.Directory,
            f"{key}/full": FileType.Directory,
            f"{key}/full/deep": FileType.Directory,
            f"{key}/full/file": FileType.File,
        }
        files.delete_dir(key)
    assert list(container.list_blob_names(name_starts_with=key)) == []


def test_marks_of_directories(minio, on_minio):
    """Empty objects whose keys end with a slash, as the consoles of stores make them."""
    fs, folder = on_minio.fs(skip_instance_cache=True), on_minio.folder()
    bucket, key = folder.split("/")
    minio.endpoint.client().put_object(Bucket=bucket, Key=f"{key}/empty/", Body=b"")
    fs.pipe_file(f"{folder}/full/file", b"1")
    minio.endpoint.client().put_object(Bucket=bucket, Key=f"{key}/full/", Body=b"")
    assert fs.ls(folder) == [f"{folder}/empty", f"{folder}/full"]
    assert fs.ls(f"{folder}/empty") == [] and fs.isdir(f"{folder}/empty")
    assert fs.ls(f"{folder}/full") == [f"{folder}/full/file"]
    assert fs.find(folder) == [f"{folder}/full/file"]
    fs.rm(folder, recursive=True)
    listed = minio.endpoint.client().list_objects_v2(Bucket=bucket, Prefix=key)
    assert listed["KeyCount"] == 0


def test_description_of_a_store_in_json_has_its_options(on_minio):
    told = json.loads(on_minio.fs().to_json())
    assert told["cls"] == "tidegate.fsspec:S3FileSystem" and told["key"] == on_minio.options["key"]


# File systems of fsspec on top.


@fsspec_closes_no_file
def test_chains_of_file_systems(place, fs, folder):
    fs.pipe_file(f"{folder}/file", b"0123456789")
    url, options = fs.unstrip_protocol(f"{folder}/file"), {place.protocol: place.options}
    for cache in ("simplecache", "filecache", "blockcache"):
        with fsspec.open(f"{cache}::{url}", **options) as file:
            assert file.read() == b"0123456789", cache
    with fsspec.open(f"simplecache::{url}-copied", "wb", **options) as file:
        file.write(b"through a cache")
    assert fs.cat_file(f"{folder}/file-copied") == b"through a cache"
    inside = fsspec.filesystem("dir", path=folder, fs=fs)
    assert inside.ls("", detail=False) == ["file", "file-copied"] and inside.cat("file") == b"0123456789"


def test_copies_between_file_systems(place, fs, folder):
    memory = fsspec.filesystem("tidegatememory")
    set_generic_fs(place.protocol, **place.options)
    set_generic_fs("tidegatememory")
    for size in (10, 6 * MIB):
        data = random.Random(size).randbytes(size)
        fs.pipe_file(f"{folder}/file", data)
        generic = GenericFileSystem(default_method="generic")
        generic.copy(fs.unstrip_protocol(f"{folder}/file"), f"tidegatememory://{folder.strip('/')}/copy")
        assert memory.cat_file(f"{folder.strip('/')}/copy") == data


@pytest.mark.parametrize("where", ["on_minio", "on_embedded", "on_fake_gcs", "on_azurite"])
def test_buckets_are_created_listed_and_removed_by_the_options_of_the_file_system(request, where):
    place = request.getfixturevalue(where)
    project = {"project": "ours"} if place.protocol == "tidegategs" else {}
    fs = place.fs(skip_instance_cache=True, **project)
    bucket = f"tidegate-{secrets.token_hex(6)}"
    assert not fs.exists(bucket)
    fs.mkdir(bucket)
    assert fs.isdir(bucket) and fs.ls(bucket) == []
    listed = {info["name"]: info for info in fs.ls("", detail=True)}
    assert listed[bucket]["type"] == "directory" and {bucket, place.bucket} <= set(listed)
    fs.pipe_file(f"{bucket}/a", b"1")
    with pytest.raises(OSError):
        fs.rmdir(bucket)
    fs.rm_file(f"{bucket}/a")
    fs.rmdir(bucket)
    assert bucket not in fs.ls("", refresh=True) and not fs.exists(bucket)


@pytest.mark.parametrize("call", ["rm", "rm_file", "mv", "rename"])
def test_a_misspelt_option_removes_nothing(fs, folder, call):
    fs.pipe(f"{folder}/a/b", b"1")
    paths = [f"{folder}/a/b"] + ([f"{folder}/c"] if call in ("mv", "rename") else [])
    with pytest.raises(TypeError, match="'recusive'" + ("" if call == "rm_file" else ".*did you mean 'recursive'")):
        getattr(fs, call)(*paths, recusive=True)
    with pytest.raises(ValueError, match="only the newest version"):
        getattr(fs, call)(*paths, version_id="1")
    assert fs.find(folder) == [f"{folder}/a/b"]
    getattr(fs, call)(*paths, version_id=None)
    assert not fs.exists(f"{folder}/a/b")


def test_delete_is_rm(fs, folder):
    fs.pipe({f"{folder}/a/b": b"1", f"{folder}/c": b"1"})
    fs.delete(f"{folder}/c")
    assert fs.find(folder) == [f"{folder}/a/b"]
    fs.delete(f"{folder}/a", recursive=True)
    assert fs.find(folder) == []
