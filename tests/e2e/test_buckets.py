"""Buckets by name: `mb`, `rb`, and `ls` without one."""

import secrets

import pytest

from harness.lines import one_sentence


@pytest.fixture
def name():
    return f"t-{secrets.token_hex(6)}"


@pytest.fixture
def at(scheme, request, tmp_path):
    """How the program reaches the buckets of a scheme: its environment and its directory."""
    match scheme:
        case "s3":
            env = request.getfixturevalue("server").endpoint.env
        case "gs":
            url = request.getfixturevalue("embedded").endpoint.url
            env = {"STORAGE_EMULATOR_HOST": url, "GOOGLE_CLOUD_PROJECT": "project"}
        case "dev":
            env = {}
    return {"env": env, "cwd": tmp_path}


def a_bucket_is_made_listed_and_removed(tidegate, scheme, name, at):
    url = f"{scheme}://{name}"
    made = tidegate("mb", url, **at)
    assert made.exit == 0 and url in made.err and made.out == b"", made
    listed = tidegate("ls", f"{scheme}://", **at)
    assert listed.exit == 0, listed
    # A date and a time of day come first, as `aws s3 ls` prints them.
    assert [line.split()[-1] for line in listed.text.splitlines()].count(name) == 1, listed
    shown = tidegate("ls", f"{scheme}://", "--json", **at)
    [bucket] = [bucket for bucket in shown.json if bucket["url"] == url]
    assert bucket["type"] == "bucket" and bucket["created"].endswith("Z"), shown

    assert tidegate("cp", "-", f"{url}/a/key", stdin=b"data", **at).exit == 0
    one_sentence(tidegate("rb", url, **at), url, "not empty", f"`tidegate rm -r {url}`", exit=1)
    assert tidegate("cat", f"{url}/a/key", **at).out == b"data"
    assert tidegate("rm", "-r", url, **at).exit == 0
    removed = tidegate("rb", f"{url}/", **at)
    assert removed.exit == 0 and url in removed.err, removed
    one_sentence(tidegate("rb", url, **at), url, exit=3)
    left = tidegate("ls", f"{scheme}://", **at)
    assert left.exit == 0 and name not in left.text, left


@pytest.mark.parametrize("scheme", ["s3"])
def test_a_bucket_of_s3_is_made_listed_and_removed(tidegate, scheme, server, name, at):
    a_bucket_is_made_listed_and_removed(tidegate, scheme, name, at)
    # A mere `ls` means s3://.
    assert tidegate("mb", f"s3://{name}", **at).exit == 0
    listed = tidegate("ls", **at)
    assert listed.exit == 0 and name in listed.text, listed
    assert tidegate("rb", f"s3://{name}", **at).exit == 0


@pytest.mark.parametrize("scheme", ["gs", "dev"])
def test_a_bucket_elsewhere_is_made_listed_and_removed(tidegate, scheme, name, at):
    a_bucket_is_made_listed_and_removed(tidegate, scheme, name, at)


def test_a_bucket_that_exists_is_not_made_again(tidegate, google_bucket):
    env = {**google_bucket.env, "GOOGLE_CLOUD_PROJECT": "project"}
    url = google_bucket.url().rstrip("/")
    one_sentence(tidegate("mb", url, env=env), url, "choose another name", exit=1)


def test_the_buckets_of_an_emulator_of_google_need_no_project(tidegate, embedded):
    env = {"STORAGE_EMULATOR_HOST": embedded.url}
    assert tidegate("mb", "gs://bucket", env=env).exit == 0
    run = tidegate("ls", "gs://", env=env)
    assert run.exit == 0 and "bucket" in run.text, run


@pytest.mark.parametrize("command", ["mb", "rb"])
@pytest.mark.parametrize("place", ["s3://bucket/key", "s3://", "s3://B!", "memory://name", "out/", "bucket"])
def test_what_is_no_bucket_is_neither_made_nor_removed(tidegate, bucket, tmp_path, command, place):
    one_sentence(tidegate(command, place, env=bucket.env, cwd=tmp_path), place.split("/")[0], exit=2)
    assert list(tmp_path.iterdir()) == []


def test_all_objects_of_all_buckets_are_not_listed_by_accident(tidegate, bucket):
    one_sentence(tidegate("ls", "-r", env=bucket.env), "s3://BUCKET", exit=2)
    one_sentence(tidegate("ls", "memory://", env=bucket.env), "memory://", exit=2)
    one_sentence(tidegate("ls", "--prefixed", bucket.url("t"), env=bucket.env), bucket.url("t"), exit=2)
