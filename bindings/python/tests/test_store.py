"""What a store does with whole objects."""

import datetime
import os
import secrets
import urllib.request

import numpy
import pytest

import tidegate
from reach import reached


@pytest.fixture(params=["embedded", "minio", "memory", "directory"])
def any_store(request, tmp_path):
    if request.param == "memory":
        return request.getfixturevalue("memory")
    if request.param == "directory":
        (tmp_path / "store").mkdir()
        return tidegate.Store(tmp_path / "store")
    bucket = request.getfixturevalue("bucket" if request.param == "embedded" else "minio_bucket")
    return tidegate.Store(bucket.url().rstrip("/"), **reached(bucket))


def test_put_get_head_delete(any_store):
    object = any_store.put("a/b.json", b'{"rows": 3}')
    assert (object.key, object.size) == ("a/b.json", 11)
    assert any_store.get("a/b.json") == b'{"rows": 3}'
    assert any_store.get_range("a/b.json", 2) == b'rows": 3}'
    assert any_store.get_range("a/b.json", 2, 6) == b"rows"
    assert any_store.get_range("a/b.json", 9, 100) == b"3}"
    head = any_store.head("a/b.json")
    assert head.is_same(object)
    assert abs(datetime.datetime.now(datetime.UTC) - head.modified) < datetime.timedelta(minutes=1)
    assert any_store.exists("a/b.json")
    any_store.delete("a/b.json")
    assert not any_store.exists("a/b.json")
    any_store.delete("a/b.json")


def test_an_empty_object(any_store):
    assert any_store.put("empty", b"").size == 0
    assert any_store.get("empty") == b""
    assert any_store.reader("empty").read() == b""


def test_a_large_object(any_store):
    data = os.urandom(20 << 20)
    any_store.put("a", data)
    assert any_store.get("a") == data
    assert any_store.get("a", progress=lambda _: None) == data


def test_ranges_come_in_the_order_in_which_they_were_asked_for(any_store):
    data = os.urandom(3 << 20)
    any_store.put("a", data)
    ranges = [(2_000_000, 2_000_100), (0, 10), (5, 20), (1 << 20, 1 << 20), (7, 8), (0, 3 << 20)]
    assert any_store.get_ranges("a", ranges) == [data[start:end] for start, end in ranges]
    assert any_store.get_ranges("a", []) == []
    with pytest.raises(ValueError, match="ends before"):
        any_store.get_ranges("a", [(5, 3)])
    with pytest.raises(ValueError, match="past the object's end"):
        any_store.get_ranges("a", [(0, (3 << 20) + 1)])


def test_listing(any_store):
    for key in ["t/a", "t/b", "t/sub/c", "u"]:
        any_store.put(key, b"1")
    assert [entry.key for entry in any_store.list()] == ["t/a", "t/b", "t/sub/c", "u"]
    assert [entry.key for entry in any_store.list("t/", start_after="t/a")] == ["t/b", "t/sub/c"]
    shallow = list(any_store.list("t/", recursive=False))
    assert [entry.key for entry in shallow] == ["t/a", "t/b", "t/sub/"]
    assert [type(entry) for entry in shallow] == [tidegate.Object, tidegate.Object, tidegate.Prefix]
    assert [entry.key for entry in any_store.within("t").list()] == ["a", "b", "sub/c"]
    assert list(any_store.list("none")) == []


def test_a_listing_of_several_pages(store):
    keys = [f"{number:05}" for number in range(2500)]
    import asyncio

    import tidegate.aio

    async def fill():
        target = tidegate.aio.Store(store.url, **dict(store._options))
        await asyncio.gather(*(target.put(key, b"1") for key in keys))

    asyncio.run(fill())
    assert [entry.key for entry in store.list()] == keys
    report = store.delete_many(keys)
    assert report == (2500, [])
    assert list(store.list()) == []


def test_attributes(store, bucket):
    object = store.put(
        "a",
        b"1",
        content_type="text/x-tide",
        cache_control="max-age=60",
        content_disposition="attachment",
        content_language="en",
        metadata={"Origin": "test"},
        tags={"team": "tide"},
    )
    head = bucket.head("a")
    assert (head["ContentType"], head["CacheControl"]) == ("text/x-tide", "max-age=60")
    assert head["Metadata"]["origin"] == "test"
    described = store.head("a")
    assert (described.content_type, described.content_language) == ("text/x-tide", "en")
    assert described.metadata["origin"] == "test"
    assert store.tags("a") == {"team": "tide"}
    assert object.key == "a"


def test_conditions(store):
    first = store.put("a", b"1")
    with pytest.raises(FileExistsError):
        store.put("a", b"2", create_only=True)
    second = store.put("a", b"2", replaces=first)
    with pytest.raises(tidegate.ReplacedError):
        store.put("a", b"3", replaces=first)
    with pytest.raises(tidegate.ReplacedError):
        store.get("a", if_unchanged=first)
    assert store.get("a", if_unchanged=second) == b"2"
    with pytest.raises(tidegate.ReplacedError):
        store.delete("a", if_unchanged=first)
    store.delete("a", if_unchanged=second)
    assert not store.exists("a")


def test_copy_and_rename(store, memory):
    store.put("a", b"1", metadata={"origin": "test"})
    store.copy("a", "b")
    assert store.head("b").metadata["origin"] == "test"
    store.copy("a", "c", to=store.within("sub"), content_type="text/x")
    assert store.head("sub/c").content_type == "text/x"
    with pytest.raises(FileExistsError):
        store.copy("a", "b", create_only=True)
    with pytest.raises(tidegate.UnsupportedError):
        store.copy("a", "b", to=memory)
    with pytest.raises(ValueError, match="strategy"):
        store.copy("a", "d", strategy="put")
    store.rename("a", "z")
    assert not store.exists("a") and store.get("z") == b"1"


def test_a_copy_may_leave_metadata_and_tags_behind(minio_bucket):
    options = reached(minio_bucket)
    store = tidegate.Store(minio_bucket.url(""), **options)
    given = {"metadata": {"origin": "test"}, "tags": {"team": "a"}, "content_type": "text/x"}
    store.put("a", b"1", **given)
    store.copy("a", "b", metadata={}, tags={})
    tidegate.copy(minio_bucket.url("a"), minio_bucket.url("c"), source=options, target=options, tags={})
    assert (store.head("c").metadata, store.tags("c")) == ({"origin": "test"}, {})
    assert (store.head("b").metadata, store.tags("b"), store.head("b").content_type) == ({}, {}, "text/x")
    # To the same key.
    for taken in ["metadata", "tags"]:
        given[taken] = {}
        store.copy("a", "a", **{taken: {}})
        assert (store.head("a").metadata, store.tags("a")) == (given["metadata"], given["tags"])


def test_a_copy_through_this_machine_may_leave_metadata_and_tags_behind(store, minio_bucket):
    store.put("a", b"1", metadata={"origin": "test"}, tags={"team": "a"})
    minio = reached(minio_bucket)
    target = tidegate.Store(minio_bucket.url(""), **minio)
    for options in [{}, {"metadata": {}}, {"tags": {}}]:
        tidegate.copy(f"{store.url}/a", minio_bucket.url("b"), source=dict(store._options), target=minio, **options)
        assert target.head("b").metadata == options.get("metadata", {"origin": "test"})
        assert target.tags("b") == options.get("tags", {"team": "a"})


def test_a_rename_to_another_spelling_of_the_key_removes_nothing(minio_bucket):
    """MinIO drops slashes at the beginning of a key: both names are one object."""
    store = tidegate.Store(minio_bucket.url().rstrip("/"), **reached(minio_bucket))
    store.put("a/b", b"the only copy")
    for name, other in [("a/b", "/a/b"), ("/a/b", "a/b")]:
        with pytest.raises(tidegate.InvalidInputError, match="empty names"):
            store.rename(name, other)
    assert store.get("a/b") == b"the only copy" and minio_bucket.keys() == ["a/b"]


def test_presign(store):
    store.put("a", b"public")
    with urllib.request.urlopen(store.presign("a", 60), timeout=10) as response:
        assert response.read() == b"public"
    request = urllib.request.Request(store.presign("b", 60, method="PUT"), data=b"theirs", method="PUT")
    with urllib.request.urlopen(request, timeout=10) as response:
        assert response.status == 200
    assert store.get("b") == b"theirs"
    with pytest.raises(ValueError, match="POST"):
        store.presign("a", method="POST")


@pytest.mark.parametrize(
    "data",
    [
        b"tide" * 4,
        bytearray(b"tide" * 4),
        memoryview(b"tide" * 4),
        memoryview(b"xtxixdxex" * 4)[1::2][:16],
        numpy.frombuffer(b"tide" * 4, dtype=numpy.uint8),
        numpy.frombuffer(b"tide" * 4, dtype=numpy.float32),
        numpy.frombuffer(b"tide" * 4, dtype=numpy.float64).reshape(1, 2),
    ],
    ids=["bytes", "bytearray", "memoryview", "strided", "uint8", "float32", "matrix"],
)
def test_every_buffer_is_taken(memory, data):
    expected = bytes(data) if isinstance(data, bytes | bytearray | memoryview) else data.tobytes()
    memory.put("put", data)
    with memory.writer("write") as file:
        assert file.write(data) == len(expected)
    assert memory.get("put") == memory.get("write") == expected


def test_a_buffer_that_changes_after_its_write_changes_nothing(memory):
    data = bytearray(b"a" * (2 << 20))
    with memory.writer("a") as file:
        file.write(data)
        data[:] = b"b" * len(data)
    assert set(memory.get("a")) == {ord("a")}


def test_progress_is_called_and_ends_with_all_bytes(store):
    seen = []
    store.put("a", bytes(20 << 20), progress=seen.append)
    assert seen[-1].acknowledged == 20 << 20
    assert seen[-1].requests >= 1
    read = []
    store.get("a", progress=read.append)
    assert read[-1].acknowledged == 20 << 20


def test_an_exception_of_a_progress_callback_cancels(bucket, options):
    class Enough(Exception):
        pass

    def refuse(_):
        raise Enough

    store = tidegate.Store(bucket.url().rstrip("/"), bandwidth=10 << 20, **options)
    with pytest.raises(Enough):
        store.put("large", bytes(20 << 20), part_size=5 << 20, progress=refuse)
    assert store.tide.settled() == []
    bucket.assert_untouched("large")


def test_unknown_and_wrong_options_are_refused(store):
    with pytest.raises(TypeError, match="no option 'nonsense'"):
        store.put("a", b"1", nonsense=1)
    with pytest.raises(TypeError, match="part_size"):
        store.put("a", b"1", part_size="large")
    with pytest.raises(ValueError, match="strategy.*quick"):
        store.put("a", b"1", strategy="quick")
    with pytest.raises(TypeError, match="no option 'nonsense'"):
        tidegate.Store("s3://bucket", nonsense=1)
    with pytest.raises(TypeError, match="takes no options"):
        tidegate.Store("memory://a", region="x")
    with pytest.raises(TypeError, match="credentials do not fit"):
        tidegate.Store("s3://bucket", access_key="a")
    with pytest.raises(TypeError, match="credentials do not fit"):
        tidegate.Store("gs://bucket", access_key="a", secret_key="b")
    with pytest.raises(TypeError, match="engine"):
        tidegate.Store("memory://a", tide=tidegate.Tidegate(), memory=64 << 20)
    with pytest.raises(TypeError, match="no option"):
        tidegate.Tidegate(nonsense=1)
    with pytest.raises(ValueError, match="memory budget"):
        tidegate.Tidegate(memory=10).engine()


def test_stores_with_equal_settings_are_equal_and_share_an_engine():
    tide = tidegate.Tidegate(memory=32 << 20, spool=[])
    assert tide == tidegate.Tidegate(spool=(), memory=32 << 20)
    assert tide.engine() is tidegate.Tidegate(memory=32 << 20, spool=()).engine()
    assert tide.engine() is not tidegate.Tidegate().engine()
    assert tidegate.Store("memory://a") == tidegate.Store("memory://a")
    assert len({tidegate.Store("memory://a"), tidegate.Store("memory://a"), tidegate.Store("memory://b")}) == 2


@pytest.mark.parametrize("strategy", ["auto", "put", "chunked", "parallel"])
def test_strategies(store, strategy):
    with store.writer("a", strategy=strategy) as file:
        for _ in range(20):
            file.write(bytes(1 << 20))
    assert file.object.size == 20 << 20
    if strategy != "auto":
        assert file.strategy == strategy


def test_a_spool(bucket, options, tmp_path):
    store = tidegate.Store(bucket.url().rstrip("/"), spool=tmp_path, **options)
    with store.writer("a", strategy="spool") as file:
        file.write(bytes(10 << 20))
        assert store.tide.usage()["spooled"] > 0
    assert bucket.size("a") == 10 << 20


def test_one_string_is_no_list_of_keys(memory):
    for key in "abc":
        memory.put(key, b"1")
    with pytest.raises(TypeError, match="'abc': give a list of keys"):
        memory.delete_many("abc")
    assert len(list(memory.list())) == 3
    assert memory.delete_many(key for key in "abc").deleted == 3


def test_ranges_that_no_object_has(memory):
    memory.put("a", b"0123")
    for call in (
        lambda: memory.get_range("a", -1),
        lambda: memory.get_ranges("a", [(0, 1), (-1, 2)]),
        lambda: memory.reader("a", range=(-1, None)),
    ):
        with pytest.raises(ValueError, match="`start` is -1"):
            call()
    with pytest.raises(ValueError, match="`end` is -2"):
        memory.get_range("a", 0, -2)
    assert memory.get_range("a", 2, 9) == b"23"
    with pytest.raises(tidegate.InvalidInputError):
        memory.get_range("a", 9)
    with pytest.raises(tidegate.InvalidInputError):
        memory.get_ranges("a", [(2, 9)])


def test_buckets(bucket, options):
    tide, name = tidegate.Tidegate(), f"tidegate-{secrets.token_hex(6)}"
    tide.create_bucket(f"s3://{name}", **options)
    created = {each.name: each.created for each in tide.buckets("s3://", **options)}
    assert {name, bucket.name} <= set(created) and isinstance(created[name], datetime.datetime)
    tide.remove_bucket(f"s3://{name}", **options)
    with pytest.raises(tidegate.NoBucketError):
        tide.remove_bucket(f"s3://{name}", **options)
    with pytest.raises(TypeError, match="endpoint_url"):
        tide.buckets("memory://", endpoint_url="http://127.0.0.1:1")


def test_create_only_says_that_the_key_has_an_object_each_time(minio_bucket):
    """MinIO closes the connection after it has refused a body."""
    store = tidegate.Store(minio_bucket.url().rstrip("/"), **reached(minio_bucket))
    store.put("a", b"first")
    for _ in range(30):
        with pytest.raises(tidegate.AlreadyExistsError):
            store.put("a", b"second", create_only=True)
    assert store.get("a") == b"first"


def test_a_bucket_of_the_development_server_keeps_no_versions(store):
    assert store.versioning() == "off"
