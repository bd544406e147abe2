"""Servers that keep `a//b` and `a/b` as one object: MinIO drops slashes at the beginning, versitygw every empty name."""

import pytest

from harness.s3 import Bucket
from trees import profiles

FOLDED = [("minio", "a/b", "/a/b"), ("versitygw", "a/b", "a//b"), ("versitygw", "a/b", "/a/b")]
APART = [("embedded", "a/b", "a//b"), ("embedded", "a/b", "/a/b")]


@pytest.fixture
def bucket(request):
    return lambda name: Bucket(request.getfixturevalue(name).endpoint)


@pytest.mark.parametrize(("name", "key", "other"), FOLDED)
def test_a_move_to_another_spelling_of_the_key_removes_nothing(tidegate, bucket, name, key, other):
    on = bucket(name)
    on.put(key, b"the only copy")
    for words in [(on.url(key), on.url(other)), ("-r", on.url("a/"), on.url(other.removesuffix("b")))]:
        run = tidegate("mv", *words, env=on.env)
        assert run.exit != 0 and ("the same object" in run.err or "which is to be copied" in run.err), run
        assert on.get(key) == b"the only copy"


@pytest.mark.parametrize(("name", "key", "other"), FOLDED)
@pytest.mark.parametrize("words", [("mv", "-r"), ("cp", "-r"), ("sync",)])
def test_of_two_keys_that_the_target_keeps_as_one_the_second_fails(tidegate, bucket, tmp_path, name, key, other, words):
    on, to = bucket("embedded"), bucket(name)
    contents = {key: b"one", other: b"two22", "z": b"z"}
    for each, content in contents.items():
        on.put(each, content)
    env = on.env | profiles(tmp_path, to=to.endpoint)
    run = tidegate(*words, on.url(), f"s3://to@{to.name}/", env=env)
    assert run.exit == 1 and "as one" in run.err, run
    left = [content for each, content in contents.items() if each in on.keys()]
    assert sorted([*left, to.get(key), b"z"] if words == ("mv", "-r") else left) == [b"one", b"two22", b"z"]


@pytest.mark.parametrize(("name", "key", "other"), FOLDED)
def test_a_sync_does_not_remove_what_it_has_just_copied(tidegate, bucket, tmp_path, name, key, other):
    on, to = bucket("embedded"), bucket(name)
    on.put(other, b"odd")
    on.put("z", b"z")
    env = on.env | profiles(tmp_path, to=to.endpoint)
    for _ in range(3):
        tidegate("sync", "--delete", on.url(), f"s3://to@{to.name}/", env=env)
        assert to.keys() == [key, "z"] and to.get(key) == b"odd"


@pytest.mark.parametrize(("name", "key", "other"), APART)
@pytest.mark.parametrize("words", [("mv", "-r"), ("cp", "-r"), ("sync", "--delete")])
def test_keys_that_a_store_keeps_apart_are_copied_and_removed_as_others(tidegate, bucket, name, key, other, words):
    on, to = bucket(name), bucket(name)
    on.put(key, b"one")
    on.put(other, b"two22")
    to.put("a///b", b"extra")
    run = tidegate(*words, on.url(), to.url(), env=on.env)
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
