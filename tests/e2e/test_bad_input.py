"""What each wrong input says: an exit code that is not zero, one sentence that names what and where, and nothing
published. test_exit_codes.py has the codes."""

import os
import subprocess

import pytest

from harness import MIB
from harness.lines import one_sentence

QUIET = ("--progress", "never")
PART = 5 * MIB


def test_an_unknown_scheme(tidegate, make_file):
    path, _ = make_file(10)
    run = tidegate("cp", path, "ftp://host/key", *QUIET)
    one_sentence(run, "ftp", exit=2)


def test_a_size_says_what_is_wrong_with_it(tidegate):
    for option, text, wrong in [
        ("--part-size", "16XB", "no unit `XB`: write a size such as 16MiB, 64MB, 1.5G"),
        ("--memory", "1.5", "`1.5` needs a unit"),
        ("--min-rate", "fast", "write a rate such as 50MB/s"),
    ]:
        run = tidegate("cp", "-", "s3://bucket/key", option, text)
        assert run.exit == 2 and f"'{text}' for '{option}" in run.err and wrong in run.err, run


def test_sizes_and_rates_as_people_type_them(tidegate, bucket, make_file):
    path, digest = make_file(12_000_000)
    sizes = ("--part-size", "6MB", "--memory", "0.125G", "--min-rate", "1.5KB/s", "--expect-size", "12MB")
    run = tidegate("cp", path, bucket.url("k"), *sizes, *QUIET, env=bucket.env)
    assert run.exit == 0, run
    assert bucket.sha256("k") == digest
    # Two parts: S3 writes their number into the tag of the object.
    assert bucket.head("k")["ETag"].strip('"').endswith("-2"), run


@pytest.mark.parametrize("size", [10, PART + 1])
def test_a_bucket_that_does_not_exist(tidegate, any_bucket, make_file, size):
    path, _ = make_file(size)
    run = tidegate("cp", path, "s3://no-such-bucket-here/key", "--part-size", "5MiB", *QUIET, env=any_bucket.env)
    one_sentence(run, "no-such-bucket-here", exit=3)


@pytest.mark.parametrize("size", [10, PART + 1])
def test_a_wrong_secret(tidegate, any_bucket, make_file, size):
    path, _ = make_file(size)
    env = {**any_bucket.env, "AWS_SECRET_ACCESS_KEY": "not-the-secret"}
    run = tidegate("cp", path, any_bucket.url("k"), "--part-size", "5MiB", *QUIET, env=env)
    one_sentence(run, any_bucket.url("k"), exit=4)
    any_bucket.assert_untouched("k")


def test_no_credentials(tidegate, bucket, make_file):
    path, _ = make_file(10)
    env = {name: value for name, value in bucket.env.items() if "KEY" not in name}
    run = tidegate("cp", path, bucket.url("k"), *QUIET, env=env)
    one_sentence(run, "credential", exit=4)
    bucket.assert_untouched("k")


def test_a_directory_needs_r(tidegate, bucket, tmp_path):
    run = tidegate("cp", tmp_path, bucket.url("k"), *QUIET, env=bucket.env)
    one_sentence(run, tmp_path, "-r", exit=2)
    assert bucket.keys() == []


def test_a_local_key_that_is_a_directory(tidegate, tmp_path):
    (tmp_path / "taken").mkdir()
    run = tidegate("cp", "-", tmp_path / "taken", *QUIET, stdin=b"data")
    one_sentence(run, tmp_path / "taken", "directory", exit=(1, 2))
    assert os.listdir(tmp_path) == ["taken"]
    assert os.listdir(tmp_path / "taken") == []


def test_a_pipe_needs_a_key(tidegate, bucket):
    """A standard input has no name to put under a bucket or a prefix."""
    for url in (bucket.url(""), bucket.url("folder/")):
        run = tidegate("cp", "-", url, *QUIET, stdin=b"data", env=bucket.env)
        one_sentence(run, url, exit=2)
    assert bucket.keys() == []


def test_a_source_that_is_not_there(tidegate, bucket, tmp_path):
    run = tidegate("cp", tmp_path / "nowhere", bucket.url("k"), *QUIET, env=bucket.env)
    one_sentence(run, tmp_path / "nowhere", exit=3)
    bucket.assert_untouched("k")


def test_a_source_that_may_not_be_read(tidegate, bucket, tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"secret")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file (root)")
    run = tidegate("cp", path, bucket.url("k"), *QUIET, env=bucket.env)
    one_sentence(run, path, "permission", exit=4)
    bucket.assert_untouched("k")


def test_a_source_whose_reading_fails(tidegate, bucket):
    """The same for every user, root too: this file opens, says that it is empty, and cannot be read. An empty
    object in its place would be a loss that no one notices."""
    run = tidegate("cp", "/proc/self/mem", bucket.url("k"), *QUIET, env=bucket.env)
    one_sentence(run, "/proc/self/mem", exit=(1, 2))
    bucket.assert_untouched("k")


@pytest.mark.parametrize("size", [10, PART + 1])
def test_a_part_size_too_small(tidegate, bucket, make_file, size):
    path, _ = make_file(size)
    run = tidegate("cp", path, bucket.url("k"), "--part-size", "1MiB", *QUIET, env=bucket.env)
    one_sentence(run, "1 MiB", "5 MiB", exit=2)
    bucket.assert_untouched("k")


@pytest.mark.parametrize(
    "option, value",
    [
        ("--part-size", "lots"),
        ("--memory", "-1"),
        ("--concurrency", "0"),
        ("--strategy", "magic"),
        ("--metadata", "no-equals"),
    ],
)
def test_a_value_that_cannot_be(tidegate, bucket, make_file, option, value):
    path, _ = make_file(10)
    run = tidegate("cp", path, bucket.url("k"), f"{option}={value}", *QUIET, env=bucket.env)
    assert run.exit == 2, run
    assert option in run.err and value in run.err, run
    bucket.assert_untouched("k")


UNSAYABLE = [
    ("--metadata", "a b=c"),
    ("--metadata", "a=b\nc"),
    ("--content-type", "t\u00ebxt/plain"),
    ("--cache-control", "\u2026"),
]


@pytest.mark.parametrize("source", ["file", "pipe"])
@pytest.mark.parametrize("option, value", UNSAYABLE)
def test_what_no_header_can_say(tidegate, embedded_bucket, counts, make_file, source, option, value):
    path, _ = make_file(10)
    bucket = embedded_bucket
    counts.reset()
    words = ("cp", path if source == "file" else "-", bucket.url("k"), option, value, *QUIET)
    run = tidegate(*words, stdin=None if source == "file" else b"data", env=bucket.env)
    one_sentence(run, bucket.url("k"), exit=2)
    assert counts() == {}


@pytest.mark.parametrize("words", [("cp", "{path}", "{url}"), ("cat", "{url}"), ("stat", "{url}"), ("rm", "{url}")])
@pytest.mark.parametrize("key", ["a/../b", "./a", "k" * 1025])
def test_a_key_that_no_request_can_say(tidegate, embedded_bucket, counts, make_file, words, key):
    path, _ = make_file(10)
    bucket = embedded_bucket
    counts.reset()
    words = [word.format(path=path, url=bucket.url(key)) for word in words]
    run = tidegate(*words, env=bucket.env)
    one_sentence(run, bucket.url(key), exit=2)
    assert counts() == {}


@pytest.fixture
def tiny_disk(tmp_path):
    """A disk of 8 MiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8M", "tidegate-test", folder], capture_output=True, text=True, timeout=10
    )
    if mount.returncode:
        pytest.skip(f"this user may not mount a small disk: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True, timeout=10)


def test_a_full_disk(tidegate, tiny_disk, make_file):
    path, _ = make_file(20 * MIB)
    run = tidegate("cp", path, tiny_disk / "out.bin", *QUIET)
    one_sentence(run, tiny_disk / "out.bin", "full", exit=1)
    assert os.listdir(tiny_disk) == []


def test_a_full_disk_under_a_download(tidegate, bucket, tiny_disk, make_file):
    path, _ = make_file(20 * MIB)
    bucket.put("k", path.read_bytes())
    run = tidegate("cp", bucket.url("k"), tiny_disk / "out.bin", *QUIET, env=bucket.env)
    one_sentence(run, tiny_disk / "out.bin", "full", exit=1)
    assert os.listdir(tiny_disk) == []


PASSWORDS = [
    ("http://user:pa/secret@127.0.0.1:1", ("ls", "s3://bucket/")),
    ("user:secret@127.0.0.1:1", ("ls", "s3://bucket/")),
    (None, ("cp", "http://user:se/secret@h/k", "f")),
    (None, ("cp", "ftp:user:secret@h/k", "f")),
    (None, ("cp", "s3://user:se/secret@bucket/k", "f")),
    (None, ("ls", "s3://bucket/", "http://user:secret@h/k")),
    (None, ("ls", "s3://bucket/", "--addressing", "user:secret@h")),
]


@pytest.mark.parametrize("endpoint, words", PASSWORDS)
def test_no_message_has_a_password(tidegate, tmp_path, endpoint, words):
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    run = tidegate(*words, "-v", env={**keys, "AWS_ENDPOINT_URL": endpoint} if endpoint else keys, cwd=tmp_path)
    assert run.exit == 2 and "\u2026@" in run.err and "secret" not in run.err, run
