"""Servers that keep `a//b` and `a/b` as one object: MinIO drops slashes at the beginning, versitygw every empty name."""

import pytest

from harness.s3 import Bucket
from trees import profiles

DROPPED = [("minio", "a/b", "/a/b"), ("versitygw", "a/b", "a//b"), ("versitygw", "a/b", "/a/b")]
APART = [("embedded", "a/b", "a//b"), ("embedded", "a/b", "/a/b")]


@pytest.fixture
def bucket(request):
    return lambda name: Bucket(request.getfixturevalue(name).endpoint)


@pytest.mark.parametrize(("name", "key", "other"), DROPPED)
def test_a_move_to_another_spelling_of_the_key_removes_nothing(tidegate, bucket, name, key, other):
    on = bucket(name)
    on.put(key, b"the only copy")
    folders = on.url(key.removesuffix("b")), on.url(other.removesuffix("b"))
    ways = [(on.url(key), on.url(other)), (on.url(other), on.url(key)), ("-r", *folders), ("-r", *reversed(folders))]
    for words in ways:
        run = tidegate("mv", *words, env=on.env)
        says = (
            "are the same object",
            "drops empty names",
            "which is to be copied",
            "the target: move it elsewhere",
            "there is no object below it",
        )
        assert run.exit != 0 and any(why in run.err for why in says), run
        assert on.get(key) == b"the only copy" and on.keys() == [key]


@pytest.mark.parametrize(("name", "key", "other"), DROPPED)
@pytest.mark.parametrize("words", [("mv", "-r"), ("cp", "-r"), ("sync",)])
def test_a_key_that_the_target_keeps_as_another_is_not_copied(tidegate, bucket, tmp_path, name, key, other, words):
    on, to = bucket("embedded"), bucket(name)
    contents = {key: b"one", other: b"two22", "z": b"z"}
    for each, content in contents.items():
        on.put(each, content)
    env = on.env | profiles(tmp_path, to=to.endpoint)
    run = tidegate(*words, on.url(), f"s3://to@{to.name}/", env=env)
    assert run.exit == 1 and run.err.count("drops empty names") == 1 and other in run.err, run
    assert to.keys() == [key, "z"] and to.get(key) == b"one"
    assert on.keys() == ([other] if words == ("mv", "-r") else sorted(contents))


@pytest.mark.parametrize(("name", "key", "other"), DROPPED)
def test_a_sync_neither_replaces_nor_removes_the_object_of_another_spelling(
    tidegate, bucket, tmp_path, name, key, other
):
    on, to = bucket("embedded"), bucket(name)
    on.put(key, b"plain")
    env = on.env | profiles(tmp_path, to=to.endpoint)
    words = ("sync", "--delete", on.url(), f"s3://to@{to.name}/")
    assert tidegate(*words, env=env).exit == 0
    on.put(other, b"other")
    for _ in range(2):
        run = tidegate(*words, env=env)
        assert run.exit == 1 and "drops empty names" in run.err, run
        assert to.keys() == [key] and to.get(key) == b"plain"
    on.client.delete_object(Bucket=on.name, Key=key)
    run = tidegate(*words, env=env)
    assert run.exit == 1 and to.keys() == [key], run


@pytest.mark.parametrize(("name", "key", "other"), APART)
@pytest.mark.parametrize("words", [("mv", "-r"), ("cp", "-r"), ("sync", "--delete")])
def test_keys_that_a_store_keeps_apart_are_copied_and_removed_as_others(
    tidegate, bucket, counts, name, key, other, words
):
    on, to = bucket(name), bucket(name)
    on.put(key, b"one")
    on.put(other, b"two22")
    to.put("a///b", b"extra")
    counts.reset()
    run = tidegate(*words, on.url(), to.url(), env=on.env)
    assert counts().get("PutObject", 0) == 1, "the server is asked once"
    assert run.exit == 0 and to.get(key) == b"one" and to.get(other) == b"two22", run
    assert ("a///b" in to.keys()) == (words != ("sync", "--delete"))


@pytest.mark.parametrize("words", [("mv", "-r"), ("cp", "-r"), ("sync",)])
def test_a_target_in_its_source_by_another_address_is_refused(tidegate, embedded_bucket, words):
    on = embedded_bucket
    for number in range(5):
        on.put(f"t/{number}", b"x")
    there = on.endpoint.at(on.endpoint.url.replace("127.0.0.1", "localhost"))
    source = ("--source-endpoint-url", there.url)
    run = tidegate(*words, *source, on.url("t/"), on.url("t/zzz/"), env=on.env)
    assert run.exit == 2 and "--assume-distinct" in run.err, run
    assert len(on.keys()) == 5
    run = tidegate("cp", "-r", "--assume-distinct", *source, on.url("t/"), on.url("t/zzz/"), env=on.env)
    assert run.exit == 0, run


@pytest.mark.parametrize("words", [("sync",), ("cp", "-r"), ("mv", "-r")])
def test_a_backup_below_the_bucket_of_that_name_on_another_server_is_copied(tidegate, bucket, tmp_path, words):
    on = bucket("minio")
    to = Bucket(bucket("embedded").endpoint, name=on.name)
    for key in ["a", "d/b"]:
        on.put(key, key.encode())
    env = profiles(tmp_path, a=on.endpoint, b=to.endpoint)
    run = tidegate(*words, f"s3://a@{on.name}/", f"s3://b@{on.name}/backup/", env=on.env | env)
    assert run.exit == 0 and to.keys() == ["backup/a", "backup/d/b"], run


def test_an_address_that_does_not_answer_names_the_way_round(tidegate, bucket, knobs, tmp_path):
    on = bucket("minio")
    to = Bucket(bucket("embedded").endpoint, name=on.name)
    on.put("a", b"1")
    to.put("z", b"1")
    knobs(faults=[{"operation": "HeadObject", "action": {"error": {"status": 403, "code": "AccessDenied"}}}])
    env = on.env | profiles(tmp_path, a=on.endpoint, b=to.endpoint)
    words = ("sync", f"s3://a@{on.name}/", f"s3://b@{on.name}/backup/")
    run = tidegate(*words, env=env)
    assert run.exit == 1 and "--assume-distinct" in run.err, run
    run = tidegate(*words, "--assume-distinct", env=env)
    assert run.exit == 0 and to.keys() == ["backup/a", "z"], run
