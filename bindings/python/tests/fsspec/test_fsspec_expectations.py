"""What programs expect that were written for other file systems of fsspec."""

import asyncio
import gc
import gzip
import io
import secrets
import zipfile

import fsspec
import pytest
from fsspec.compression import compr
from places import Place, s3_options

import tidegate
import tidegate.fsspec
from harness.s3 import Bucket
from reach import reached


@pytest.mark.parametrize(
    ("mode", "compression"), [("wt", "gzip"), ("wb", "bz2"), ("wb", "xz"), ("wb", "zip"), ("wt", None)]
)
def test_a_file_of_open_is_published_when_it_is_closed(place, folder, mode, compression):
    """What `OpenFile.open()` returns is all that the program has."""
    url = place.fs().unstrip_protocol(f"{folder}/file")
    file = fsspec.open(url, mode, compression=compression, **place.options).open()
    file.write("tide" if mode == "wt" else b"tide")
    file.close()
    with fsspec.open(url, "rb", compression=compression, **place.options) as file:
        assert file.read() == b"tide"


@pytest.mark.parametrize(("mode", "compression"), [("wt", "gzip"), ("wb", "bz2"), ("wt", None)])
def test_publish_in_an_except_publishes(in_memory, mode, compression):
    """The warning says so to those who have closed there."""
    fs, path = in_memory.fs(), f"{in_memory.folder()}/file"
    file = fs.open(path, mode, compression=compression)
    file.write("tide" if mode == "wt" else b"tide")
    try:
        raise KeyError
    except KeyError:
        file.publish()
    assert file.closed
    with fs.open(path, "rb", compression=compression) as file:
        assert file.read() == b"tide"


@pytest.mark.parametrize("mode", ["wb", "wt"])
def test_gzip_around_a_file_publishes_when_it_is_closed(place, folder, mode):
    """gzip does not close the file, and nobody else can."""
    fs, path = place.fs(), f"{folder}/file.gz"
    with gzip.open(fs.open(path, "wb"), mode) as file:
        file.write("tide" if mode == "wt" else b"tide")
        assert not fs.exists(path)
    assert gzip.decompress(fs.cat(path)) == b"tide"


@pytest.mark.parametrize("mode", ["wb", "wt"])
def test_gzip_around_a_file_that_is_dropped_publishes_nothing(in_memory, mode):
    fs, path = in_memory.fs(), f"{in_memory.folder()}/file.gz"
    with pytest.warns(tidegate.NotPublishedWarning, match="was not closed"):
        file = gzip.open(fs.open(path, "wb"), mode)
        file.write("tide" if mode == "wt" else b"tide")
        del file
        gc.collect()
    assert not fs.exists(path)


def test_a_write_to_a_file_that_nobody_has_is_told(in_memory):
    fs, path = in_memory.fs(), f"{in_memory.folder()}/file"
    with pytest.warns(tidegate.NotPublishedWarning, match="was not closed"):
        with pytest.raises(ValueError, match="closed file"):
            fs.open(path, "wb").write(b"1")


def test_a_text_block_in_a_generator_that_an_except_drives_is_published(fs, folder):
    def lines(**options):
        with fs.open(f"{folder}/file", "w", **options) as file:
            for number in range(3):
                file.write(f"{number}\n")
                yield

    for options in ({}, {"compression": "gzip"}):
        running = lines(**options)
        next(running)
        try:
            raise KeyError
        except KeyError:
            list(running)
        with fs.open(f"{folder}/file", "r", **options) as file:
            assert file.read() == "0\n1\n2\n"


def test_compressors_of_others_are_as_they_were(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        compressor = compr["gzip"](file, mode="wb")
        assert type(compressor) is gzip.GzipFile
        compressor.close()
        assert not file.closed


def test_protocols_have_no_plus_and_the_older_names_work():
    for cls in (
        tidegate.fsspec.S3FileSystem,
        tidegate.fsspec.GCSFileSystem,
        tidegate.fsspec.AzureFileSystem,
        tidegate.fsspec.LocalFileSystem,
        tidegate.fsspec.MemoryFileSystem,
    ):
        assert cls.protocol[0] == cls.protocol[-1] and cls.protocol[0].isalnum()
        for protocol in (cls.protocol[0], cls.protocol[1]):
            assert fsspec.get_filesystem_class(protocol) is cls
        assert cls.protocol[1] == cls.protocol[0].replace("tidegate", "tidegate+")
    fs = fsspec.filesystem("tidegate+memory")
    fs.pipe("older/a", b"1")
    assert (
        fs._strip_protocol("tidegate+memory://older/a") == fs._strip_protocol("tidegatememory://older/a") == "older/a"
    )
    with fsspec.open("tidegate+memory://older/a") as file:
        assert file.read() == b"1"


def test_a_bucket_that_is_not_there_is_not_empty(minio):
    fs = fsspec.filesystem("tidegates3", **s3_options(minio.endpoint), skip_instance_cache=True)
    for ask in (fs.ls, fs.find, fs.du, lambda path: fs.find(path, maxdepth=2)):
        for path in ("mistyped-bucket", "mistyped-bucket/a"):
            with pytest.raises(FileNotFoundError, match="mistyped-bucket"):
                ask(path)


def test_a_prefix_that_is_not_there_is_empty(fs, folder):
    fs.pipe(f"{folder}/a", b"1")
    assert fs.find(f"{folder}/nothing") == []
    assert fs.du(f"{folder}/nothing") == 0


def test_a_block_past_the_end_is_empty(fs, folder):
    fs.pipe(f"{folder}/a", b"a" * 100)
    assert fs.read_block(f"{folder}/a", 5000, 10) == b""
    assert fs.read_block(f"{folder}/a", 95, 10) == b"a" * 5


def test_a_file_has_the_size_that_it_is_given(fs, folder):
    fs.pipe(f"{folder}/a", b"0123456789")
    for options in ({}, {"cache_type": "readahead"}, {"random": True}):
        with fs.open(f"{folder}/a", size=4, **options) as file:
            assert file.size == 4
            assert file.read() == b"0123"


def test_a_key_with_a_slash_at_its_end_is_not_the_key_without(fs, folder, request):
    if "fake_gcs" in request.node.callspec.id:
        pytest.skip("this server takes the two for one")
    fs.pipe(f"{folder}/a", b"1")
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"{folder}/a/")
    assert fs.cat_file(f"{folder}/a") == b"1"


# Mode `ab`.


def test_a_file_is_continued(fs, folder):
    path = f"{folder}/file"
    for part in (b"one\n", b"two\n", b"three\n"):
        with fs.open(path, "ab") as file:
            before = file.tell()
            file.write(part)
        assert before + len(part) == fs.info(path)["size"]
    assert fs.cat(path) == b"one\ntwo\nthree\n"
    with fs.open(path, "a") as file:
        file.write("four\n")
    assert fs.cat(path) == b"one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("how", ["fs.open", "fsspec.open", "wrapped"])
def test_a_continued_text_has_one_byte_order_mark(fs, folder, tmp_path, encoding, how):
    """As of Python's own files: at the beginning."""
    path = f"{folder}/text"
    url = fs.unstrip_protocol(path)

    def opened():
        match how:
            case "fs.open":
                return fs.open(path, "at", encoding=encoding)
            case "fsspec.open":
                return fsspec.open(url, "at", encoding=encoding, auto_mkdir=False, **fs.storage_options)
            case "wrapped":
                return io.TextIOWrapper(fs.open(path, "ab"), encoding=encoding)

    for part in ("one", "two", "", "three"):
        for file in (opened(), open(tmp_path / "own", "a", encoding=encoding)):
            with file as text:
                text.write(part)
    assert fs.cat(path) == (tmp_path / "own").read_bytes()
    assert fs.cat(path).decode(encoding) == "onetwothree"


def test_a_file_that_is_continued_is_at_its_end(in_memory):
    fs, path = in_memory.fs(), f"{in_memory.folder()}/file"
    fs.pipe(path, b"one\n")
    with fs.open(path, "ab") as file:
        assert file.seekable() and file.tell() == 4
        for to in ((0,), (4,), (0, io.SEEK_END)):
            with pytest.raises(io.UnsupportedOperation):
                file.seek(*to)
        file.write(b"two\n")
        assert file.tell() == 8
    assert fs.cat(path) == b"one\ntwo\n"
    # Archives are written as to a pipe.
    with fs.open(path, "ab") as file, zipfile.ZipFile(file, "w") as archive:
        for name in ("a", "b"):
            archive.writestr(name, name)
    with zipfile.ZipFile(io.BytesIO(fs.cat(path))) as archive:
        assert archive.namelist() == ["a", "b"] and archive.testzip() is None
    with fs.open(path, "wb") as file:
        assert not file.seekable()


def test_a_file_whose_continuation_fails_is_as_it_was(fs, folder):
    path = f"{folder}/file"
    fs.pipe(path, b"one\n")
    with pytest.raises(KeyError), fs.open(path, "ab") as file:
        file.write(b"two\n")
        raise KeyError
    assert fs.cat(path) == b"one\n"


def test_a_file_that_is_replaced_meanwhile_is_not_continued(fs, folder):
    path = f"{folder}/file"
    fs.pipe(path, b"one\n")
    file = fs.open(path, "ab")
    file.write(b"two\n")
    fs.pipe(path, b"another\n")
    with pytest.raises(tidegate.ReplacedError):
        file.close()
    assert fs.cat(path) == b"another\n"


def test_a_file_that_appears_meanwhile_is_not_replaced(fs, folder):
    path = f"{folder}/file"
    file = fs.open(path, "ab")
    file.write(b"one\n")
    fs.pipe(path, b"another\n")
    with pytest.raises(FileExistsError):
        file.close()
    assert fs.cat(path) == b"another\n"


def test_of_two_that_continue_a_file_one_does(fs, folder):
    path = f"{folder}/file"
    fs.pipe(path, b"one\n")
    first, second = fs.open(path, "ab"), fs.open(path, "ab")
    second.write(b"two\n")
    first.write(b"three\n")
    second.close()
    with pytest.raises(tidegate.ReplacedError):
        first.close()
    assert fs.cat(path) == b"one\ntwo\n"


def test_a_continued_file_of_the_disk_keeps_its_rights(on_disk, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    path.chmod(0o600)
    with on_disk.fs().open(str(path), "ab") as file:
        file.write(b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_continued_file_keeps_its_attributes(on_minio):
    fs, path = on_minio.fs(), f"{on_minio.folder()}/file"
    fs.pipe_file(path, b"one\n", content_type="text/x-demo", metadata={"origin": "demo"}, tags={"a": "1"})
    with fs.open(path, "ab") as file:
        file.write(b"two\n")
    assert fs.info(path)["ContentType"] == "text/x-demo"
    assert fs.metadata(path) == {"origin": "demo"}
    assert fs.get_tags(path) == {"a": "1"}


# What s3fs has besides.


def test_metadata_and_tags(on_minio):
    fs, path = on_minio.fs(), f"{on_minio.folder()}/file"
    fs.pipe_file(path, b"1", metadata={"origin": "demo"}, tags={"a": "1"})
    assert fs.metadata(path) == {"origin": "demo"}
    assert fs.getxattr(path, "origin") == "demo"
    assert fs.getxattr(path, "nothing") is None
    assert fs.get_tags(path) == {"a": "1"}
    fs.put_tags(path, {"b": "2"})
    assert fs.get_tags(path) == {"b": "2"}
    fs.put_tags(path, {"c": "3"}, mode="m")
    assert fs.get_tags(path) == {"b": "2", "c": "3"}
    assert fs.cat(path) == b"1" and fs.metadata(path) == {"origin": "demo"}
    with pytest.raises(ValueError, match="mode 'x'"):
        fs.put_tags(path, {}, mode="x")


def test_versioned_buckets(minio):
    bucket = Bucket(minio.endpoint)
    fs = Place("tidegates3", s3_options(minio.endpoint), bucket.name).fs()
    assert not fs.is_bucket_versioned(bucket.name)
    for status, found in [("Enabled", "enabled"), ("Suspended", "suspended")]:
        bucket.client.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": status})
        assert fs.is_bucket_versioned(f"tidegates3://{bucket.name}") == (status == "Enabled")
        assert tidegate.Store(bucket.url().rstrip("/"), **reached(bucket)).versioning() == found
    with pytest.raises(FileNotFoundError):
        fs.is_bucket_versioned("no-such-bucket")


def test_stores_that_do_not_tell_of_versions(memory):
    with pytest.raises(tidegate.UnsupportedError, match="does not say whether its buckets keep versions"):
        memory.versioning()


def test_descriptions_have_the_names_of_s3fs(on_minio):
    fs, folder = on_minio.fs(), on_minio.folder()
    fs.pipe(f"{folder}/file", b"12")
    for info in (fs.info(f"{folder}/file"), *fs.ls(folder, detail=True)):
        assert (info["Key"], info["Size"], info["size"]) == (f"{folder}/file", 2, 2)
    assert fs.info(folder)["StorageClass"] == "DIRECTORY"
    assert fs.info(on_minio.bucket)["StorageClass"] == "BUCKET"


def test_a_bucket_is_made_once_and_one_that_is_not_there_is_not_removed(on_minio):
    fs, name = on_minio.fs(), f"t-{secrets.token_hex(6)}"
    with pytest.raises(FileNotFoundError):
        fs.rm(name)
    fs.mkdir(name)
    with pytest.raises(FileExistsError):
        fs.mkdir(name)
    fs.makedirs(name, exist_ok=True)
    with pytest.raises(IsADirectoryError):
        fs.rm(name)
    fs.rmdir(name)
    assert not fs.exists(name)


def test_a_directory_has_no_time(fs, folder):
    fs.pipe(f"{folder}/file", b"1")
    assert fs.modified(f"{folder}/file").tzinfo is not None
    with pytest.raises(IsADirectoryError):
        fs.modified(folder)


def test_find_with_the_beginning_of_names(fs, folder):
    for name in ("one/a", "one/b", "other/a"):
        fs.pipe(f"{folder}/{name}", b"1")
    path = fs._strip_protocol(folder)
    files = [f"{path}/one/a", f"{path}/one/b", f"{path}/other/a"]
    assert fs.find(folder, prefix=None) == fs.find(folder) == files
    assert fs.find(folder, prefix="on") == files[:2]
    assert fs.find(folder, prefix="on", withdirs=True) == [f"{path}/one", *files[:2]]
    assert fs.find(folder, withdirs=True)[0] == path


def test_a_file_of_asyncio_takes_a_block_size(place):
    async def read():
        fs = place.fs(asynchronous=True, skip_instance_cache=True)
        path = f"{place.folder()}/file"
        await fs._pipe_file(path, b"12")
        file = await fs.open_async(path, "rb", block_size=1)
        return await file.read(), file.size

    assert asyncio.run(read()) == (b"12", 2)


def test_appending_keeps_how_the_object_is_encrypted():
    fs = fsspec.filesystem("tidegatememory", skip_instance_cache=True)
    store = tidegate.Store("memory://encrypted-appends")
    store.put("k", b"1", encryption="kms:abc")
    with fs.open("encrypted-appends/k", "ab") as file:
        file.write(b"2")
    assert store.get("k") == b"12" and store.head("k").encryption == "kms:abc"
