"""Uploads and downloads of files, copies between stores, and synchronized trees."""

import os

import pytest

import tidegate
from reach import reached


def test_upload_and_download(store, tmp_path):
    data = os.urandom(20 << 20)
    (tmp_path / "a").write_bytes(data)
    seen = []
    object = store.upload(tmp_path / "a", "a", content_type="text/x", progress=seen.append)
    assert (object.size, store.head("a").content_type) == (20 << 20, "text/x")
    assert seen[-1].acknowledged == 20 << 20
    assert store.download("a", tmp_path / "deep" / "b").size == 20 << 20
    assert (tmp_path / "deep" / "b").read_bytes() == data
    with pytest.raises(FileExistsError):
        store.download("a", tmp_path / "a", create_only=True)
    with pytest.raises(tidegate.SourceError):
        store.upload(tmp_path / "missing", "b")
    with pytest.raises(TypeError, match="nonsense"):
        store.download("a", tmp_path / "a", nonsense=1)
    assert not store.exists("b")


def test_upload_and_download_by_url(bucket, options, tmp_path):
    (tmp_path / "a").write_text("tide")
    os.utime(tmp_path / "a", (1_000_000_000, 1_000_000_000))
    tidegate.upload(tmp_path / "a", bucket.url("x/a"), preserve=True, **options)
    tidegate.download(bucket.url("x/a"), tmp_path / "b", preserve=True, **options)
    assert (tmp_path / "b").read_text() == "tide"
    assert (tmp_path / "b").stat().st_mtime == 1_000_000_000


def test_a_copy_between_stores_keeps_the_attributes(store, minio_bucket):
    data = os.urandom(20 << 20)
    store.put("a", data, content_type="text/x", metadata={"origin": "test"})
    minio = reached(minio_bucket)
    target = minio_bucket.url("b")
    object = tidegate.copy(f"{store.url}/a", target, source=dict(store._options), target=minio)
    assert object.size == 20 << 20
    head = minio_bucket.head("b")
    assert (head["ContentType"], head["Metadata"]["origin"]) == ("text/x", "test")
    assert minio_bucket.get("b") == data
    with pytest.raises(FileExistsError):
        tidegate.copy(f"{store.url}/a", target, source=dict(store._options), target=minio, create_only=True)
    with pytest.raises(FileNotFoundError):
        tidegate.copy(f"{store.url}/missing", target, source=dict(store._options), target=minio)


def tree(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def photos(tmp_path):
    directory = tmp_path / "photos"
    for name in ["a", "b/c", "b/d/e"]:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)
    return directory


def test_sync_up_and_down(store, photos, tmp_path):
    assert tidegate.sync(photos, store, dry_run=True).planned == [("copy", "a"), ("copy", "b/c"), ("copy", "b/d/e")]
    assert tidegate.sync(photos, store).copied == 3
    again = tidegate.sync(photos, store)
    assert (again.copied, again.unchanged) == (0, 3)
    (photos / "a").write_text("changed")
    assert tidegate.sync(photos, store).copied == 1
    (tmp_path / "down").mkdir()
    assert tidegate.sync(store, tmp_path / "down").copied == 3
    assert tree(tmp_path / "down") == tree(photos)
    assert tidegate.sync(store, tmp_path / "down").unchanged == 3


def test_sync_removes_only_if_told_to(store, photos):
    tidegate.sync(photos, store)
    store.put("extra", b"1")
    assert tidegate.sync(photos, store).removed == 0
    assert tidegate.sync(photos, store, delete=True, dry_run=True).planned == [("remove", "extra")]
    assert store.exists("extra")
    assert tidegate.sync(photos, store, delete=True).removed == 1
    assert not store.exists("extra")


def test_sync_of_an_empty_source_removes_nothing(store, photos, tmp_path):
    tidegate.sync(photos, store)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty is empty"):
        tidegate.sync(tmp_path / "empty", store, delete=True)
    assert len(list(store.list())) == 3
    assert tidegate.sync(tmp_path / "empty", store, delete=True, delete_all=True).removed == 3


def test_sync_that_fails_for_one_object_says_so_and_removes_nothing(store, photos):
    store.put("extra", b"1")
    (photos / "b" / "c").chmod(0)
    if os.geteuid() == 0:
        # Root reads it all the same: a name that no store takes instead.
        (photos / "b" / "c").unlink()
        (photos / "b" / ("x" * 200)).mkdir()
        (photos / "b" / ("x" * 200) / ("y" * 200)).mkdir()
        deep = photos / "b" / ("x" * 200) / ("y" * 200)
        for _ in range(4):
            deep = deep / ("z" * 200)
            deep.mkdir()
        (deep / "file").write_text("1")
    with pytest.raises(tidegate.SyncError) as caught:
        tidegate.sync(photos, store, delete=True)
    report = caught.value.report
    assert (report.copied, report.removed, len(report.failed)) == (2, 0, 1)
    assert store.exists("extra")


def test_sync_does_not_leave_the_directory(store, bucket, tmp_path):
    """Whoever writes into a bucket may choose its keys."""
    for key in ["inside", "/rooted", "a//b"]:
        bucket.put(key, b"1")
    (tmp_path / "down").mkdir()
    with pytest.raises(tidegate.SyncError) as caught:
        tidegate.sync(store, tmp_path / "down")
    assert [key for key, _ in caught.value.report.failed] == ["/rooted", "a//b"]
    assert tree(tmp_path / "down") == {"inside": b"1"}


def test_sync_refuses_trees_of_which_one_is_in_the_other(store, photos, monkeypatch):
    monkeypatch.chdir(photos)
    url = store.url
    store.put("src/a", b"1")
    before = tree(photos)
    pairs = [
        ("b", "."),
        (".", "b"),
        ("b", photos / "b"),
        (photos, photos / "missing" / "backup"),
        (photos / "b" / "..", photos),
        (store.within("src"), store),
        (store, store.within("backup")),
        (store, store),
        (tidegate.Store("memory://overlap/src"), tidegate.Store("memory://overlap")),
    ]
    for source, target in pairs:
        for options in ({"delete": True}, {"dry_run": True}, {}):
            with pytest.raises(tidegate.InvalidInputError, match="overlap: one is in the other") as caught:
                tidegate.sync(source, target, **options)
            assert caught.value.kind == "invalid_input"
    os.symlink(photos, photos.parent / "link")
    with pytest.raises(tidegate.InvalidInputError, match="link/b.*photos.*overlap"):
        tidegate.sync(photos.parent / "link" / "b", photos, delete=True)
    assert tree(photos) == before
    assert [entry.key for entry in store.list()] == ["src/a"], url


def test_sync_of_trees_side_by_side_is_no_overlap(store, photos):
    tidegate.sync(photos, store.within("a"))
    assert tidegate.sync(store.within("a"), store.within("ab")).copied == 3
    (photos.parent / "photos-b").mkdir()
    assert tidegate.sync(photos / "b", photos.parent / "photos-b").copied == 2


def test_sync_keeps_what_the_target_has_in_place_of_names_that_are_no_objects(store, photos, tmp_path):
    os.symlink("nowhere", photos / "broken")
    os.mkfifo(photos / "pipe")
    (tmp_path / "linked").mkdir()
    os.symlink(tmp_path / "linked", photos / "directory")
    for key in ["broken", "pipe", "directory/a", "directory-b", "extra"]:
        store.put(key, b"1")
    report = tidegate.sync(photos, store, delete=True)
    assert (report.removed, report.left_out) == (2, 3)
    kept = [entry.key for entry in store.list()]
    assert kept == ["a", "b/c", "b/d/e", "broken", "directory/a", "pipe"]
