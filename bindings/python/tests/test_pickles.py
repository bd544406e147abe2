"""What a pickle carries: settings, and nothing that was found in the environment."""

import copy
import pickle

import pytest

import tidegate
import tidegate.aio


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_store(store, protocol):
    store.put("a", b"1")
    again = pickle.loads(pickle.dumps(store, protocol))
    assert again == store and again.get("a") == b"1"
    part = pickle.loads(pickle.dumps(store.within("t/x"), protocol))
    part.put("a", b"2")
    assert store.get("t/x/a") == b"2"
    assert copy.copy(store) == copy.deepcopy(store) == store


def test_a_store_of_asyncio(store):
    import asyncio

    target = tidegate.aio.Store(store.url, **dict(store._options))
    again = pickle.loads(pickle.dumps(target))
    assert again == target != store
    asyncio.run(again.put("a", b"1"))
    assert store.get("a") == b"1"


def test_secrets_of_the_environment_are_in_no_pickle(minio_bucket, monkeypatch):
    for name, value in minio_bucket.env.items():
        monkeypatch.setenv(name, value)
    store = tidegate.Store(minio_bucket.url().rstrip("/"))
    store.put("a", b"1")
    pickled = pickle.dumps([store, store.tide, store.head("a"), store.reader("a")])
    # A word that nothing else in the pickle has.
    assert minio_bucket.endpoint.secret_key == "minio-secret-key"
    assert b"minio-secret-key" not in pickled
    assert b"AWS" not in pickled


def test_secrets_that_were_given_are_in_the_pickle_and_in_no_text():
    secrets = {"access_key": "visible", "secret_key": "hush-1", "session_token": "hush-2"}
    store = tidegate.Store("s3://bucket", region="r", **secrets)
    pickled = pickle.dumps(store)
    assert b"hush-1" in pickled and b"hush-2" in pickled
    for text in (repr(store), str(store), repr(store.tide), f"{store}"):
        assert "hush" not in text
    assert "secret_key=…" in repr(store)
    azure = tidegate.Store("az://container", account="tide", account_key="aHVzaA==")
    assert "aHVzaA" not in repr(azure)


def test_an_object(store):
    object = store.put("a", b"1", metadata={"x": "y"}, content_type="text/x")
    for described in (object, store.head("a"), next(store.list())):
        again = pickle.loads(pickle.dumps(described))
        assert again == described and hash(again) == hash(described)
        assert again.is_same(store.head("a"))
    assert pickle.loads(pickle.dumps(store.head("a"))).metadata["x"] == "y"
    assert store.get("a", if_unchanged=pickle.loads(pickle.dumps(object))) == b"1"


def test_a_reader_at_its_position(store):
    store.put("a", b"0123456789")
    reader = store.reader("a", range=(2, 8))
    assert reader.read(2) == b"23"
    again = pickle.loads(pickle.dumps(reader))
    assert again.tell() == 2 and again.read() == b"4567"
    assert reader.read() == b"4567"
    store.put("a", b"another....")
    with pytest.raises(tidegate.ReplacedError):
        pickle.loads(pickle.dumps(again)).read()
        again.seek(0)
        pickle.loads(pickle.dumps(again)).read()


def test_a_writer_is_of_one_process(memory):
    with memory.writer("a") as file, pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(file)


def test_an_engine():
    tide = tidegate.Tidegate(memory=40 << 20, bandwidth=1 << 30)
    assert pickle.loads(pickle.dumps(tide)) == tide
    assert repr(tide) == "Tidegate(bandwidth=1073741824, memory=41943040)"
