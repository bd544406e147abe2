"""`tidegate cp` into a store: the bytes that arrive, what is known about them, and what is printed."""

import hashlib
import re
import subprocess

import pytest

from harness import MIB
from harness.crc64nvme import crc64nvme
from harness.lines import one_sentence

PART = 5 * MIB
QUIET = ("--progress", "never")
SIZES = [0, 1, 64 * 1024, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 17]

JSON_FIELDS = {
    "source",
    "target",
    "bytes",
    "seconds",
    "strategy",
    "parts",
    "requests",
    "retries",
    "hedges",
    "checksum",
    "peak_buffered_bytes",
}


@pytest.mark.parametrize("size", SIZES)
def test_a_file_arrives_whole(tidegate, any_bucket, make_file, size):
    path, digest = make_file(size)
    run = tidegate("cp", path, any_bucket.url("a/file"), "--part-size", "5MiB", env=any_bucket.env)
    assert run.exit == 0, run
    assert any_bucket.head("a/file")["ContentLength"] == size
    assert any_bucket.sha256("a/file") == digest
    assert any_bucket.sessions("a/file") == []


@pytest.mark.parametrize("size", SIZES)
def test_a_pipe_arrives_whole(tidegate, any_bucket, make_file, size):
    path, digest = make_file(size)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as source:
        run = tidegate(
            "cp", "-", any_bucket.url("piped"), "--part-size", "5MiB", stdin=source.stdout, env=any_bucket.env
        )
    assert run.exit == 0, run
    assert any_bucket.sha256("piped") == digest
    assert any_bucket.sessions("piped") == []


def test_an_upload_in_default_settings(tidegate, any_bucket, make_file):
    path, digest = make_file(50 * MIB + 1)
    run = tidegate("cp", path, any_bucket.url("default"), env=any_bucket.env)
    assert run.exit == 0, run
    assert any_bucket.sha256("default") == digest


def test_the_endpoint_can_be_an_option(tidegate, bucket, make_file):
    path, digest = make_file(1000)
    env = {name: value for name, value in bucket.env.items() if name != "AWS_ENDPOINT_URL"}
    run = tidegate("cp", path, bucket.url("k"), "--endpoint-url", bucket.endpoint.url, env=env)
    assert run.exit == 0, run
    assert bucket.sha256("k") == digest


def test_settings_come_from_a_profile(tidegate, bucket, make_file, tmp_path):
    """The files that every S3 user has, and AWS_PROFILE to choose from them."""
    path, digest = make_file(1000)
    config, credentials = tmp_path / "config", tmp_path / "credentials"
    config.write_text(f"[profile work]\nregion = us-east-1\nendpoint_url = {bucket.endpoint.url}\n")
    credentials.write_text(
        "[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n"
        f"[work]\naws_access_key_id = {bucket.endpoint.access_key}\naws_secret_access_key = {bucket.endpoint.secret_key}\n"
    )
    env = {
        "AWS_CONFIG_FILE": str(config),
        "AWS_SHARED_CREDENTIALS_FILE": str(credentials),
        "AWS_PROFILE": "work",
    }
    run = tidegate("cp", path, bucket.url("k"), env=env)
    assert run.exit == 0, run
    assert bucket.sha256("k") == digest


@pytest.mark.parametrize("strategy", ["auto", "put", "chunked", "parallel"])
def test_each_strategy_stores_the_same_bytes(tidegate, any_bucket, make_file, strategy):
    path, digest = make_file(3 * PART + 17)
    options = ("--strategy", strategy, "--part-size", "5MiB", "--json")
    run = tidegate("cp", path, any_bucket.url(strategy), *options, env=any_bucket.env)
    assert run.exit == 0, run
    assert any_bucket.sha256(strategy) == digest
    if strategy != "auto":
        assert run.json[0]["strategy"] == strategy


@pytest.mark.parametrize("size", [1000, PART + 1])
def test_the_store_holds_the_checksum_of_the_whole_object(tidegate, any_bucket, make_file, size):
    path, _ = make_file(size)
    run = tidegate("cp", path, any_bucket.url("summed"), "--part-size", "5MiB", "--json", env=any_bucket.env)
    assert run.exit == 0, run
    expected = crc64nvme(path.read_bytes())
    assert any_bucket.head("summed")["ChecksumCRC64NVME"] == expected
    assert expected in run.json[0]["checksum"]


def test_json_says_what_was_done(tidegate, any_bucket, make_file):
    path, _ = make_file(3 * PART + 17)
    options = ("--part-size", "5MiB", "--json", "--progress", "never")
    run = tidegate("cp", path, any_bucket.url("j"), *options, env=any_bucket.env)
    assert run.exit == 0, run
    [said] = run.json
    assert set(said) >= JSON_FIELDS
    assert said["source"].endswith(str(path))
    assert said["target"] == any_bucket.url("j")
    assert said["bytes"] == 3 * PART + 17
    assert said["parts"] == 4
    assert said["requests"] == 6
    assert said["retries"] == 0
    assert said["seconds"] > 0
    assert said["peak_buffered_bytes"] > 0
    assert run.err == ""


def test_a_directory_is_copied_with_its_names(tidegate, any_bucket, tmp_path):
    files = {
        "plain.txt": b"plain",
        "empty": b"",
        "with space.txt": b"space",
        "percent%20and+plus.txt": b"percent",
        "ünïcode-文件.txt": "ünïcode".encode(),
        "deep/er/and/deeper.bin": bytes(range(256)) * 64,
        "deep/big.bin": b"b" * (PART + 1),
    }
    source = tmp_path / "tree"
    for name, body in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    target = any_bucket.url("out/")
    run = tidegate("cp", "-r", f"{source}/", target, "--part-size", "5MiB", "--json", env=any_bucket.env)
    assert run.exit == 0, run
    assert sorted(any_bucket.keys()) == sorted(f"out/{name}" for name in files)
    for name, body in files.items():
        assert any_bucket.get(f"out/{name}") == body
    assert sorted(said["target"] for said in run.json) == sorted(any_bucket.url(f"out/{name}") for name in files)
    assert sum(said["bytes"] for said in run.json) == sum(map(len, files.values()))


def test_one_failed_file_of_a_directory_fails_the_copy_and_is_named(tidegate, any_bucket, tmp_path):
    for name in ("one", "taken", "two"):
        (tmp_path / name).write_bytes(b"new")
    any_bucket.put("out/taken", b"old")
    options = ("--create-only", "--progress", "never")
    run = tidegate("cp", "-r", f"{tmp_path}/", any_bucket.url("out/"), *options, env=any_bucket.env)
    assert run.exit == 1, run
    assert any_bucket.url("out/taken") in run.err
    assert any_bucket.get("out/taken") == b"old"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("page.html", {"text/html"}),
        ("data.json", {"application/json"}),
        ("noextension", {"application/octet-stream", "binary/octet-stream"}),
    ],
)
def test_the_content_type_is_guessed_from_the_name(tidegate, any_bucket, tmp_path, name, expected):
    path = tmp_path / name
    path.write_bytes(b"{}")
    run = tidegate("cp", path, any_bucket.url(name), env=any_bucket.env)
    assert run.exit == 0, run
    assert any_bucket.head(name)["ContentType"].split(";")[0] in expected


@pytest.mark.parametrize("size", [1000, PART + 1])
def test_attributes_reach_the_store(tidegate, any_bucket, make_file, size):
    path, _ = make_file(size)
    options = [
        *("--content-type", "application/x-tide", "--storage-class", "REDUCED_REDUNDANCY", "--part-size", "5MiB"),
        *("--metadata", "origin=pump-3", "--metadata", "note=low tide"),
    ]
    run = tidegate("cp", path, any_bucket.url("k"), *options, env=any_bucket.env)
    assert run.exit == 0, run
    head = any_bucket.head("k")
    assert head["ContentType"] == "application/x-tide"
    # An upload that may have to be settled leaves its mark beside what the user asked for.
    assert {**head["Metadata"], "tidegate-writer": ""} == {
        "origin": "pump-3",
        "note": "low tide",
        "tidegate-writer": "",
    }
    assert head["StorageClass"] == "REDUCED_REDUNDANCY"


def test_outside_a_terminal_progress_is_one_line(tidegate, bucket, make_file):
    path, _ = make_file(3 * PART)
    run = tidegate("cp", path, bucket.url("shown"), "--part-size", "5MiB", env=bucket.env)
    assert run.exit == 0, run
    lines = (run.err + run.text).splitlines()
    assert len(lines) == 1, run
    assert "shown" in lines[0] and re.search(r"\b15(\.0+)? MiB", lines[0]), run
    assert "\r" not in lines[0] and "\x1b" not in lines[0], run


def test_progress_never_prints_no_progress(tidegate, bucket, make_file):
    path, _ = make_file(3 * PART)
    run = tidegate("cp", path, bucket.url("quiet"), "--progress", "never", "--json", env=bucket.env)
    assert (run.exit, run.err) == (0, ""), run


def test_an_existing_object_is_replaced(tidegate, any_bucket, make_file):
    any_bucket.put("k", b"before")
    path, digest = make_file(PART + 1)
    run = tidegate("cp", path, any_bucket.url("k"), "--part-size", "5MiB", env=any_bucket.env)
    assert run.exit == 0, run
    assert any_bucket.sha256("k") == digest


def test_keys_with_awkward_names(tidegate, any_bucket):
    for key in ("a b/c+d", "ünï/文件", "q?mark#hash", "percent%2Fslash", "dots/.../x", "quote'\"&<>"):
        body = key.encode()
        url = any_bucket.url(key)
        run = tidegate("cp", "-", url, stdin=body, env=any_bucket.env)
        assert run.exit == 0, run
        assert any_bucket.keys(key) == [key], run
        assert any_bucket.get(key) == body
        shown = tidegate("cat", url, env=any_bucket.env)
        assert (shown.exit, shown.out) == (0, body), shown


def test_many_small_files_take_one_request_each(tidegate, embedded_bucket, counts, tmp_path):
    source = tmp_path / "many"
    source.mkdir()
    digests = {}
    for number in range(300):
        body = f"file {number}".encode() * 50
        (source / f"{number:04}").write_bytes(body)
        digests[f"{number:04}"] = hashlib.sha256(body).hexdigest()
    counts.reset()
    run = tidegate("cp", "-r", f"{source}/", embedded_bucket.url(""), env=embedded_bucket.env)
    assert run.exit == 0, run
    assert counts() == {"PutObject": 300}
    assert sorted(embedded_bucket.keys()) == sorted(digests)
    for key in ("0000", "0150", "0299"):
        assert embedded_bucket.sha256(key) == digests[key]


def test_a_name_that_no_key_can_have_fails_alone(tidegate, embedded_bucket, tmp_path):
    root = tmp_path / "names"
    root.mkdir()
    for name in (b"a", b"b\xff", b"c"):
        (root / name.decode("utf-8", "surrogateescape")).write_bytes(b"hello")
    run = tidegate("cp", "-r", f"{root}/", embedded_bucket.url("names/"), env=embedded_bucket.env)
    assert run.exit == 1, run
    assert "UTF-8" in run.err
    assert embedded_bucket.sha256("names/a") == embedded_bucket.sha256("names/c")


@pytest.mark.parametrize(
    "size, expected", [(1000, 1001), (1001, 1000), (0, 1), (1, 0), (12 * MIB, 12 * MIB + 1), (12 * MIB + 1, 12 * MIB)]
)
@pytest.mark.parametrize("strategy", ["auto", "put"])
def test_a_stream_of_another_size_than_expected(tidegate, any_bucket, size, expected, strategy):
    """A producer that dies looks like the end of its output; only its size tells."""
    options = ("--expect-size", str(expected), "--strategy", strategy, "--part-size", "5MiB", *QUIET)
    run = tidegate("cp", "-", any_bucket.url("k"), *options, stdin=b"x" * size, env=any_bucket.env)
    one_sentence(run, any_bucket.url("k"), str(expected), "--expect-size", exit=1)
    any_bucket.assert_untouched("k")


@pytest.mark.parametrize("size", [0, 1000, 12 * MIB])
def test_a_stream_of_the_size_that_was_expected(tidegate, any_bucket, size):
    options = ("--expect-size", str(size), "--part-size", "5MiB", *QUIET)
    run = tidegate("cp", "-", any_bucket.url("k"), *options, stdin=b"x" * size, env=any_bucket.env)
    assert run.exit == 0, run
    assert any_bucket.head("k")["ContentLength"] == size


def test_a_file_of_another_size_than_expected(tidegate, any_bucket, make_file):
    path, _ = make_file(1000)
    run = tidegate("cp", path, any_bucket.url("k"), "--expect-size", "999", *QUIET, env=any_bucket.env)
    one_sentence(run, path, "1000", "999", exit=2)
    any_bucket.assert_untouched("k")


def test_a_size_is_expected_of_one_source(tidegate, any_bucket, tmp_path):
    run = tidegate("cp", "-r", f"{tmp_path}/", any_bucket.url(""), "--expect-size", "1", *QUIET, env=any_bucket.env)
    one_sentence(run, "--expect-size", exit=2)
