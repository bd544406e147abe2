"""The small commands: `ls`, `rm`, `stat`, `completions`, `serve`, and the store that needs no set-up, `dev://`."""

import re
import signal
from datetime import UTC

import pytest

from harness import MIB
from harness.lines import one_sentence
from harness.process import until


def test_ls_lists_what_is_under_a_prefix(tidegate, any_bucket):
    for key in ("logs/a.txt", "logs/b.txt", "other/c.txt"):
        any_bucket.put(key, b"12345")
    run = tidegate("ls", any_bucket.url("logs/"), env=any_bucket.env)
    assert run.exit == 0, run
    lines = run.text.splitlines()
    assert len(lines) == 2, run
    for line, name in zip(lines, ("a.txt", "b.txt"), strict=True):
        assert re.fullmatch(rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d          5 {name}", line), run
    modified = any_bucket.head("logs/a.txt")["LastModified"].astimezone(UTC)
    assert lines[0].startswith(modified.strftime("%Y-%m-%d %H:%M:%S")), "in UTC"
    above = tidegate("ls", any_bucket.url(), env=any_bucket.env)
    assert above.text == f"{'PRE':>30} logs/\n{'PRE':>30} other/\n", above


def test_ls_r_shows_whole_keys(tidegate, any_bucket):
    for key in ("t/a", "t/b/c", "t2"):
        any_bucket.put(key, b"1")
    run = tidegate("ls", "-r", any_bucket.url("t/"), env=any_bucket.env)
    assert [line.split()[2:] for line in run.text.splitlines()] == [["1", "t/a"], ["1", "t/b/c"]], run


def test_ls_shows_sizes_for_people_and_for_programs(tidegate, any_bucket):
    any_bucket.put("t/a", b"x" * 1536)
    for option in ("-H", "--human"):
        run = tidegate("ls", option, any_bucket.url("t/"), env=any_bucket.env)
        assert run.exit == 0 and run.text.endswith("    1.5 KiB a\n"), run
    [shown] = tidegate("ls", "--json", any_bucket.url("t/"), env=any_bucket.env).json
    assert shown["size"] == 1536 and shown["modified"].endswith("Z"), shown
    etag = any_bucket.head("t/a")["ETag"].strip('"')
    assert shown["etag"] == etag, shown
    [described] = tidegate("stat", "--json", any_bucket.url("t/a"), env=any_bucket.env).json
    assert described["etag"] == etag, described


def test_ls_turns_pages(tidegate, any_bucket, put_many):
    put_many(any_bucket, "n/", 1005, b"")
    run = tidegate("ls", any_bucket.url("n/"), env=any_bucket.env)
    assert run.exit == 0, run
    assert len(run.text.splitlines()) == 1005


def test_rm_removes_one_object(tidegate, any_bucket):
    any_bucket.put("a/gone", b"1")
    any_bucket.put("a/gone-not", b"2")
    run = tidegate("rm", any_bucket.url("a/gone"), env=any_bucket.env)
    assert run.exit == 0, run
    assert any_bucket.keys() == ["a/gone-not"]


def test_stat_says_size_and_type(tidegate, any_bucket):
    any_bucket.put("k", b"x" * 12345, ContentType="application/x-tide", Metadata={"origin": "pump-3"})
    run = tidegate("stat", any_bucket.url("k"), env=any_bucket.env)
    assert run.exit == 0, run
    for fact in ("12345", "application/x-tide", any_bucket.head("k")["ETag"].strip('"')):
        assert fact in run.text, run


def test_stat_of_a_missing_object(tidegate, any_bucket):
    run = tidegate("stat", any_bucket.url("missing"), env=any_bucket.env)
    one_sentence(run, any_bucket.url("missing"), exit=3)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "elvish", "powershell"])
def test_completions(tidegate, shell):
    """Those of three shells ask the program (test_completion.py); the others name all options."""
    run = tidegate("completions", shell)
    assert run.exit == 0, run
    asks = shell in ("bash", "zsh", "fish")
    assert ("tidegate complete " + shell in run.text) == asks, run
    assert ("--part-size" in run.text) != asks, run


def test_help_documents_the_exit_codes(tidegate):
    run = tidegate("--help")
    assert run.exit == 0, run
    assert "130" in run.text


@pytest.mark.parametrize(
    "words", [(), ("cp",), ("cp", "only-one"), ("no-such-command",), ("cp", "--no-such-option", "a", "b")]
)
def test_a_wrong_command_line_exits_2(tidegate, words):
    run = tidegate(*words)
    assert run.exit == 2, run
    assert run.err.strip(), run


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("get", "s3://bucket/k", "file"), "there is no command `get`: use `tidegate cp s3://BUCKET/KEY FILE`"),
        (("s3", "ls", "s3://bucket/"), "there is no command `s3`: leave it out, as in `tidegate ls s3://BUCKET/`"),
        (("-v", "mkbucket", "bucket"), "there is no command `mkbucket`: use `tidegate mb s3://BUCKET`"),
        (("delete", "http://user:secret@host/k"), "there is no command `delete`: use `tidegate rm s3://BUCKET/KEY`"),
    ],
)
def test_a_command_of_another_tool_is_answered_with_ours(tidegate, words, answer):
    run = tidegate(*words)
    assert (run.exit, run.out, run.err) == (2, b"", f"error: {answer}\n"), run


@pytest.mark.parametrize(("word", "meant"), [("lss", "ls"), ("sweeep", "sweep"), ("presing", "presign")])
def test_a_typo_is_answered_with_the_nearest_command(tidegate, word, meant):
    run = tidegate(word)
    assert run.exit == 2 and f"'{meant}'" in run.err, run


def test_the_dev_store_needs_no_setup(tidegate, make_file, tmp_path):
    path, _ = make_file(20 * MIB + 3)
    run = tidegate("cp", path, "dev://demo/first", cwd=tmp_path)
    assert run.exit == 0, run
    assert "dev://demo/first" in run.text + run.err, run
    shown = tidegate("cat", "dev://demo/first", cwd=tmp_path)
    assert shown.exit == 0, shown
    assert shown.out == path.read_bytes()


def test_serve_ends_on_ctrl_c(embedded, tidegate, tmp_path):
    """`embedded` is there so that a server that does not start at all fails there, with its log."""
    run = tidegate.start("serve", "--listen", "127.0.0.1:0", cwd=tmp_path)
    until("it says where it listens", lambda: "http://127.0.0.1:" in run.error_so_far() + run.output_so_far())
    run.interrupt()
    result = run.wait(10)
    assert result.exit in (0, 130, -signal.SIGINT), result
    assert "panicked" not in result.err, result
