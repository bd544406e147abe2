"""Removing, moving and copying: exactly what was named, and nothing else."""

import asyncio
import contextlib
import os

import fsspec
import pytest
from places import s3_options

import tidegate
from between import without_copies
from harness.s3 import Bucket


@pytest.fixture
def tree(fs, folder):
    fs.pipe({f"{folder}/{name}": name.encode() for name in ("one", "d/a", "d/b/c", "d/b/deep/e", "d-other/f")})
    return folder


def names(fs, folder):
    fs.invalidate_cache()
    return [name.removeprefix(f"{folder}/") for name in fs.find(folder)]


# Removal.


def test_a_tree_and_what_is_in_it_are_removed_once(fs, tree):
    fs.rm(f"{tree}/d/**", recursive=True)
    assert names(fs, tree) == ["d-other/f", "one"]
    fs.pipe({f"{tree}/a": b"1", f"{tree}/x/y": b"2", f"{tree}/x/z/w": b"3"})
    fs.rm([f"{tree}/x", f"{tree}/x/z", f"{tree}/x/z/w", f"{tree}/a", f"{tree}/a"], recursive=True)
    assert names(fs, tree) == ["d-other/f", "one"]


def test_patterns_and_depths(fs, tree):
    fs.rm(f"{tree}/d*/*")
    assert names(fs, tree) == ["d/b/c", "d/b/deep/e", "one"]
    fs.rm(f"{tree}/d", recursive=True, maxdepth=2)
    assert names(fs, tree) == ["d/b/deep/e", "one"]
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{tree}/none*")
    with pytest.raises(FileNotFoundError):
        fs.rm([f"{tree}/none*"], recursive=True, maxdepth=1)


@pytest.fixture(params=["on_embedded", "in_memory"])
def beside(request):
    """A file system with an object `a` beside a prefix `a/`. (MinIO lists nothing below an object.)"""
    place = request.getfixturevalue(request.param)
    fs, folder = place.fs(skip_instance_cache=True), place.folder()
    fs.pipe({f"{folder}/a": b"object", f"{folder}/a/b": b"1", f"{folder}/a/c/d": b"2"})
    return fs, folder


def test_an_object_beside_a_prefix_is_removed_too(beside):
    fs, folder = beside
    fs.rm(f"{folder}/a*")
    assert names(fs, folder) == ["a/b", "a/c/d"]
    fs.pipe_file(f"{folder}/a", b"object")
    fs.rm(f"{folder}/a", recursive=True, maxdepth=1)
    assert names(fs, folder) == ["a/c/d"]


def test_removal_by_a_pattern_asks_for_few_listings(embedded):
    fs = fsspec.filesystem("tidegates3", **s3_options(embedded.endpoint), skip_instance_cache=True)
    folder = f"{Bucket(embedded.endpoint).name}/removal"
    for options in ({}, {"recursive": True, "maxdepth": 1}):
        fs.pipe({f"{folder}/file-{n}": b"1" for n in range(40)})
        embedded.control("DELETE", "counts")
        fs.rm(f"{folder}/*" if not options else folder, **options)
        asked = embedded.control("GET", "counts")["requests"]
        assert asked.pop("DeleteObjects") == 1 and sum(asked.values()) <= 3, asked


# Moves.


def test_a_move_onto_itself_keeps_the_object(fs, tree):
    before = names(fs, tree)
    fs.mv(f"{tree}/one", fs.unstrip_protocol(f"{tree}/one"))
    fs.mv(f"{tree}/one", f"{tree}/")
    fs.mv(f"{tree}/d/", f"{tree}/d", recursive=True)
    fs.mv(f"{tree}/d/*", f"{tree}/d/")
    fs.mv([f"{tree}/one"], [f"{tree}/one"], recursive=True)
    assert names(fs, tree) == before
    assert fs.cat(f"{tree}/one") == b"one"


def test_a_move_into_itself_is_refused(fs, tree):
    before = names(fs, tree)
    for source, target in (("d", "d/sub"), ("d", "d/"), ("d/", "d/b/"), ("one", "one/x")):
        with pytest.raises(ValueError, match="nothing was moved"):
            fs.mv(f"{tree}/{source}", f"{tree}/{target}", recursive=True)
    with pytest.raises(ValueError, match="nothing was moved"):
        fs.mv([f"{tree}/one", f"{tree}/d/a"], [f"{tree}/d/a", f"{tree}/two"])
    with pytest.raises(IsADirectoryError, match="recursive=True"):
        fs.mv(f"{tree}/d", f"{tree}/e")
    assert names(fs, tree) == before


def test_moves(fs, tree):
    fs.mv(f"{tree}/one", f"{tree}/two")
    fs.mv(f"{tree}/d/a", f"{tree}/d-other/")
    assert names(fs, tree) == ["d-other/a", "d-other/f", "d/b/c", "d/b/deep/e", "two"]
    fs.mv(f"{tree}/d", f"{tree}/e", recursive=True)
    fs.mv([f"{tree}/two", f"{tree}/d-other/a"], f"{tree}/g/")
    assert names(fs, tree) == ["d-other/f", "e/b/c", "e/b/deep/e", "g/a", "g/two"]
    # What is too deep to be moved stays.
    fs.mv(f"{tree}/e/b", f"{tree}/h", recursive=True, maxdepth=1)
    assert names(fs, tree) == ["d-other/f", "e/b/deep/e", "g/a", "g/two", "h/c"]
    assert fs.cat(f"{tree}/h/c") == b"d/b/c"
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{tree}/none", f"{tree}/other")


def test_an_object_beside_a_prefix_is_moved(beside):
    fs, folder = beside
    fs.mv(f"{folder}/a", f"{folder}/moved")
    assert names(fs, folder) == ["a/b", "a/c/d", "moved"]
    assert fs.cat(f"{folder}/moved") == b"object"


def test_each_source_of_a_list_has_a_target_of_its_own(fs, tree):
    before = names(fs, tree)
    for sources, targets in [
        (["one", "d/a"], ["two"]),
        (["one", "d/a"], ["two", "two"]),
        (["d/b/c", "d/b/deep/e"], ["two", "two"]),
    ]:
        for call, says in [(fs.mv, "nothing was moved"), (fs.cp, "nothing was copied")]:
            with pytest.raises(ValueError, match=says):
                call([f"{tree}/{name}" for name in sources], [f"{tree}/{name}" for name in targets])
    fs.pipe({f"{tree}/x/p": b"1", f"{tree}/y/p": b"2"})
    for recursive, sources in [(False, ["x/p", "y/p"]), (True, ["x", "y"])]:
        with pytest.raises(ValueError, match="would both go to"):
            fs.mv([f"{tree}/{name}" for name in sources], f"{tree}/out/", recursive=recursive)
    assert names(fs, tree) == sorted([*before, "x/p", "y/p"])


def test_a_name_with_the_signs_of_patterns_is_that_name(fs, folder):
    fs.pipe({f"{folder}/a[1].txt": b"brackets", f"{folder}/a1.txt": b"1"})
    fs.mv([f"{folder}/a[1].txt"], [f"{folder}/b.txt"])
    assert names(fs, folder) == ["a1.txt", "b.txt"] and fs.cat_file(f"{folder}/b.txt") == b"brackets"


def test_what_a_move_does_not_copy_stays_and_is_named(on_embedded):
    fs, folder = on_embedded.fs(skip_instance_cache=True), on_embedded.folder()
    fs.pipe({f"{folder}/d/a": b"1"})
    bucket, key = folder.split("/")
    store = tidegate.Store(f"gs://{bucket}", endpoint_url=fs.storage_options["endpoint_url"], token="anon")
    store.put(f"{key}/d/sub/", b"data")
    store.put(f"{key}/d/mark/", b"")
    with pytest.raises(OSError, match="still there: .*/d/sub/"):
        fs.mv(f"{folder}/d", f"{folder}/e", recursive=True)
    assert [each.key for each in store.list(f"{key}/")] == [f"{key}/d/sub/", f"{key}/e/a", f"{key}/e/mark/"]


def test_a_directory_that_is_empty_is_moved(fs, folder):
    fs.pipe({f"{folder}/d/a": b"1"})
    if getattr(fs, "local_file", False):
        fs.makedirs(f"{folder}/d/empty/deep")
    fs.mv(f"{folder}/d", f"{folder}/e", recursive=True)
    assert names(fs, folder) == ["e/a"] and not fs.exists(f"{folder}/d")


def test_directories_of_azure_are_moved(on_azurite, azurite):
    fs, folder = on_azurite.fs(skip_instance_cache=True), on_azurite.folder()
    fs.pipe({f"{folder}/d/x": b"1", f"{folder}/d/sub/y": b"2"})
    container, key = folder.split("/")
    store = tidegate.Store(f"az://{container}", connection_string=azurite.endpoint.connection)
    for name in ("d/sub", "d/empty"):
        store.put(f"{key}/{name}", b"", metadata={"hdi_isfolder": "true"})
    fs.mv(f"{folder}/d", f"{folder}/e", recursive=True)
    assert [entry.key for entry in store.list(f"{key}/")] == [f"{key}/e/sub/y", f"{key}/e/x"]


@pytest.mark.parametrize("options", [{}, {"recursive": True}])
def test_a_target_that_is_only_a_bucket_is_no_name_for_a_file(fs, folder, options):
    fs.pipe({f"{folder}/a": b"1", f"{folder}/d/b": b"2"})
    bucket = folder.split("/")[0] or "/"
    moves = [([f"{folder}/a"], [bucket]), (f"{folder}/d/*", [bucket])]
    # A path of the disk, and a bucket of the memory, are there.
    if fs.protocol[0] not in ("tidegatefile", "tidegatememory"):
        moves.append((f"{folder}/a", "tide-no-such-bucket"))
    for source, target in moves:
        with contextlib.suppress(OSError, ValueError):
            fs.mv(source, target, **options)
        fs.invalidate_cache()
        kept = [fs.cat_file(name) for name in fs.find(folder)]
        assert sorted(kept) == [b"1", b"2"], (source, target)
    with pytest.raises(OSError):
        fs.cp_file(f"{folder}/a", bucket)


def test_other_texts_of_one_path_are_one_path(on_embedded):
    for options in ({}, {"part_size": 8 << 20}, {"create_only": False}):
        fs, folder = on_embedded.fs(skip_instance_cache=True, **options), on_embedded.folder()
        fs.pipe({f"{folder}/d/a": b"1", f"{folder}/b": b"2"})
        fs.mv(f"{folder}/d/", f"/{folder}/d/", recursive=True)
        fs.mv(f"{folder}/b", f"/{folder}/b")
        with pytest.raises(ValueError, match="nothing was moved"):
            fs.mv([f"{folder}/b", f"{folder}/d/a"], [f"{folder}/x", f"/{folder}/x"])
        with pytest.raises(ValueError, match="nothing was moved"):
            fs.mv(f"{folder}/d/", f"/{folder}/d/sub/", recursive=True)
        with pytest.raises(ValueError, match="nothing was moved"):
            fs.mv(f"/{folder}/d", f"{folder}/d/sub", recursive=True)
        assert names(fs, folder) == ["b", "d/a"], options


def test_the_mark_of_a_directory_that_becomes_a_bucket_goes(on_embedded, embedded):
    fs, folder, other = on_embedded.fs(skip_instance_cache=True), on_embedded.folder(), Bucket(embedded.endpoint).name
    bucket, key = folder.split("/")
    store = tidegate.Store(f"gs://{bucket}", endpoint_url=embedded.url, token="anon")
    store.put(f"{key}/d/", b"")
    store.put(f"{key}/d/a", b"1")
    fs.mv(f"{folder}/d/", other, recursive=True)
    assert names(fs, other) == ["a"]
    assert list(store.list(f"{key}/")) == []


def test_a_move_to_another_bucket(on_minio, minio):
    other = Bucket(minio.endpoint).name
    for options in ({}, {"storage_class": "STANDARD"}, {"part_size": 8 << 20}):
        fs, folder = on_minio.fs(skip_instance_cache=True, **options), on_minio.folder()
        fs.pipe({f"{folder}/a": b"1", f"{folder}/d/b": b"2"})
        fs.mv(f"{folder}/a", f"{other}/a")
        fs.mv(f"{folder}/d", f"{other}/d", recursive=True)
        assert names(fs, folder) == [] and names(fs, other) == ["a", "d/b"]
        assert fs.cat_file(f"{other}/a") == b"1"
        # A whole bucket, into the root of another.
        fs.mv(f"{other}/", f"{folder}/all/", recursive=True)
        assert names(fs, folder) == ["all/a", "all/d/b"] and fs.find(other) == []


@pytest.mark.parametrize("call", ["mv", "cp"])
def test_a_target_bucket_that_is_not_there_is_an_error(on_minio, call):
    fs, folder = on_minio.fs(skip_instance_cache=True), on_minio.folder()
    fs.pipe({f"{folder}/a": b"1", f"{folder}/d/b": b"2"})
    for source, options in [("a", {}), ("d", {"recursive": True})]:
        with pytest.raises(FileNotFoundError, match="bucket"):
            getattr(fs, call)(f"{folder}/{source}", f"there-is-no-such-bucket/{source}", **options)
    assert names(fs, folder) == ["a", "d/b"]


@pytest.fixture
def local(tmp_path):
    (tmp_path / "a/sub").mkdir(parents=True)
    for name in ("a/f", "a/sub/g"):
        (tmp_path / name).write_text(name)
    (tmp_path / "a/f").chmod(0o755)
    return fsspec.filesystem("tidegatefile", skip_instance_cache=True), tmp_path


def test_a_file_that_is_its_own_target_by_a_link_stays(local):
    fs, root = local
    (root / "linked").symlink_to("a")
    (root / "a/to-f").symlink_to("f")
    for source, target, recursive in [
        ("a/", "linked/", True),
        ("a/f", "linked/f", False),
        ("a/f", "a/to-f", False),
        ("linked/f", "a/f", False),
    ]:
        fs.mv(f"{root}/{source}", f"{root}/{target}", recursive=recursive)
        assert (root / "a/f").read_text() == "a/f" and (root / "a/sub/g").read_text() == "a/sub/g"
    for target in ("linked", "linked/x"):
        with pytest.raises(ValueError, match="nothing was moved"):
            fs.mv(f"{root}/a", f"{root}/{target}", recursive=True)
    assert sorted(os.listdir(root / "a")) == ["f", "sub", "to-f"]


def test_a_moved_directory_keeps_modes_and_what_is_no_file_stays(local):
    fs, root = local
    fs.mv(f"{root}/a", f"{root}/b", recursive=True)
    assert not (root / "a").exists() and (root / "b/f").stat().st_mode & 0o777 == 0o755
    (root / "b/sub").chmod(0o700)
    fs.mv(f"{root}/b", f"{root}/a", recursive=True)
    assert (root / "a/sub").stat().st_mode & 0o777 == 0o700
    fs.mv(f"{root}/a", f"{root}/b", recursive=True)
    (root / "b/to-sub").symlink_to("sub")
    (root / "b/broken").symlink_to("nowhere")
    os.mkfifo(root / "b/pipe")
    with pytest.raises(OSError, match="broken.*pipe.*to-sub"):
        fs.mv(f"{root}/b", f"{root}/c", recursive=True)
    assert sorted(os.listdir(root / "b")) == ["broken", "pipe", "to-sub"]
    assert (root / "c/f").read_text() == "a/f" and (root / "c/sub/g").exists()


# Copies.


@pytest.fixture(params=["on_embedded", "in_memory", "on_azurite"])
def slashes(request):
    """A file system, and a store of its bucket with keys that end with a slash: a mark of a directory, and data. (MinIO
    takes no data there, and fake-gcs-server has no such keys.)"""
    place = request.getfixturevalue(request.param)
    fs, folder = place.fs(skip_instance_cache=True), place.folder()
    bucket, key = folder.split("/")
    store = fs._blocking_store(bucket)
    for name, data in {"d/": b"", "d/a": b"1", "d/sub/": b"data", "d/mark/": b"", "d/sub/b": b"2"}.items():
        store.put(f"{key}/{name}", data)

    def keys(below):
        return [each.key.removeprefix(f"{key}/{below}") for each in store.list(f"{key}/{below}")]

    return fs, folder, store, keys


def test_a_tree_is_copied_with_all_keys_that_end_with_a_slash(slashes):
    fs, folder, store, keys = slashes
    all_keys = ["/", "/a", "/mark/", "/sub/", "/sub/b"]
    fs.cp(f"{folder}/d", f"{folder}/e", recursive=True)
    assert keys("e") == all_keys
    fs.cp(f"{folder}/d/", f"{folder}/f/", recursive=True)
    assert keys("f") == all_keys
    fs.cp(f"{folder}/d", f"{folder}/in/", recursive=True)
    assert keys("in/d") == all_keys
    fs.cp(f"{folder}/d/*", f"{folder}/p/", recursive=True)
    assert keys("p") == all_keys[1:]
    fs.cp(f"{folder}/d", f"{folder}/m", recursive=True, maxdepth=1)
    assert keys("m") == ["/a"]
    fs.cp([f"{folder}/d/sub", f"{folder}/d/mark"], [f"{folder}/l", f"{folder}/l2/"])
    fs.cp_file(f"{folder}/d/sub/", f"{folder}/l3/")
    assert keys("l") == ["/", "2/", "3/"]
    key = folder.split("/")[1]
    assert store.get(f"{key}/e/sub/") == store.get(f"{key}/l3/") == b"data"
    assert len(keys("d")) == len(all_keys)


def test_marks_are_copied_on_minio(on_minio):
    fs, folder = on_minio.fs(skip_instance_cache=True), on_minio.folder()
    bucket, key = folder.split("/")
    store = fs._blocking_store(bucket)
    for name in ("d/", "d/a", "d/empty/"):
        store.put(f"{key}/{name}", b"")
    fs.cp(f"{folder}/d", f"{folder}/e", recursive=True)
    assert [each.key for each in store.list(f"{key}/e")] == [f"{key}/e/", f"{key}/e/a", f"{key}/e/empty/"]


def test_a_mark_does_not_stop_a_copy_that_replaces_nothing(on_embedded):
    fs, folder = on_embedded.fs(skip_instance_cache=True, create_only=True), on_embedded.folder()
    bucket, key = folder.split("/")
    store = fs._blocking_store(bucket)
    for name, data in {"d/": b"", "d/a": b"1", "e/": b"", "x/": b"data", "y/": b"other"}.items():
        store.put(f"{key}/{name}", data)
    fs.cp(f"{folder}/d/", f"{folder}/e/", recursive=True)
    assert fs.find(f"{folder}/e") == [f"{folder}/e/a"]
    with pytest.raises(FileExistsError):
        fs.cp(f"{folder}/x/", f"{folder}/y/", recursive=True)
    assert store.get(f"{key}/y/") == b"other"


def test_a_download_warns_of_data_that_no_directory_holds(slashes, tmp_path):
    fs, folder, *_ = slashes
    for _ in range(2):  # The second time, the directories are there.
        with pytest.warns(UserWarning, match="/d/sub/' was not downloaded") as warned:
            fs.get(f"{folder}/d/", str(tmp_path / "d"), recursive=True)
        assert len(warned) == 1
        assert (tmp_path / "d/sub/b").read_bytes() == b"2" and (tmp_path / "d/mark").is_dir()


def test_data_that_a_bucket_cannot_have_is_named(on_embedded, embedded):
    fs, folder, other = on_embedded.fs(skip_instance_cache=True), on_embedded.folder(), Bucket(embedded.endpoint).name
    bucket, key = folder.split("/")
    fs._blocking_store(bucket).put(f"{key}/d/", b"")
    fs._blocking_store(bucket).put(f"{key}/d/a", b"1")
    fs.cp(f"{folder}/d/", other, recursive=True)
    assert fs.find(other) == [f"{other}/a"]
    fs._blocking_store(bucket).put(f"{key}/d/", b"data")
    with pytest.raises(IsADirectoryError, match="/d/"):
        fs.cp(f"{folder}/d/", other, recursive=True)


def test_a_copy_is_made_with_the_options_of_writes_that_concern_copies(on_minio, minio):
    folder = on_minio.folder()
    on_minio.fs().pipe_file(f"{folder}/a", b"1", content_type="text/x-own", metadata={"of": "object"})
    told = []
    fs = on_minio.fs(
        skip_instance_cache=True, strategy="chunked", size_hint=10, content_type="text/x-all", metadata={"of": "all"},
        progress=told.append, part_size=5 << 20, storage_class="STANDARD",
    )  # fmt: skip
    fs.cp_file(f"{folder}/a", f"{folder}/b")
    fs.mv(f"{folder}/b", f"{folder}/c")
    bucket, key = folder.split("/")
    head = minio.endpoint.client().head_object(Bucket=bucket, Key=f"{key}/c")
    assert (head["ContentType"], head["Metadata"]["of"], told) == ("text/x-own", "object", [])
    fs.cp_file(f"{folder}/a", f"{folder}/d", metadata={"of": "call"}, progress=told.append)
    assert minio.endpoint.client().head_object(Bucket=bucket, Key=f"{key}/d")["Metadata"]["of"] == "call" and told
    create_only = on_minio.fs(skip_instance_cache=True, create_only=True)
    with pytest.raises(FileExistsError):
        create_only.cp_file(f"{folder}/a", f"{folder}/d")


def test_a_server_that_makes_no_copies(embedded):
    bucket = Bucket(embedded.endpoint)
    with without_copies(embedded.url) as (url, refused):
        options = s3_options(embedded.endpoint)
        fs = fsspec.filesystem("tidegates3", **{**options, "client_kwargs": {"endpoint_url": url}}, region="us-east-1")
        fs.pipe_file(f"{bucket.name}/a", b"1" * 1000, content_type="text/x-own")
        fs.cp_file(f"{bucket.name}/a", f"{bucket.name}/b")
        assert refused
        fs.mv(f"{bucket.name}/b", f"{bucket.name}/c")
    assert bucket.keys() == ["a", "c"]
    assert bucket.get("c") == b"1" * 1000 and bucket.head("c")["ContentType"] == "text/x-own"


@pytest.mark.parametrize("name", ["version_id", "generation"])
def test_a_version_is_refused_by_every_call(fs, tree, tmp_path, name):
    path, version = f"{tree}/one", {name: "1"}
    local = str(tmp_path / "local")
    for call in (
        lambda: fs.cat_file(path, **version),
        lambda: fs.cat(path, **version),
        lambda: fs.cat_ranges([path], [0], [1], **version),
        lambda: fs.info(path, **version),
        lambda: fs.get_file(path, local, **version),
        lambda: fs.get(path, local, **version),
        lambda: fs.cp_file(path, f"{path}-2", **version),
        lambda: fs.open(path, **version),
        lambda: fs.rm_file(path, **version),
        lambda: fs.sign(path, **version),
        lambda: asyncio.run(fs.open_async(path, **version)),
    ):
        with pytest.raises(ValueError, match=name):
            call()
    assert fs.cat_file(path, **{name: None}) == b"one"


# Buckets.


def test_a_file_creates_no_bucket(minio, monkeypatch):
    for name, value in minio.endpoint.env.items():
        monkeypatch.setenv(name, value)
    client = minio.endpoint.client()

    def buckets():
        return {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}

    before = buckets()
    with pytest.raises(FileNotFoundError):
        with fsspec.open("tidegates3://tidegate-tpyo/x", "wb", skip_instance_cache=True) as file:
            file.write(b"1")
    fs = fsspec.filesystem("tidegates3", skip_instance_cache=True)
    fs.makedirs("tidegate-tpyo", exist_ok=True)
    assert buckets() == before
    fs.mkdir("tidegate-meant")
    assert buckets() == before | {"tidegate-meant"}
    fs.rmdir("tidegate-meant")
