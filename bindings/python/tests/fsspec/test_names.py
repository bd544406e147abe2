"""What a path names: an object or a directory of exactly this name, or else what a pattern matches."""

import fsspec
import pytest
from places import s3_options

from harness.s3 import Bucket

#: Names with the signs of patterns, each with another name that it would match as a pattern.
LITERALS = [("a[1].txt", "a1.txt"), ("b*.txt", "bc.txt"), ("c?.txt", "cd.txt"), ("[d].txt", "d.txt")]


def names(fs, folder):
    fs.invalidate_cache()
    return [name.removeprefix(f"{folder}/") for name in fs.find(folder)]


@pytest.fixture
def literals(fs, folder):
    fs.pipe({f"{folder}/{name}": name.encode() for pair in LITERALS for name in pair})
    return folder


REST = sorted(other for _, other in LITERALS)


@pytest.mark.parametrize(
    "remove",
    [
        lambda fs, paths: fs.rm(paths),
        lambda fs, paths: [fs.rm(path) for path in paths],
        lambda fs, paths: fs.rm(paths, recursive=True),
        lambda fs, paths: fs.rm(paths, recursive=True, maxdepth=1),
        lambda fs, paths: [fs.rm_file(path) for path in paths],
    ],
)
def test_only_the_object_of_exactly_this_name_is_removed(fs, literals, remove):
    remove(fs, [f"{literals}/{name}" for name, _ in LITERALS])
    assert names(fs, literals) == REST


def test_a_pattern_that_is_no_name_is_a_pattern(fs, literals):
    fs.rm_file(f"{literals}/a[1].txt")
    fs.rm([f"{literals}/a[1].txt", f"{literals}/b*.txt"])
    assert names(fs, literals) == sorted(["[d].txt", "bc.txt", "c?.txt", "cd.txt", "d.txt"])
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{literals}/a[1].txt")


def test_a_name_is_what_is_read_and_expanded(fs, literals):
    path = f"{literals}/a[1].txt"
    assert fs.expand_path(path) == fs.expand_path([path]) == fs.expand_path(path, recursive=True) == [path]
    assert fs.cat(path) == b"a[1].txt" and fs.cat([path]) == {path: b"a[1].txt"}
    both = fs.expand_path([path, f"{literals}/[cd]?.txt"])
    assert both == sorted([path, f"{literals}/c?.txt", f"{literals}/cd.txt"])
    with pytest.raises(FileNotFoundError):
        fs.expand_path(f"{literals}/none[1].txt")


def test_a_directory_of_exactly_this_name_is_that_directory(fs, folder):
    fs.pipe({f"{folder}/{name}": b"1" for name in ("d[1]/a", "d[1]/deep/b", "d1/a")})
    assert fs.expand_path(f"{folder}/d[1]", recursive=True, maxdepth=1) == [
        f"{folder}/d[1]",
        f"{folder}/d[1]/a",
        f"{folder}/d[1]/deep",
    ]
    fs.mv(f"{folder}/d[1]", f"{folder}/e[1]", recursive=True)
    assert names(fs, folder) == ["d1/a", "e[1]/a", "e[1]/deep/b"]
    fs.rm(f"{folder}/e[1]", recursive=True)
    assert names(fs, folder) == ["d1/a"]


def test_a_name_is_moved_by_a_text_and_into_a_directory(fs, literals):
    fs.mv(f"{literals}/a[1].txt", f"{literals}/moved")
    fs.mv(f"{literals}/b*.txt", f"{literals}/into/")
    assert names(fs, literals) == sorted([*REST, "[d].txt", "c?.txt", "into/b*.txt", "moved"])


def test_a_pattern_costs_one_listing_more(embedded):
    fs = fsspec.filesystem("tidegates3", **s3_options(embedded.endpoint), skip_instance_cache=True)
    folder = f"{Bucket(embedded.endpoint).name}/names"
    fs.pipe({f"{folder}/file-{n}": b"1" for n in range(4)})
    embedded.control("DELETE", "counts")
    assert len(fs.expand_path(f"{folder}/file-?")) == 4
    assert embedded.control("GET", "counts")["requests"] == {"ListObjectsV2": 2}
    embedded.control("DELETE", "counts")
    fs.rm([f"{folder}/file-{n}" for n in range(4)])
    assert embedded.control("GET", "counts")["requests"] == {"DeleteObjects": 1}
    fs.pipe({f"{folder}/from/file-{n}": b"1" for n in range(4)})
    embedded.control("DELETE", "counts")
    fs.cp(f"{folder}/from/*", f"{folder}/to/")
    asked = embedded.control("GET", "counts")["requests"]
    assert asked["CopyObject"] == 4 and asked["ListObjectsV2"] == 2, asked
    # One for each copy, but none that asks whether a match is a directory: the listing says so.
    assert asked.get("HeadObject", 0) <= 4, asked
