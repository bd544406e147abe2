"""Archives that fsspec's zip file system writes: published by its `close()`, and never by its end alone."""

import gc
import io
import warnings
import zipfile

import fsspec
import pytest

import tidegate


class Trouble(Exception):
    pass


@pytest.fixture
def path(folder):
    return f"{folder}/x.zip"


@pytest.fixture(params=["file", "url", "buffer"])
def archive(request, place, fs, path):
    """Opens an archive as programs do: by a file that nobody else has, or by its URL."""

    def opened():
        match request.param:
            case "file":
                return fsspec.filesystem("zip", fo=fs.open(path, "wb"), mode="w")
            case "url":
                url = fs.unstrip_protocol(path)
                return fsspec.filesystem("zip", fo=url, mode="w", target_options=place.options)
            case "buffer":
                return fsspec.filesystem("zip", fo=io.BufferedWriter(fs.open(path, "wb")), mode="w")

    return opened


def content(fs, path):
    with zipfile.ZipFile(io.BytesIO(fs.cat_file(path))) as read:
        return {name: read.read(name) for name in read.namelist()}


def test_close_publishes_an_archive(fs, path, archive):
    written = archive()
    written.pipe("a", b"1")
    with written.open("d/b", "wb") as file:
        file.write(b"2")
    assert not fs.exists(path)
    written.close()
    assert content(fs, path) == {"a": b"1", "d/b": b"2"}
    written.close()
    fs.rm_file(path)
    del written, file
    gc.collect()
    assert not fs.exists(path)


def test_close_publishes_an_archive_whose_file_the_program_has_too(fs, path):
    file = fs.open(path, "wb")
    written = fsspec.filesystem("zip", fo=file, mode="w")
    written.pipe("a", b"1")
    written.close()
    assert file.closed and content(fs, path) == {"a": b"1"}
    file.close()


def test_a_block_of_the_program_ends_the_file_of_an_archive(fs, path):
    """Whatever the program still does in it: only its end says that the file is whole."""
    for fails in (True, False):
        try:
            with fs.open(path, "wb") as file:
                written = fsspec.filesystem("zip", fo=file, mode="w", skip_instance_cache=True)
                written.pipe("a", b"1")
                written.close()
                assert not file.closed and not fs.exists(path)
                if fails:
                    raise Trouble
        except Trouble:
            assert fails and not fs.exists(path)
    assert content(fs, path) == {"a": b"1"}


# Python can only print the exception of a finalizer.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("filters", ["always", "error"])
def test_an_archive_that_an_exception_stops_is_not_published(in_memory, filters):
    fs, path = in_memory.fs(), f"{in_memory.folder()}/x.zip"

    def closed_in_a_finally():
        written = fsspec.filesystem("zip", fo=fs.open(path, "wb"), mode="w")
        try:
            written.pipe("a", b"1")
            raise Trouble
        finally:
            written.close()

    def stopped_in_a_member():
        opened = fsspec.open(f"zip://a::{fs.unstrip_protocol(path)}", "wb", zip={"mode": "w"})
        with opened as file:
            file.write(b"1")
            raise Trouble

    def stopped_after_a_member():
        written = fsspec.filesystem("zip", fo=fs.open(path, "wb"), mode="w")
        written.pipe("a", b"1")
        raise Trouble

    for write in (closed_in_a_finally, stopped_in_a_member, stopped_after_a_member):
        with warnings.catch_warnings():
            warnings.simplefilter(filters, tidegate.NotPublishedWarning)
            with pytest.raises(Trouble):
                write()
            gc.collect()
        assert not fs.exists(path), write


def test_an_archive_with_an_open_member_is_published_by_a_later_close(fs, path, archive):
    written = archive()
    file = written.open("a", "wb")
    file.write(b"1")
    with pytest.raises(ValueError, match="open writing handle"):
        written.close()
    file.close()
    written.close()
    assert content(fs, path) == {"a": b"1"}


def test_an_archive_that_nobody_closes_is_told_of_with_the_remedy(fs, place, path, caplog):
    """fsspec's `with` block closes the member alone. More members may be to come: only the program knows."""
    url = f"zip://a::{fs.unstrip_protocol(path)}"
    options = {"zip": {"mode": "w"}, place.protocol: place.options}
    opened = fsspec.open(url, "wb", **options)
    with opened as file:
        file.write(b"1")
    with pytest.warns(tidegate.NotPublishedWarning, match=r"x.zip was not published: .*fs\.close\(\)") as told:
        del opened, file
        gc.collect()
    assert not issubclass(told[0].category, ResourceWarning), "Python hides it by default"
    assert "x.zip was not published" in caplog.text and not fs.exists(path)
    opened = fsspec.open(url, "wb", **options)
    with opened as file:
        file.write(b"1")
    opened.fs.close()
    assert content(fs, path) == {"a": b"1"}
