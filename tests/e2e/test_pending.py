"""Pending uploads: `cp --prepare`, `commit` and `abandon`, what `sessions ls` and `sweep` say of them, and kills."""

import json
import stat

import pytest

from harness import MIB
from harness.azure import Container
from harness.lines import one_sentence
from harness.process import until
from harness.s3 import Bucket, GoogleBucket
from pending_kills import OWN, kills_in_a_set, round_of_kills, visible


@pytest.fixture(params=["minio", "versitygw", "google", "azurite"])
def bucket(request):
    if request.param == "google":
        return GoogleBucket(request.getfixturevalue("embedded").endpoint, "http")
    server = request.getfixturevalue(request.param)
    return Container(server.endpoint) if request.param == "azurite" else Bucket(server.endpoint)


def prepare(tidegate, bucket, key, data, file, *options):
    source = file.with_suffix(".bin")
    source.write_bytes(data)
    return tidegate("cp", source, bucket.url(key), "--prepare", file, "--part-size", "5MiB", *options, env=bucket.env)


def test_what_is_prepared_is_published_by_another_command(tidegate, bucket, tmp_path):
    data, file = b"p" * (6 * MIB), tmp_path / "one.json"
    run = prepare(tidegate, bucket, "t/k", data, file, "--json", "--content-type", "text/x")
    assert run.exit == 0, run
    (line,) = run.json
    assert (line["type"], line["state"], line["bytes"]) == ("pending", "prepared", len(data)), run
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "others could read an address that is a secret"
    assert visible(bucket) == [] and len(bucket.keys()) == 1, "one record, and no object"
    listed = tidegate("ls", "-r", bucket.url(), env=bucket.env)
    assert OWN not in listed.text, "its own keys belong to no tree"
    for _ in range(2):
        run = tidegate("commit", file, "--json", env=bucket.env)
        assert run.exit == 0 and run.json[0]["state"] == "committed", run
        assert bucket.size("t/k") == len(data)
    assert bucket.keys() == ["t/k"]
    one_sentence(tidegate("abandon", file, env=bucket.env), "committed before", exit=1)


def test_what_is_abandoned_is_gone(tidegate, bucket, tmp_path):
    file = tmp_path / "one.json"
    assert prepare(tidegate, bucket, "k", b"few", file, "--create-only").exit == 0
    for _ in range(2):
        run = tidegate("abandon", file, env=bucket.env)
        assert run.exit == 0, run
    run = tidegate("commit", file, env=bucket.env)
    assert run.exit != 0 and "abandoned" in run.err, run
    assert bucket.keys() == []


def test_a_file_that_changes_while_it_is_read_is_not_prepared(tidegate, embedded_bucket, tmp_path):
    source, file = tmp_path / "grows", tmp_path / "one.json"
    source.write_bytes(b"p" * (60 * MIB))
    # With so little memory, most of the file is read after the first parts are sent.
    slowly = ("--part-size", "5MiB", "--memory", "16MiB", "--bandwidth", "20MB/s")
    run = tidegate.start("cp", source, embedded_bucket.url("k"), "--prepare", file, *slowly, env=embedded_bucket.env)
    until("a part is there", lambda: embedded_bucket.parts("k") >= 1)
    with source.open("ab") as growing:
        growing.write(b"more")
    one_sentence(run.wait(60), "the file changed while it was read", exit=1)
    assert not file.exists()
    embedded_bucket.assert_untouched("k")


def test_a_condition_holds_at_the_commit(tidegate, bucket, tmp_path):
    file = tmp_path / "one.json"
    assert prepare(tidegate, bucket, "k", b"ours", file, "--create-only").exit == 0
    bucket.put("k", b"theirs")
    run = tidegate("commit", file, env=bucket.env)
    assert run.exit == 6 or "exists" in run.err, run
    assert bucket.size("k") == len(b"theirs")
    assert tidegate("abandon", file, env=bucket.env).exit == 0


def test_sessions_and_sweep_know_a_pending_upload(tidegate, on, tmp_path):
    file = tmp_path / "one.json"
    assert prepare(tidegate, on, "t/k", b"few", file).exit == 0
    (line,) = tidegate("sessions", "ls", on.url("t/k"), "--json", env=on.env).json
    assert line["pending_until"].startswith("2"), line
    people = tidegate("sessions", "ls", on.url("t/k"), env=on.env)
    assert "pending until" in people.text, people
    run = tidegate("sweep", on.url("t/k"), "--older-than", "0s", "--json", env=on.env)
    assert [line.get("fate", line["type"]) for line in run.json] == ["pending", "sessions"], run
    assert run.json[-1]["pending"] == 1 and run.json[-1]["ended"] == 0, run
    people = tidegate("sweep", on.url("t/k"), "--older-than", "0s", env=on.env)
    assert "1 that wait for a commit" in people.text, people
    assert tidegate("commit", file, env=on.env).exit == 0
    assert on.size("t/k") == 3


def test_a_lifecycle_rule_that_is_shorter_is_warned_of(tidegate, embedded, tmp_path):
    bucket = Bucket(embedded.endpoint)
    assert tidegate("lifecycle", "ensure", bucket.url(), env=bucket.env).exit == 0
    run = prepare(tidegate, bucket, "k", b"few", tmp_path / "one.json")
    assert run.exit == 0 and "after 1 day" in run.err, run
    for command in ("show", "ensure"):
        run = tidegate("lifecycle", command, bucket.url(), env=bucket.env)
        assert run.exit == 0 and "before the lifetime of 1 pending upload" in run.err, run
    assert tidegate("abandon", tmp_path / "one.json", env=bucket.env).exit == 0
    run = tidegate("lifecycle", "show", bucket.url(), env=bucket.env)
    assert run.exit == 0 and run.err == "", run
    short = prepare(tidegate, bucket, "k", b"few", tmp_path / "two.json", "--lifetime", "12h")
    assert short.exit == 0 and short.err == "", short


def test_the_file_has_no_credentials_and_the_log_no_address(tidegate, embedded, tmp_path):
    bucket, file = GoogleBucket(embedded.endpoint, "http"), tmp_path / "one.json"
    source = tmp_path / "source"
    source.write_bytes(b"d" * 300_000)
    run = tidegate("-vv", "cp", source, bucket.url("k"), "--prepare", file, "--create-only", env=bucket.env)
    assert run.exit == 0, run
    written = json.loads(file.read_text())
    address = written["bytes"]["id"]
    assert address.startswith("http") and address not in run.err + run.text, run
    assert "upload_id=" not in run.err, run
    run = tidegate("-vv", "commit", file, env=bucket.env)
    assert run.exit == 0 and "upload_id=" not in run.err, run


def test_a_local_file_is_published_by_a_rename(tidegate, tmp_path):
    file, target = tmp_path / "one.json", tmp_path / "out" / "k"
    run = tidegate("cp", "-", target, "--prepare", file, stdin=b"local")
    assert run.exit == 0, run
    assert not target.exists()
    swept = tidegate("sweep", f"{tmp_path}/out/", "--older-than", "0s")
    assert swept.exit == 0 and "1 that wait for a commit" in swept.text, swept
    for _ in range(2):
        assert tidegate("commit", file).exit == 0
        assert target.read_bytes() == b"local"
    assert [path.name for path in target.parent.iterdir()] == ["k"]


def prepare_set(tidegate, bucket, tmp_path, count):
    tmp_path.mkdir(exist_ok=True)
    files = [tmp_path / f"{number}.json" for number in range(count)]
    for number, file in enumerate(files):
        only = ("--create-only",) if number % 2 else ()
        assert prepare(tidegate, bucket, f"t/{number}", b"rows", file, *only).exit == 0
    return files


def reflected_crc(polynomial, bits, data):
    crc = ones = (1 << bits) - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (polynomial if crc & 1 else 0)
    return crc ^ ones


def intent(pointer, pending):
    """The intent of a set, as the command writes it before it publishes anything."""
    tokens = " ".join(sorted(each["token"] for each in pending)).encode()
    crc64, crc32c = reflected_crc(0x9A6C9329AC4BC9B5, 64, tokens), reflected_crc(0x82F63B78, 32, tokens)
    name = f"{crc64:016x}{crc32c:08x}-{len(pending)}"
    return json.dumps({"version": 1, "set": name, "pointer": pointer, "pending": pending}).encode()


def test_a_set_is_published_whole_or_not_at_all(tidegate, bucket, tmp_path):
    files, pointer = prepare_set(tidegate, bucket, tmp_path, 3), bucket.url("t/pointer.json")
    run = tidegate("commit", "--manifest", pointer, env=bucket.env)
    one_sentence(run, "no set of uploads was begun with this pointer", exit=3)
    assert tidegate("abandon", files[1], env=bucket.env).exit == 0
    run = tidegate("commit", "--manifest", pointer, *files, env=bucket.env)
    assert run.exit != 0 and "t/1" in run.err and "the set was not begun" in run.err, run
    assert visible(bucket) == [], "nothing is published of a set that cannot be completed"
    run = tidegate("abandon", "--manifest", pointer, *files, "--json", env=bucket.env)
    assert run.exit == 0 and [line["state"] for line in run.json] == ["abandoned"] * 3, run
    assert bucket.keys() == []
    files = prepare_set(tidegate, bucket, tmp_path / "again", 3)
    run = tidegate("commit", "--manifest", pointer, *files, env=bucket.env)
    assert run.exit == 0, run
    run = tidegate("commit", "--manifest", pointer, env=bucket.env)
    assert run.exit == 0 and "complete already" in run.err, run
    run = tidegate("abandon", "--manifest", pointer, *files, env=bucket.env)
    assert run.exit == 1 and "being published, or is" in run.err, run
    assert sorted(bucket.keys()) == ["t/0", "t/1", "t/2", "t/pointer.json"]


def test_a_set_that_lost_an_upload_after_it_was_begun_is_ended(tidegate, bucket, tmp_path):
    """The process that began it died after it had published one object."""
    files, pointer = prepare_set(tidegate, bucket, tmp_path, 3), bucket.url("t/pointer.json")
    pending = [json.loads(file.read_text()) for file in files]
    bucket.put(f"{OWN}manifests/t/pointer.json", intent("t/pointer.json", pending))
    assert tidegate("commit", files[0], env=bucket.env).exit == 0
    run = tidegate("abandon", "--manifest", pointer, env=bucket.env)
    one_sentence(run, "every upload of the set can be published", exit=1)
    run = tidegate("abandon", "--manifest", pointer, *files, env=bucket.env)
    one_sentence(run, "the set is being published", exit=1)
    assert tidegate("abandon", files[1], env=bucket.env).exit == 0
    run = tidegate("commit", "--manifest", pointer, env=bucket.env)
    assert run.exit != 0 and "t/1" in run.err and "tidegate abandon --manifest" in run.err, run
    assert visible(bucket) == ["t/0"], "no more is published of a set that cannot be completed"
    run = tidegate("abandon", "--manifest", pointer, "--json", env=bucket.env)
    states = [(line["state"], line["url"]) for line in run.json]
    assert run.exit == 0 and "1 object" in run.err, run
    assert states == [
        ("visible", bucket.url("t/0")),
        ("abandoned", bucket.url("t/1")),
        ("abandoned", bucket.url("t/2")),
    ], run
    assert bucket.keys() == ["t/0"]


def test_a_set_in_a_local_directory(tidegate, tmp_path):
    out, files = tmp_path / "out", []
    for number in range(2):
        files.append(tmp_path / f"{number}.json")
        assert tidegate("cp", "-", out / f"{number}", "--prepare", files[-1], stdin=b"local").exit == 0
    run = tidegate("commit", "--manifest", out / "pointer.json", *files)
    assert run.exit == 0, run
    assert tidegate("commit", "--manifest", out / "pointer.json").exit == 0
    assert {path.name for path in out.iterdir() if path.is_file()} == {"0", "1", "pointer.json"}


def test_wrong_arguments_and_files_are_told(tidegate, minio, tmp_path):
    bucket = Bucket(minio.endpoint)
    file, other = tmp_path / "one.json", tmp_path / "other.json"
    other.write_text("{}")
    one_sentence(tidegate("commit", other, env=bucket.env), "other.json", exit=2)
    one_sentence(tidegate("commit", tmp_path / "none.json", env=bucket.env), "none.json", exit=3)
    one_sentence(tidegate("cp", other, bucket.url("k"), "--prepare", other, env=bucket.env), "other.json", exit=1)
    for wrong in (("-r", tmp_path, bucket.url("t/")), (other, bucket.url("t/")), (other, bucket.url("k"), "--dry-run")):
        one_sentence(tidegate("cp", *wrong, "--prepare", file, env=bucket.env), "--prepare", exit=2)
    assert not file.exists() and bucket.keys() == []


def test_kills_between_preparation_and_commit(bucket, tmp_path):
    seen = round_of_kills(bucket, tmp_path, kills=6, seed=1, lifetime=10)
    assert seen.killed == 6 and seen.prepared > 0, seen


@pytest.mark.parametrize("name", ["minio", "embedded"])
def test_kills_in_the_middle_of_a_set(request, tmp_path, name):
    bucket, is_minio = Bucket(request.getfixturevalue(name).endpoint), name == "minio"
    seen = kills_in_a_set(bucket, tmp_path, objects=15, kills=5, seed=3, pace=0.4, may_lose=is_minio)
    assert seen.committed == 15 or is_minio and seen.lost == 1, seen
