"""Uploads that one process prepares and another commits or abandons."""

import asyncio
import os
import pickle

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
