"""Uploads that one process prepares and another commits or abandons."""

import asyncio
import gc
import os
import pickle
import warnings
from pathlib import Path

import pytest

import tidegate
import tidegate.aio


@pytest.mark.parametrize("create_only", [False, True])
def test_another_process_commits_what_was_prepared(store, create_only):
    data = os.urandom(300_077)
    writer = store.writer("k", create_only=create_only)
    writer.write(data)
    pending = writer.prepare()
    assert writer.closed and "prepared" in repr(writer)
    assert (pending.key, pending.size, pending.warning) == ("k", len(data), None)
    assert not store.exists("k")
    again = tidegate.Pending.from_json(pending.to_json())
    assert again == pending == pickle.loads(pickle.dumps(pending))
    assert "http" not in repr(pending).replace(pending.url, "")
    assert store.commit(again).size == len(data)
    assert store.commit(again).size == len(data)
    assert store.get("k") == data
    with pytest.raises(tidegate.ClosedError):
        store.abandon(again)


def test_what_is_abandoned_is_lost(store):
    with store.writer("k") as writer:
        writer.write(b"few")
        pending = writer.prepare()
    store.abandon(pending)
    store.abandon(pending)
    with pytest.raises(tidegate.SessionLostError):
        store.commit(pending)
    assert not store.exists("k")


def test_a_writer_that_has_ended_or_failed_is_not_prepared(store):
    writer = store.writer("k")
    writer.prepare()
    with pytest.raises(ValueError, match="prepared"):
        writer.write(b"more")
    with pytest.raises(ValueError):
        writer.prepare()
    with pytest.raises(ValueError, match="lifetime"):
        store.writer("k").prepare(lifetime=-1)
    with pytest.raises(tidegate.Error, match="no pending upload"):
        tidegate.Pending.from_json("{}")


@pytest.mark.parametrize("create_only", [False, True])
def test_another_process_continues_from_a_point(store, create_only):
    data = os.urandom(600_001)
    writer = store.writer("k", create_only=create_only, content_type="text/x")
    writer.write(data[:300_000])
    point = writer.persist()
    assert (point.key, point.size, point.warning) == ("k", 300_000, None)
    writer.write(b"behind the point, and lost")
    with pytest.warns(tidegate.NotPublishedWarning, match="last point"):
        del writer
        gc.collect()
    again = tidegate.Resumable.from_json(point.to_json())
    assert again == point == pickle.loads(pickle.dumps(point))
    assert "http" not in repr(point).replace(point.url, "")
    with store.resume(again) as resumed:
        assert resumed.tell() == 300_000
        resumed.write(data[300_000:])
    assert store.get("k") == data
    assert store.head("k").content_type == "text/x"
    with pytest.raises(tidegate.SessionLostError):
        store.resume(again)
    assert [entry.key for entry in store.list()] == ["k"]


def test_a_point_is_given_up_or_superseded(store):
    writer = store.writer("k")
    first = writer.persist()
    writer.write(b"more")
    second = writer.persist(lifetime=3600)
    store.forget(first)
    assert second.until == first.until, "one record speaks for both"
    store.abandon(second)
    with pytest.raises(tidegate.SessionLostError):
        store.resume(second)
    with pytest.raises(tidegate.SessionLostError):
        writer.close()
    with pytest.raises(ValueError):
        writer.persist()
    with pytest.raises(tidegate.Error, match="no point"):
        tidegate.Resumable.from_json("{}")
    assert list(store.list()) == []


def test_a_point_in_asyncio(store):
    async def main():
        target = tidegate.aio.Store(store.url, **dict(store._options))
        async with target.writer("k") as writer:
            await writer.write(b"bytes")
            point = await writer.persist()
            await writer.discard()
        with pytest.raises(tidegate.SessionLostError):
            await target.resume(point)
        writer = await target.writer("k")
        await writer.write(b"bytes")
        point = await writer.persist()
        async with target.resume(point) as resumed:
            await resumed.write(b" and more")
        assert await target.get("k") == b"bytes and more"
        await writer.discard()
        with pytest.raises(tidegate.ClosedError):
            await target.abandon(point)

    asyncio.run(main())


def test_the_same_in_asyncio(store):
    async def main():
        target = tidegate.aio.Store(store.url, **dict(store._options))
        writer = await target.writer("k")
        await writer.write(b"bytes")
        pending = await writer.prepare(lifetime=3600)
        assert not await target.exists("k")
        assert (await target.commit(pending)).size == 5
        with pytest.raises(tidegate.ClosedError):
            await target.abandon(pending)
        assert await target.get("k") == b"bytes"

    asyncio.run(main())


def test_the_example_of_the_docs_commits_what_was_prepared_elsewhere(store):
    """docs/PENDING.md: the committer, with the test's store in place of the bucket."""
    text = (Path(__file__).resolve().parents[3] / "docs" / "PENDING.md").read_text()
    example = text.split("```python\n")[1].split("```")[0]
    assert 'store = tidegate.Store("s3://warehouse/t")' in example
    names = {"tidegate": tidegate, "store": store}
    exec(example.split('"s3://warehouse/t")')[1], names)
    results = [names["work"](number, b"rows") for number in range(2)]
    assert not store.exists("part-0.parquet")
    for _ in range(2):
        names["commit"](results)
    assert sorted(entry.key for entry in store.list()) == ["part-0.parquet", "part-1.parquet"]


def written(store, *keys):
    writers = [store.writer(key) for key in keys]
    for key, writer in zip(keys, writers, strict=True):
        writer.write(key.encode())
    return writers


def keys(store):
    return sorted(entry.key for entry in store.list())


def test_a_set_is_published_with_its_pointer(store):
    writers = written(store, "a", "b")
    manifest = store.prepare_all("pointer", writers)
    assert all(writer.closed and "prepared" in repr(writer) for writer in writers)
    assert [pending.key for pending in manifest.pending] == ["a", "b"] and manifest.pointer == "pointer"
    again = tidegate.Manifest.from_json(manifest.to_json())
    assert again == manifest == pickle.loads(pickle.dumps(manifest)) == tidegate.Manifest("pointer", manifest.pending)
    with pytest.raises(tidegate.NotFoundError):
        store.roll_forward("pointer")
    assert [each.key for each in store.commit_all(again)] == ["a", "b"]
    assert keys(store) == ["a", "b", "pointer"]
    assert store.roll_forward("pointer") is None
    with pytest.raises(tidegate.ClosedError):
        store.abandon_all(manifest)
    with pytest.raises(tidegate.ClosedError):
        store.abandon_set("pointer")


def test_a_set_with_a_lost_upload_is_not_begun(store):
    manifest = store.prepare_all("pointer", written(store, "a", "b"))
    store.abandon(manifest.pending[1])
    with pytest.raises(tidegate.SessionLostError, match="not begun"):
        store.commit_all(manifest)
    assert [entry for entry in keys(store) if not entry.startswith(".tidegate/")] == []
    store.abandon_all(manifest)
    assert keys(store) == []
    with pytest.raises(tidegate.NotFoundError):
        store.abandon_set("pointer")


def test_a_set_with_a_writer_that_has_ended_or_failed_is_not_prepared(store):
    open_one, ended = written(store, "a", "b")
    ended.discard()
    with pytest.raises(tidegate.ClosedError):
        store.prepare_all("pointer", [open_one, ended])
    assert not open_one.closed, "it was not touched"
    # Two uploads of one key make no set.
    with pytest.raises(tidegate.InvalidInputError):
        store.prepare_all("pointer", [open_one, *written(store, "a")])
    assert open_one.closed and keys(store) == []


def test_a_set_in_asyncio(store):
    async def main():
        target = tidegate.aio.Store(store.url, **dict(store._options))
        writers = [await target.writer(key) for key in ("a", "b")]
        manifest = await target.prepare_all("pointer", writers, lifetime=3600)
        assert len(await target.commit_all(manifest)) == 2
        assert await target.roll_forward("pointer") is None
        other = await target.prepare_all("other", [await target.writer("c")])
        await target.abandon_all(other)
        assert keys(store) == ["a", "b", "pointer"]

    asyncio.run(main())


def test_a_warning_that_is_an_error_does_not_take_the_upload(store, bucket, caplog):
    ends = {"ID": "ends", "Status": "Enabled", "Filter": {"Prefix": ""}}
    rule = {**ends, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}
    bucket.client.put_bucket_lifecycle_configuration(Bucket=bucket.name, LifecycleConfiguration={"Rules": [rule]})
    with pytest.warns(UserWarning, match="lifecycle rule"):
        store.abandon(store.writer("k").prepare())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pending = store.writer("k").prepare()
        writer = store.writer("other")
        point = writer.persist()
        writer.discard()
        manifest = store.prepare_all("pointer", written(store, "a"))
    for each in (pending, point, manifest.pending[0]):
        assert "lifecycle rule" in each.warning
        assert f"{each.url}/{each.key}: {each.warning}" in caplog.text
    assert store.commit(pending).size == 0
    assert len(store.commit_all(manifest)) == 1
