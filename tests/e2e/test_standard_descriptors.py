"""Standard input, output and error that are closed, full, or open the wrong way round. A shell sets them up, as callers
do; `/dev/null` that a caller gives, read-write as Python's DEVNULL is, is no closed descriptor."""

import os
import subprocess

import pytest

from harness.command import binary, clean_env

PATIENCE = 60


@pytest.fixture
def on(embedded_bucket):
    embedded_bucket.put("k", b"precious")
    return embedded_bucket


@pytest.fixture
def shell(on, tmp_path):
    def run(line):
        env = clean_env(on.env) | {"TG": str(binary()), "URL": on.url(), "K": on.url("k")}
        return subprocess.run(["bash", "-c", line], env=env, cwd=tmp_path, capture_output=True, timeout=PATIENCE)

    return run


@pytest.mark.parametrize("closed", ["<&-", "0>made", "0>>made", "<&- >&- 2>&-"])
@pytest.mark.parametrize("source", ["-", "/dev/stdin", "/dev/fd/0", "/proc/thread-self/fd/0", "/proc/$BASHPID/fd/0"])
def test_a_closed_standard_input_is_no_empty_object(shell, on, source, closed):
    run = shell(f'(exec "$TG" cp {source} "$K" {closed})')
    assert run.returncode != 0, run
    assert on.get("k") == b"precious"
    if "2>&-" not in closed:
        assert b"standard input" in run.stderr or b"Bad file" in run.stderr, run


TO_OUTPUT = [
    'cat "$K"',
    'ls "$URL"',
    'ls --json "$URL"',
    'stat "$K"',
    'stat --json "$K"',
    'cp "$K" -',
    'cp "$K" /dev/stdout',
    'cp --json "$K" copy',
    'rm --dry-run "$K"',
    'rm -r --dry-run "$URL"',
    'sweep "$URL"',
    'sweep --json "$URL"',
    "completions bash",
    "man cp",
    "--help",
    "cp --help",
    "--version",
]


@pytest.mark.parametrize("to", [">&-", ">/dev/full", "1<made"])
@pytest.mark.parametrize("words", TO_OUTPUT)
def test_a_standard_output_that_takes_nothing_is_an_error(shell, on, tmp_path, words, to):
    (tmp_path / "made").write_bytes(b"")
    run = shell(f'"$TG" {words} {to}')
    assert run.returncode == 1, run
    assert on.get("k") == b"precious"


def test_what_needs_no_standard_descriptor_works_without(shell, on, tmp_path):
    (tmp_path / "f").write_bytes(b"data")
    for line, made in [('cp f "$URL"made', True), ('cp "$K" out', True), ('rm "$URL"made', False)]:
        run = shell(f'"$TG" {line} <&- >&- 2>&-')
        assert run.returncode == 0, (line, run)
        assert on.exists("made") == made
    assert (tmp_path / "out").read_bytes() == b"precious"


def test_no_message_goes_into_a_file_that_got_descriptor_2(shell, on, tmp_path):
    """With descriptors closed, the first files that are opened would get their numbers."""
    run = shell('RUST_LOG=debug "$TG" cp "$K" out <&- >&- 2>&-')
    assert run.returncode == 0 and (tmp_path / "out").read_bytes() == b"precious", run
    run = shell('"$TG" -vv cp "$URL"missing other 2>&-')
    assert run.returncode == 3 and not os.path.exists(tmp_path / "other"), run


def test_dev_null_is_no_closed_descriptor(on, tmp_path):
    env = clean_env(on.env)
    null = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for words in [("cp", "-", on.url("empty")), ("cat", on.url("k")), ("ls", on.url()), ("--help",)]:
        assert subprocess.run([binary(), *words], env=env, timeout=PATIENCE, **null).returncode == 0, words
    assert on.get("empty") == b""
