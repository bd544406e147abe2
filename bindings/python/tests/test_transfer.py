"""Uploads and downloads of files, copies between stores, and synchronized trees."""

import asyncio
import contextlib
import gc
import http.server
import os
import threading
import warnings
from pathlib import Path
from typing import ClassVar

import pytest

import tidegate
import tidegate.aio
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
    with pytest.raises(FileNotFoundError):
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
    with pytest.raises(ValueError, match="the source is empty"):
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


def test_sync_below_a_prefix_with_an_empty_name_replaces_no_other_object(minio_bucket, photos):
    """MinIO drops slashes at the beginning of a key: `/x/a` would be `x/a`."""
    minio_bucket.put("x/a", b"another")
    url, target = minio_bucket.url("/x"), reached(minio_bucket)
    with pytest.raises(tidegate.SyncError, match="drops empty names"):
        tidegate.sync(photos, url, target_options=target)
    assert minio_bucket.keys() == ["x/a"] and minio_bucket.get("x/a") == b"another"


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
    os.symlink("nowhere", photos / "link")
    os.mkfifo(photos / "pipe")
    (tmp_path / "linked").mkdir()
    os.symlink(tmp_path / "linked", photos / "directory")
    for key in ["link", "pipe", "directory/a", "directory-b", "extra"]:
        store.put(key, b"1")
    with pytest.raises(tidegate.SyncError, match="a symbolic link that leads nowhere"):
        tidegate.sync(photos, store, delete=True)
    assert store.exists("extra")
    report = tidegate.sync(photos, store, delete=True, links="skip")
    assert (report.removed, report.left_out) == (2, 3)
    kept = [entry.key for entry in store.list()]
    assert kept == ["a", "b/c", "b/d/e", "directory/a", "link", "pipe"]


class Unordered(http.server.BaseHTTPRequestHandler):
    """A bucket that lists directory by directory, as accounts of Azure with a hierarchical namespace do."""

    protocol_version = "HTTP/1.1"
    pages: ClassVar = [["a/b"], ["a-b", "a.c"]]
    asked: ClassVar[list] = []

    def log_message(self, *_):
        pass

    def answer(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.asked.append(self.command)
        is_last = "continuation-token" in self.path
        more = "false" if is_last else "true"
        entry = "<Contents><Key>t/{0}</Key><Size>3</Size><LastModified>1970-01-01T00:00:01Z</LastModified></Contents>"
        entries = "".join(entry.format(key) for key in self.pages[is_last])
        token = f"<IsTruncated>{more}</IsTruncated><NextContinuationToken>1</NextContinuationToken>"
        body = f"<ListBucketResult>{token}{entries}</ListBucketResult>" if self.command == "GET" else ""
        self.send_response(200)
        self.send_header("etag", '"x"')
        self.send_header("x-amz-request-id", "1")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer


def test_sync_with_a_listing_out_of_order_removes_nothing(tmp_path):
    keys = ["a-b", "a.c", "a/b"]
    for directory in ["all", "some"]:
        for key in keys[: 3 if directory == "all" else 1]:
            path = tmp_path / directory / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(key)
            os.utime(path, (1, 1))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Unordered) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        store = tidegate.Store(
            "s3://bucket/t", endpoint_url=endpoint, access_key="a", secret_key="b", region="us-east-1"
        )
        for source, target in [(tmp_path / "all", store), (store, tmp_path / "all"), (tmp_path / "some", store)]:
            with pytest.raises(tidegate.Error, match="a-b: the store promises to list keys in order") as caught:
                tidegate.sync(source, target, delete=True)
            assert caught.value.kind == "unsupported"
        server.shutdown()
    assert not {"DELETE", "POST"} & set(Unordered.asked)
    assert sorted(tree(tmp_path / "all")) == keys


def test_a_copy_from_google_keeps_the_attributes(embedded, bucket, memory):
    """The answer that has the bytes has none of the attributes there."""
    source = {"endpoint_url": embedded.url, "token": "anonymous"}
    google = tidegate.Store(f"gs://{bucket.name}", **source)
    google.put("m", b"x", content_type="text/x", cache_control="no-cache", metadata={"origin": "test"})
    for way in ["copy", "sync"]:
        if way == "copy":
            tidegate.copy(f"{google.url}/m", f"{memory.url}/m", source=source)
        else:
            tidegate.sync(google, memory)
        head = memory.head("m")
        kept = (head.content_type, head.cache_control, head.metadata)
        assert kept == ("text/x", "no-cache", {"origin": "test"}), way
        memory.delete("m")


def test_a_copy_between_stores_keeps_the_tags(store, minio_bucket):
    store.put("a", b"x", tags={"project": "tide"})
    minio = tidegate.Store(minio_bucket.url("").rstrip("/"), **reached(minio_bucket))
    tidegate.copy(f"{store.url}/a", f"{minio.url}/b", source=dict(store._options), target=dict(minio._options))
    tidegate.sync(store, minio)
    tidegate.copy(
        f"{store.url}/a", f"{minio.url}/c", source=dict(store._options), target=dict(minio._options), tags={"own": "1"}
    )
    assert [minio.tags(key) for key in "abc"] == [{"project": "tide"}, {"project": "tide"}, {"own": "1"}]


def test_trees_are_copied_moved_compared_and_removed(store, options, photos, tmp_path):
    trees = tidegate.trees
    events = list(trees.sync(photos, store, exclude="d"))
    assert sorted((event.kind, event.source) for event in events) == [
        ("copied", str(photos / "a")),
        ("copied", str(photos / "b" / "c")),
    ]
    run = trees.check(photos, store)
    assert [(event.key, event.message) for event in run] == [("b/d/e", "missing")]
    assert run.report_at_end().different == 1
    url = store.url
    moved = trees.move(f"{url}/b/", f"{url}/moved/", recursive=True, source_options=options, target_options=options)
    assert moved.report().copied == 1
    down = trees.copy(f"{url}/**", tmp_path / "down", source_options=options, patterns=True)
    assert down.report().copied == 2
    assert tree(tmp_path / "down") == {"a": b"a", "moved/c": b"b/c"}
    planned = trees.remove(f"{url}/*", store_options=options, dry_run=True, patterns=True)
    planned = [event for event in planned if event.kind != "notice"]
    assert (planned[0].kind, planned[0].target, planned[0].dry_run) == ("removed", f"{url}/a", True)
    # `moved/` matches, and -r would remove what is below.
    assert [event.kind for event in planned[1:]] == ["warning"] and "1 directory that matches" in planned[1].message
    with pytest.raises(FileNotFoundError):
        trees.remove(f"{url}/none", store_options=options).report()
    assert trees.remove(url, store_options=options, recursive=True).report().removed == 2


def test_a_run_that_is_stopped_removes_nothing_more(store, options, photos):
    tidegate.sync(photos, store)
    with tidegate.trees.remove(store.url, store_options=options, recursive=True) as run:
        assert run.progress().objects == 0
    with pytest.raises(tidegate.Error, match="stopped before the end"):
        run.report()
    assert len(list(store.list())) == 3


def test_a_loop_over_a_run_ends_with_what_its_report_would_raise(store, photos, tmp_path):
    with pytest.raises(FileNotFoundError):
        for _ in tidegate.trees.sync(tmp_path / "none", store):
            pass

    async def main():
        async for _ in tidegate.trees.sync(tmp_path / "none", store):
            pass

    with pytest.raises(FileNotFoundError):
        asyncio.run(main())
    (photos / "bad").symlink_to("nowhere")
    events = []
    with pytest.raises(tidegate.trees.IncompleteError, match="leads nowhere"):
        events.extend(tidegate.trees.sync(photos, store))
    stopped = tidegate.trees.sync(photos, store)
    stopped.stop()
    assert list(stopped) == []
    with pytest.warns(RuntimeWarning, match="dropped before its end"):
        next(iter(tidegate.trees.copy(photos, store.url_of("again"), recursive=True, target_options=store._options)))
        gc.collect()


def test_an_empty_list_of_what_to_include_is_refused(store, photos):
    tidegate.sync(photos, store)
    for include in ([], "", [""]):
        with pytest.raises(ValueError, match="include: there is no pattern"):
            tidegate.trees.remove(store.url, recursive=True, include=include, store_options=store._options)
    assert len(list(store.list())) == 3


def test_options_of_trees_are_named_if_they_are_wrong(store, photos):
    with pytest.raises(TypeError, match="deleet"):
        tidegate.trees.sync(photos, store, deleet=True)
    with pytest.raises(ValueError, match='compare: "age" is not one of'):
        tidegate.trees.sync(photos, store, compare="age")
    with pytest.raises(ValueError, match="filter: 'x' is no"):
        tidegate.trees.sync(photos, store, filter=["x"])


def test_trees_in_asyncio(store, photos):
    async def main():
        run = tidegate.aio.trees.sync(photos, store)
        assert [event.kind async for event in run] == ["copied"] * 3
        assert (await tidegate.aio.trees.check(photos, store)).different == 0

    asyncio.run(main())


def test_events_that_were_not_taken_are_not_lost(store, photos, tmp_path):
    (photos / "bad").symlink_to("nowhere")
    run = tidegate.trees.sync(photos, store)
    for _ in run:
        break
    with pytest.raises(tidegate.trees.IncompleteError, match="leads nowhere") as caught:
        run.report()
    assert (caught.value.report.copied, len(caught.value.failures)) == (3, 1)
    with pytest.raises(tidegate.trees.IncompleteError):
        run.report()


class TestLocalPaths:
    """What is given where a path of this machine is expected."""

    @pytest.fixture
    def here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        return tmp_path

    @pytest.mark.parametrize("place", ["s3://bkt/x", "memory://b/x", "S3://bkt/x", Path("s3://bkt/x"), "gs:/bkt/x"])
    def test_urls_are_refused(self, memory, here, place):
        memory.put("a", b"1")
        url, text = memory.url_of("a"), str(place)
        awaited = tidegate.aio.Store(memory.url)
        for call in (
            lambda: tidegate.download(url, place),
            lambda: tidegate.upload(place, url),
            lambda: memory.download("a", place),
            lambda: memory.upload(place, "a"),
            lambda: asyncio.run(awaited.download("a", place)),
            lambda: asyncio.run(awaited.upload(place, "a")),
            lambda: asyncio.run(tidegate.aio.download(url, place)),
            lambda: asyncio.run(tidegate.aio.upload(place, url)),
        ):
            with pytest.raises(tidegate.InvalidInputError, match="this is (a URL|no URL: did you mean)") as raised:
                call()
            assert f"a local path of this name is written ./{text}" in str(raised.value)
        assert not list(here.iterdir())

    @pytest.mark.parametrize("scheme", ["file://", "file:", "FILE://", "file://localhost", "file://LOCALHOST"])
    def test_file_urls_are_decoded(self, memory, here, scheme):
        memory.put("a", b"1")
        place = f"{scheme}{here}/a%20b"
        tidegate.download(memory.url_of("a"), place)
        assert (here / "a b").read_bytes() == b"1"
        assert tidegate.open(place, "rb").read() == b"1"
        assert tidegate.upload(place, memory.url_of("b")).size == 1
        if "//" in scheme:
            assert tidegate.trees.copy(place, memory.url_of("c")).report().copied == 1
        assert tidegate.Store(f"{scheme}{here}").get("a b") == b"1"
        asyncio.run(tidegate.aio.Store(memory.url).download("b", place))
        assert [path.name for path in here.iterdir()] == ["a b"]

    def test_paths_that_look_like_urls_can_be_written(self, memory, here):
        memory.put("a", b"1")
        memory.download("a", "./s3://bkt/x")
        assert (here / "s3:/bkt/x").read_bytes() == b"1"
        memory.download("a", os.fsencode(here / "b"))
        assert (here / "b").read_bytes() == b"1"

    @pytest.mark.parametrize("url", [b"/tmp/x", 7, None])
    def test_urls_are_text(self, url, memory):
        for call in (
            lambda: tidegate.open(url),
            lambda: tidegate.Store(url),
            lambda: tidegate.copy(url, "memory://b/c"),
            lambda: tidegate.download(url, "x"),
            lambda: tidegate.aio.open(url),
            lambda: tidegate.trees.copy("x", url),
            lambda: tidegate.trees.sync(url, "x"),
        ):
            with pytest.raises(TypeError, match="a URL or path is a str or an os.PathLike"):
                call()

    def test_a_command_is_a_list(self):
        for command in ("echo hi", b"echo hi", Path("echo")):
            with pytest.raises(TypeError, match="a command is a list of words"):
                tidegate.trees.from_command(command, "memory://b/c")


class TestRunsThatAreNeverBegun:
    RUNS: ClassVar = {
        "copy": lambda url: tidegate.trees.copy(f"{url}/a", f"{url}/b"),
        "move": lambda url: tidegate.trees.move(f"{url}/a", f"{url}/b"),
        "sync": lambda url: tidegate.trees.sync(url, f"{url}-other"),
        "check": lambda url: tidegate.trees.check(url, f"{url}-other"),
        "remove": lambda url: tidegate.trees.remove(f"{url}/a"),
        "from_command": lambda url: tidegate.trees.from_command(["echo", "1"], f"{url}/b"),
    }

    @pytest.mark.parametrize("name", RUNS)
    def test_they_are_told_of(self, memory, name):
        memory.put("a", b"1")
        with pytest.warns(RuntimeWarning, match=f"the run of {name} was never begun") as warned:
            self.RUNS[name](memory.url)
        assert warned[0].filename == __file__
        with pytest.warns(RuntimeWarning, match="was never begun"), self.RUNS[name](memory.url):
            pass
        assert [entry.key for entry in memory.list()] == ["a"]

    @pytest.mark.parametrize("name", RUNS)
    def test_nothing_is_told_of_the_others(self, memory, name):
        memory.put("a", b"1")
        start = self.RUNS[name]

        async def main():
            await start(memory.url)
            async for _ in start(memory.url):
                pass

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            start(memory.url).stop()
            with pytest.raises(LookupError), start(memory.url):
                raise LookupError
            if name in ("check", "sync", "from_command"):
                with contextlib.suppress(tidegate.Error):
                    asyncio.run(main())
                for _ in start(memory.url):
                    pass
            start(memory.url).report()


def test_options_of_a_side_do_not_go_with_a_store(memory, tmp_path):
    for call in (tidegate.sync, tidegate.trees.sync, tidegate.trees.check):
        with pytest.raises(TypeError, match="`target_options` goes with a URL"):
            call(tmp_path, memory, target_options={"regoin": "x"})
        with pytest.raises(TypeError, match="`source_options` goes with a URL"):
            call(memory, tmp_path, source_options={"region": "x"})
    with pytest.raises(TypeError, match="`target_options` goes with a URL"):
        asyncio.run(tidegate.aio.sync(tmp_path, memory, target_options={"region": "x"}))
