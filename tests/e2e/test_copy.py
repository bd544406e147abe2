"""`tidegate cp` within one store: the store copies, and no byte of the objects comes this way."""

import json

import pytest

from harness import MIB
from harness.s3 import Bucket

pytestmark = pytest.mark.usefixtures("built")


@pytest.mark.parametrize("size, parts", [(0, 0), (1000, 0), (5 * MIB, 0), (23 * MIB + 7, 5)])
def test_a_store_copies_an_object_itself(tidegate, on, make_file, size, parts):
    path, digest = make_file(size)
    on.client.upload_file(
        str(path), on.name, "a/from", ExtraArgs={"ContentType": "text/x", "Metadata": {"owner": "me"}}
    )
    run = tidegate("cp", "--json", "--part-size", "5MiB", on.url("a/from"), on.url("b/to"), env=on.env)
    assert run.exit == 0, run
    said = json.loads(run.out)
    assert (said["strategy"], said["bytes"], said["parts"]) == ("copy", size, parts)
    assert on.sha256("b/to") == digest
    head = on.head("b/to")
    assert head["ContentType"] == "text/x"
    assert head["Metadata"]["owner"] == "me"
    assert on.sessions("b/to") == []


@pytest.mark.parametrize("size", [0, 1000, 12 * MIB])
def test_a_copy_replaces_nothing_that_is_to_stay(tidegate, on, make_file, size):
    path, digest = make_file(size)
    on.client.upload_file(str(path), on.name, "from")
    copy = ("cp", "--create-only", "--part-size", "5MiB", on.url("from"), on.url("to"))
    run = tidegate(*copy, env=on.env)
    assert run.exit == 0, run
    assert on.sha256("to") == digest
    on.put("to", b"theirs")
    run = tidegate(*copy, env=on.env)
    assert run.exit == 1, run
    assert on.get("to") == b"theirs"
    assert on.sessions("to") == []


def test_tags_are_kept_in_one_request_and_in_parts(tidegate, minio, make_file):
    on = Bucket(minio.endpoint)
    path, _ = make_file(6 * MIB)
    on.client.upload_file(str(path), on.name, "from", ExtraArgs={"Tagging": "team=a%20b"})
    for size in ("5MiB", "16MiB"):
        run = tidegate("cp", "--part-size", size, on.url("from"), on.url(size), env=on.env)
        assert run.exit == 0, run
        tags = on.client.get_object_tagging(Bucket=on.name, Key=size)["TagSet"]
        assert tags == [{"Key": "team", "Value": "a b"}]


def test_a_prefix_is_copied_to_another_bucket(tidegate, on):
    other = Bucket(on.endpoint)
    keys = [f"a/{number}" for number in range(20)]
    for key in keys:
        on.put(key, key.encode())
    run = tidegate("cp", "-r", "--json", on.url("a/"), other.url("b/"), env=on.env)
    assert run.exit == 0, run
    lines = [json.loads(line) for line in run.out.splitlines()]
    assert {line["strategy"] for line in lines} == {"copy"}
    assert sorted(other.keys()) == sorted(key.replace("a/", "b/") for key in keys)
    assert other.get("b/7") == b"a/7"


def test_a_strategy_that_is_asked_for_takes_the_bytes_through(tidegate, on, make_file):
    path, digest = make_file(6 * MIB)
    on.client.upload_file(str(path), on.name, "from")
    run = tidegate("cp", "--json", "--strategy", "parallel", on.url("from"), on.url("to"), env=on.env)
    assert run.exit == 0, run
    assert json.loads(run.out)["strategy"] == "parallel"
    assert on.sha256("to") == digest
