"""Two sources of one call never get one target: nothing is copied then, and the error names both."""

import re

import pytest

import tidegate.fsspec._names
from tidegate._local import are_one_name


@pytest.fixture
def tree(fs, folder):
    fs.pipe({f"{folder}/{name}": name.encode() for name in ("x/a.txt", "y/a.txt", "y/deep/b.txt", "z/b.txt")})
    return folder


def told(did, *names):
    return f"nothing was {did}: .*" + ".*".join(re.escape(name) for name in names)


def test_a_download_of_two_objects_to_one_file_is_refused(fs, tree, tmp_path):
    to = tmp_path / "to"
    to.mkdir()
    both = [f"{tree}/x/a.txt", f"{tree}/y/a.txt"]
    (to / "link").symlink_to(to / "one")
    for source, target, options in [
        (both, f"{to}/", {}),
        (both, f"{to}/new/", {}),
        (both, [f"{to}/one", f"{to}/one"], {}),
        (both, [f"{to}/one", to / "x" / ".." / "link"], {}),
        ([f"{tree}/x", f"{tree}/y"], f"{to}/new", {"recursive": True}),
    ]:
        with pytest.raises(ValueError, match=told("downloaded", "/x/a.txt", "/y/a.txt")):
            fs.get(source, target, **options)
    assert [each.name for each in to.iterdir()] == ["link"]


def test_a_download_to_a_disk_that_takes_two_names_for_one_is_refused(fs, folder, tmp_path, monkeypatch):
    fs.pipe({f"{folder}/IMG.jpg": b"1", f"{folder}/img.jpg": b"2", f"{folder}/other": b"3"})
    fs.get(folder, f"{tmp_path}/kept", recursive=True)
    assert len(list((tmp_path / "kept").iterdir())) == 3
    monkeypatch.setattr(tidegate.fsspec._names, "are_one_name", lambda one, other: True)
    with pytest.raises(ValueError, match=told("downloaded", "/IMG.jpg", "/img.jpg")):
        fs.get(folder, f"{tmp_path}/folds", recursive=True)
    assert not (tmp_path / "folds").exists()


def test_the_disk_is_asked_whether_two_names_are_one(tmp_path):
    (tmp_path / "d").mkdir()
    assert not are_one_name(f"{tmp_path}/d/A", f"{tmp_path}/d/a")
    assert not are_one_name(f"{tmp_path}/D/deep/a", f"{tmp_path}/d/deep/a")
    assert are_one_name(f"{tmp_path}/new/a", f"{tmp_path}/new/./a")
    assert [each.name for each in tmp_path.iterdir()] == ["d"]


def test_an_upload_of_two_files_to_one_key_is_refused(fs, folder, tmp_path):
    for name in ("x/a.txt", "y/a.txt", "y/deep/b.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    both = [f"{tmp_path}/x/a.txt", f"{tmp_path}/y/a.txt"]
    for source, target, options in [
        (both, f"{folder}/", {}),
        (both, [f"{folder}/one", fs.unstrip_protocol(f"{folder}/one")], {}),
        ([f"{tmp_path}/x", f"{tmp_path}/y"], f"{folder}/new", {"recursive": True}),
    ]:
        with pytest.raises(ValueError, match=told("uploaded", "/x/a.txt", "/y/a.txt")):
            fs.put(source, target, **options)
    assert not fs.exists(folder)


def test_a_copy_of_two_objects_to_one_key_is_refused(fs, tree):
    before = fs.find(tree)
    for source, target, options in [
        ([f"{tree}/x/a.txt", f"{tree}/y/a.txt"], f"{tree}/out/", {}),
        ([f"{tree}/x", f"{tree}/y"], f"{tree}/out", {"recursive": True}),
    ]:
        with pytest.raises(ValueError, match=told("copied", "/x/a.txt", "/y/a.txt")):
            fs.cp(source, target, **options)
    assert fs.find(tree) == before


def test_lists_with_targets_of_their_own_are_copied(fs, tree, tmp_path):
    sources = [f"{tree}/x/a.txt", f"{tree}/y/a.txt"]
    fs.get(sources, [f"{tmp_path}/one", f"{tmp_path}/two"])
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["x/a.txt", "y/a.txt"]
    fs.put([f"{tmp_path}/one", f"{tmp_path}/two"], f"{tree}/put/")
    fs.get([f"{tree}/x", f"{tree}/z"], f"{tmp_path}/all", recursive=True)
    assert sorted(each.name for each in (tmp_path / "all").iterdir()) == ["a.txt", "b.txt", "x", "z"]
    for call, source, target in [
        (fs.get, sources, [f"{tmp_path}/three"]),
        (fs.put, [f"{tmp_path}/one", f"{tmp_path}/two"], [f"{tree}/three"]),
        (fs.get, f"{tree}/x/a.txt", [f"{tmp_path}/three", f"{tmp_path}/four"]),
    ]:
        with pytest.raises(ValueError, match="targets"):
            call(source, target)
    assert not fs.exists(f"{tree}/three") and not (tmp_path / "three").exists()


def test_a_name_with_the_signs_of_patterns_gets_the_target_that_was_given(fs, folder, tmp_path):
    name = "a[1].txt"
    fs.pipe({f"{folder}/{name}": b"brackets", f"{folder}/a1.txt": b"1"})
    fs.cp(f"{folder}/{name}", f"{folder}/copy")
    fs.get(f"{folder}/{name}", f"{tmp_path}/file")
    fs.get(f"{folder}/{name}", f"{tmp_path}/")
    assert fs.cat(f"{folder}/copy") == b"brackets"
    assert (tmp_path / "file").read_bytes() == (tmp_path / name).read_bytes() == b"brackets"
    (tmp_path / "a1.txt").write_bytes(b"1")
    fs.put(f"{tmp_path}/{name}", f"{folder}/up")
    fs.put([f"{tmp_path}/{name}"], f"{folder}/list/")
    assert fs.cat(f"{folder}/up") == fs.cat_file(f"{folder}/list/{name}") == b"brackets"
    fs.put(f"{tmp_path}/a[12].*", f"{folder}/pattern/")
    assert fs.find(f"{folder}/pattern") == [f"{folder}/pattern/a1.txt"]


def test_an_object_beside_a_prefix_is_copied_and_downloaded(on_embedded, tmp_path):
    fs, folder = on_embedded.fs(skip_instance_cache=True), on_embedded.folder()
    fs.pipe({f"{folder}/a": b"object", f"{folder}/a/b": b"1"})
    fs.cp(f"{folder}/a", f"{folder}/copy")
    fs.get(f"{folder}/a", f"{tmp_path}/file")
    assert fs.cat(f"{folder}/copy") == (tmp_path / "file").read_bytes() == b"object"


def test_a_key_with_dots_leads_to_no_file_outside_the_target(in_memory, tmp_path, monkeypatch):
    """Other programs can make such a key, and listings have it then."""
    fs, folder = in_memory.fs(skip_instance_cache=True), in_memory.folder()
    fs.pipe({f"{folder}/d/a": b"1"})

    async def found(path, **options):
        return {f"{folder}/d": {"type": "directory"}, f"{folder}/d/../../../x": {"type": "file"}}

    monkeypatch.setattr(fs, "_find", found)
    with pytest.raises(ValueError, match="nothing was downloaded: .* is not in "):
        fs.get(f"{folder}/d", f"{tmp_path}/a/b", recursive=True)
    assert list(tmp_path.iterdir()) == []


def test_a_tree_with_one_file_at_its_top_keeps_its_names(fs, folder, tmp_path):
    fs.pipe({f"{folder}/d/a": b"1", f"{folder}/d/deep/b": b"2"})
    fs.cp(f"{folder}/d", f"{folder}/e", recursive=True, maxdepth=1)
    fs.get(f"{folder}/d", f"{tmp_path}/down", recursive=True, maxdepth=1)
    fs.put(f"{tmp_path}/down", f"{folder}/up", recursive=True, maxdepth=1)
    fs.mv(f"{folder}/d", f"{folder}/moved", recursive=True, maxdepth=1)
    fs.invalidate_cache()
    found = [name.removeprefix(f"{folder}/") for name in fs.find(folder)]
    assert found == ["d/deep/b", "e/a", "moved/a", "up/a"]
    assert (tmp_path / "down" / "a").read_bytes() == b"1"
