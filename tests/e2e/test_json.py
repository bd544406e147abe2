"""`--json`: every command prints lines of one schema, on success and on failure. (The harness checks each line of each
run with --json against it.) And what -q and -v print."""

import itertools
import os
import secrets

import pytest

from harness import MIB
from harness.command import CommandLine
from harness.feed import open_pipe
from harness.lines import LINES, SCHEMA
from harness.process import free_port, until
from job_kills import program
from journals import left_behind

PART = 5 * MIB
DENIED = {"error": {"status": 403, "code": "AccessDenied"}}
SLOW = {"operation": "PutObject", "action": {"error": {"status": 503, "code": "SlowDown"}}}


@pytest.fixture
def on(embedded_bucket):
    embedded_bucket.put("t/a", b"a")
    embedded_bucket.put("t/b/c", b"cc")
    return embedded_bucket


@pytest.fixture
def run(tidegate, on):
    """`run("ls", …, exit=0)` runs a command with --json: what it printed, all of it, is in `run.seen` by type."""

    def run(*words, exit=0, env=None, **options):
        ended = tidegate(*words, "--json", env=env or on.env, **options)
        assert ended.exit == exit, ended
        for line in ended.json + ended.messages:
            run.seen.setdefault(line["type"], []).append(line)
        return ended

    run.seen = {}
    return run


def stray(bucket, key):
    """A session that another program began and left."""
    place = {"Bucket": bucket.name, "Key": key}
    session = bucket.client.create_multipart_upload(**place)["UploadId"]
    bucket.client.upload_part(**place, UploadId=session, PartNumber=1, Body=b"s" * PART)


def types(ended):
    return [line["type"] for line in ended.json]


def test_every_command_prints_lines_of_the_schema_and_every_type_is_printed(
    tidegate, run, on, tmp_path, journal, proxy_to, knobs
):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_bytes(b"new")
    (tree / "link").symlink_to(tmp_path)
    other = on.url("other")

    # What is copied, removed and skipped.
    copied = run("cp", "-r", f"{tree}/", on.url("up/"))
    assert types(copied) == ["copy"] and copied.json[0]["bytes"] == 3, copied
    assert [message["type"] for message in copied.messages] == ["warning"], copied
    assert "left out" in copied.messages[0]["message"], copied
    [planned] = run("cp", "--dry-run", tree / "a", other).json
    assert planned == {"type": "copy", "source": str(tree / "a"), "target": other, "bytes": 3, "dry_run": True}
    assert types(run("cp", "--if-absent", tree / "a", on.url("up/a"))) == ["skip"]
    assert types(run("cp", on.url("up/a"), other)) == ["copy"]
    assert types(run("mv", other, on.url("moved"))) == ["copy", "remove"]
    assert {line["url"] for line in run("rm", "-r", "--dry-run", on.url("t/")).json} == {
        on.url("t/a"),
        on.url("t/b/c"),
    }
    assert run("rm", on.url("moved")).json == [{"type": "remove", "url": on.url("moved")}]
    synced = run("sync", "--delete", tree, on.url("up"))
    assert types(synced) == [] and "1 object unchanged, 0 removed" in synced.messages[-1]["message"], synced
    assert types(run("sync", "--delete", "--dry-run", tree, on.url("t"))) == ["copy", "remove"]
    [difference, extra] = run("check", tree, on.url("t"), exit=1).json
    assert difference == {
        "type": "difference",
        "key": "a",
        "difference": "size",
        "source": str(tree / "a"),
        "target": on.url("t/a"),
    }
    assert extra == {"type": "difference", "key": "b/c", "difference": "extra", "target": on.url("t/b/c")}
    assert run.seen["error"][-1]["kind"] == "failed", run.seen

    # What is there.
    assert types(run("ls", on.url("t/"))) == ["object", "prefix"]
    assert on.url().rstrip("/") in [line["url"] for line in run("ls", "s3://").json]
    assert "other" in types(run("ls", f"{tree}/"))
    counted = run("du", on.url("t"), on.url("up")).json
    assert counted[-1] == {"type": "total", "objects": 3, "bytes": 6}, counted
    [described] = run("stat", on.url("t/a")).json
    [listed] = [line for line in run("ls", on.url("t/a")).json if line["type"] == "object"]
    for field in ("url", "size", "modified", "etag"):
        assert described[field] == listed[field], (described, listed)
    assert '"' not in described["etag"], described
    assert run("presign", on.url("t/a")).json[0]["url"] == on.url("t/a")

    # Buckets, and what belongs to them.
    bucket = f"s3://t-{secrets.token_hex(6)}"
    assert run("mb", bucket).json == [{"type": "create", "url": bucket}]
    run("lifecycle", "ensure", bucket)
    assert {found["state"] for found in run("doctor", bucket).json} == {"works", "missing"}
    assert types(run("lifecycle", "show", bucket)) == ["rule"]
    assert run("rb", bucket).json == [{"type": "remove", "url": bucket}]
    run("prefix", "init", on.url("spread"), "--count", "4")
    run("prefix", "migrate", on.url("spread"), "--count", "8", "--now")
    assert run("prefix", "show", on.url("spread")).json[0]["count"] == 8
    [place] = run("prefix", "show", on.url("spread"), "key").json
    assert place["type"] == "place" and place["url"].endswith("/key"), place

    # Unfinished uploads, at the store and on this machine.
    for key in ("left/a", "left/b"):
        stray(on, key)
    assert types(run("sessions", "ls", on.url("left/"))) == ["session"] * 2
    assert types(run("sessions", "abort", on.url("left/a"))) == ["session", "sessions"]
    ages = ("--older-than", "0s")
    assert run("sweep", on.url("left/"), *ages, "--dry-run").json[0]["fate"] == "would_end"
    assert run("sweep", on.url("left/"), *ages).json[0]["fate"] == "ended"
    [prepared] = run("cp", "--prepare", tmp_path / "p.json", tree / "a", on.url("pending")).json
    assert (prepared["type"], prepared["state"], prepared["bytes"]) == ("pending", "prepared", 3), prepared
    assert run("commit", tmp_path / "p.json").json[0]["state"] == "committed"
    driver = CommandLine(program())
    assert driver("set-up", on.url("job"), "one", env=on.env).exit == 0
    driver.stop()
    [job] = run("abandon", "--job", on.url("job")).json
    assert (job["type"], job["state"]) == ("job", "abandoned"), job
    assert run("cp", "--prepare", tmp_path / "q.json", tree / "a", on.url("never")).json[0]["url"] == on.url("never")
    assert run("abandon", tmp_path / "q.json").json[0]["state"] == "abandoned"
    run("cp", "--prepare", tmp_path / "r.json", tree / "a", on.url("set"))
    assert types(run("commit", "--manifest", on.url("pointer"), tmp_path / "r.json")) == ["pending"]
    run("cp", "--prepare", tmp_path / "s.json", tree / "a", on.url("never"))
    assert types(run("abandon", "--manifest", on.url("other"), tmp_path / "s.json")) == ["pending"]
    left_behind(tidegate, on, journal, b"x" * (2 * PART))
    [left] = run("journal", "ls", journal).json
    assert run("journal", "show", journal, left["id"]).json[0]["bytes"] == 2 * PART
    assert run("journal", "verify", journal).json[0]["state"] == "whole"
    assert run("journal", "resume", journal).json == []
    [aborted] = run("journal", "abort", journal, "--all").json
    assert aborted == {"type": "abort", "id": left["id"], "url": on.url("k"), "fate": "ended"}
    proxy = proxy_to(on.endpoint.url.removeprefix("http://"))
    proxy.cut()
    cp = ("cp", "-", on.url("k"), "--journal", journal, "--attempts", "1")
    run(*cp, stdin=b"published", env=on.by(proxy.url).env, exit=5)
    assert run.seen["error"][-1]["kind"] == "unavailable", run.seen["error"]
    proxy.mend()
    assert run("journal", "resume", journal, env=on.by(proxy.url).env).json[0]["size"] == len(b"published")

    # The server, and the log.
    port = free_port()
    serving = tidegate.start("serve", "--listen", f"127.0.0.1:{port}", "--storage", "memory", "--json")
    until("it is ready", lambda: serving.output_so_far())
    serving.interrupt()
    [server] = serving.wait().json
    assert server["endpoint_url"].endswith(f":{port}"), server
    run.seen["server"] = [server]
    knobs(faults=[{**SLOW, "times": 1}])
    run("cp", tree / "a", on.url("retried"), "-vv")

    # What has no JSON says so.
    for words in (["cat", on.url("t/a")], ["completions", "bash"], ["cp", on.url("t/a"), "-"]):
        ended = run(*words, exit=2)
        assert ended.out == b"" and ended.messages[0]["kind"] == "usage", ended

    assert set(run.seen) == set(LINES)


def test_each_line_has_its_type_first_and_each_field_a_description():
    assert [line["$ref"].rpartition("/")[2] for line in SCHEMA["oneOf"]] == list(LINES)
    for name, line in LINES.items():
        assert line["additionalProperties"] is False and set(line["required"]) <= set(line["properties"]), name
        for field in itertools.chain(line["properties"].values(), SCHEMA["$defs"].values()):
            assert field is LINES or "$ref" in field or field["description"].endswith("."), (name, field)


# One thing that is not there for each command that looks for something; and a command line that is wrong.
FAILING = [
    (("cp", "{url}missing", "{out}"), 3, "not_found"),
    (("mv", "{url}missing", "{out}"), 3, "not_found"),
    (("sync", "{out}", "{url}up"), 3, "not_found"),
    (("check", "{out}", "{url}up"), 3, "not_found"),
    (("ls", "{url}missing"), 3, "not_found"),
    (("du", "{url}missing"), 3, "not_found"),
    (("rm", "{url}missing"), 3, "not_found"),
    (("rm", "-r", "{url}missing"), 3, "not_found"),
    (("stat", "{url}missing"), 3, "not_found"),
    (("presign", "{url}"), 2, "usage"),
    (("mb", "{url}key"), 2, None),
    (("rb", "s3://no-bucket-of-this-name"), 3, "no_bucket"),
    (("sessions", "ls", "s3://no-bucket-of-this-name"), 3, "no_bucket"),
    (("sessions", "abort", "{url}missing"), 3, "not_found"),
    (("sweep", "{out}"), 3, "not_found"),
    (("journal", "ls", "{out}"), 3, "not_found"),
    (("journal", "show", "{here}", "nosuch"), 3, "not_found"),
    (("journal", "resume", "{out}"), 3, "not_found"),
    (("journal", "abort", "{here}", "nosuch"), 3, "not_found"),
    (("journal", "verify", "{out}"), 3, "not_found"),
    (("lifecycle", "show", "s3://no-bucket-of-this-name"), 3, "no_bucket"),
    (("lifecycle", "ensure", "s3://no-bucket-of-this-name"), 3, "no_bucket"),
    (("prefix", "show", "{url}missing"), None, None),
    (("prefix", "init", "{url}new", "--count", "3"), 2, "invalid_input"),
    (("prefix", "migrate", "{url}missing", "--count", "8"), None, None),
    (("serve", "--listen", "127.0.0.1:1", "--storage", "disk:{out}"), 1, "failed"),
    (("cat", "{url}t/a"), 2, "usage"),
    (("ls", "--no-such-option"), 2, "usage"),
    (("frobnicate",), 2, "usage"),
    (("mkbucket", "x"), 2, "usage"),
    ((), 2, "usage"),
]


@pytest.mark.parametrize(
    "words, code, kind", FAILING, ids=lambda value: " ".join(value) if type(value) is tuple else ""
)
def test_a_failure_is_one_line_with_its_code_and_kind(tidegate, on, tmp_path, words, code, kind):
    if words[:1] == ("serve",) and os.geteuid() == 0:
        words = ("serve", "--listen", "192.0.2.1:9", "--storage", "memory")
    words = [word.format(url=on.url(), out=tmp_path / "nowhere", here=tmp_path) for word in words]
    ended = tidegate(*words, "--json", env=on.env)
    assert ended.out == b"" and ended.exit, ended
    [error] = ended.messages
    assert error["type"] == "error" and error["exit_code"] == ended.exit, ended
    assert ended.exit == (code or ended.exit) and error["kind"] == (kind or error["kind"]), ended
    assert not error["message"].startswith("error") and "\n" not in error["message"], ended


def test_an_error_of_a_store_is_told_in_fields(tidegate, on, knobs):
    knobs(faults=[{"operation": "HeadObject", "action": {"error": {"status": 503, "code": "SlowDown"}}}])
    [error] = tidegate("stat", on.url("t/a"), "--json", env=on.env, timeout=120).messages[-1:]
    assert error["kind"] in ("throttled", "unavailable") and error["operation"] == "head", error
    assert error["object"] == on.url("t/a") and error["attempts"] > 1 and error["seconds"] > 0, error


def test_each_object_that_fails_among_many_is_an_error_line(tidegate, on, knobs, tmp_path):
    knobs(faults=[{"operation": "GetObject", "key_prefix": "t/a", "action": DENIED}])
    ended = tidegate("cp", "-r", on.url("t/"), f"{tmp_path}/out/", "--json", env=on.env)
    assert ended.exit == 1 and types(ended) == ["copy"], ended
    one, last = ended.messages
    assert (one["kind"], one["object"], one["exit_code"]) == ("permission_denied", on.url("t/a"), 4), ended
    assert (last["kind"], last["exit_code"]) == ("failed", 1), ended


def test_an_interruption_is_an_error_of_its_own_kind(tidegate, on):
    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", on.url("k"), "--part-size", "5MiB", "--json", stdin=pipe.stdin, env=on.env)
        pipe.started()
        pipe.send(b"a" * (2 * PART + 1))
        until("a part is stored", lambda: on.parts("k") >= 1)
        run.interrupt()
        ended = run.wait(20)
    assert ended.exit == 130 and ended.out == b"", ended
    [error] = ended.messages
    assert (error["type"], error["kind"], error["exit_code"]) == ("error", "interrupted", 130), ended
    assert error["message"].startswith("interrupted: aborting 1 unfinished upload"), ended


def test_quiet_prints_errors_and_results_only(tidegate, on, tmp_path):
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "link").symlink_to("/")
    silent = [
        ("cp", tmp_path / "a", on.url("x/a")),
        ("check", "--size-only", on.url("x"), on.url("x2")),
        ("rm", "-r", on.url("x")),
    ]
    silent += [("sync", on.url("t"), on.url("x2")), ("mb", f"s3://t-{secrets.token_hex(6)}")]
    on.put("x2/a", b"a")
    for words in silent:
        ended = tidegate(*words, "--quiet", env=on.env)
        assert (ended.exit, ended.out, ended.err) == (0, b"", ""), ended
    synced = tidegate("sync", tmp_path, on.url("y"), "-q", env=on.env)
    assert synced.exit == 0 and synced.out == b"", synced
    assert synced.err == f"warning: left out: {tmp_path}/link is a symbolic link to a directory\n", synced
    assert on.url("t/a") in tidegate("rm", "--dry-run", on.url("t/a"), "-q", env=on.env).text
    assert "t/b" in tidegate("ls", "-r", on.url("t/"), "-q", env=on.env).text
    assert tidegate("stat", on.url("missing"), "-q", env=on.env).err.startswith("error: ")
    both = tidegate("ls", on.url(), "-q", "-v", env=on.env)
    assert both.exit == 2 and "--quiet" in both.err, both


def test_verbose_prints_a_line_for_each_object(tidegate, on, knobs, tmp_path):
    source, target = tmp_path / "a", on.url("up/a")
    source.write_bytes(b"x" * 12_600)
    copied = tidegate("cp", source, target, "-v", env=on.env)
    assert copied.text == f"copy {source} -> {target} (12.3 KiB)\n", copied
    assert "12.3 KiB in" in copied.err and len(copied.err.splitlines()) == 1, copied
    synced = tidegate("sync", "--delete", tmp_path, on.url("t"), "-v", env=on.env)
    assert sorted(synced.text.splitlines()) == [
        f"copy {source} -> {on.url('t/a')} (12.3 KiB)",
        f"remove {on.url('t/b/c')}",
    ]
    moved = tidegate("mv", target, on.url("down"), "-v", env=on.env)
    assert moved.text.splitlines() == [f"copy {target} -> {on.url('down')} (12.3 KiB)", f"remove {target}"], moved
    removed = tidegate("rm", "-r", on.url("t"), "-v", env=on.env)
    assert removed.text == f"remove {on.url('t/a')}\n", removed
    # Never where the object itself goes.
    for end in ("-", "/dev/stdout"):
        shown = tidegate("cp", on.url("down"), end, "-v", env=on.env)
        assert shown.out == source.read_bytes(), shown
    assert "tidegate" not in copied.err, "the log needs -vv"
    knobs(faults=[{**SLOW, "times": 1}])
    assert "DEBUG tidegate" in tidegate("cp", source, target, "-vv", env=on.env).err
