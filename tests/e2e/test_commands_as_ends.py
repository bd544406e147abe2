"""`cp --from-command` and `--to-command`: what a command produces is published exactly if it succeeds."""

import os
import random
import signal
import subprocess

import pytest

from harness import MIB
from harness.command import binary, clean_env
from harness.process import until

PATIENCE = 60


@pytest.fixture
def on(embedded_bucket):
    return embedded_bucket


@pytest.fixture
def cp(on, tmp_path):
    def run(*words, **options):
        options = {"cwd": tmp_path, "capture_output": True, "timeout": PATIENCE} | options
        return subprocess.run([binary(), "cp", "--progress", "never", *words], env=clean_env(on.env), **options)

    return run


def produced(on, cp, script, *options, key="k"):
    return cp("--from-command", on.url(key), *options, "--", "sh", "-c", script)


# A script, its exit code, and the bytes that it publishes if that is 0. The first are smaller than a part.
ENDS = [
    ("printf abc", 0, 3),
    ("true", 0, 0),
    ("head -c 20000000 /dev/zero", 0, 20_000_000),
    ("(sleep 0.2; printf behind) & printf before", 0, 12),
    ("printf abc; exec >&-; sleep 0.2", 0, 3),
    ("(kill -STOP $$; sleep 0.2; kill -CONT $$) & wait; printf abc", 0, 3),
    ("printf abc; exit 1", 1, None),
    ("head -c 20000000 /dev/zero; exit 77", 77, None),
    ("head -c 20000000 /dev/zero; kill -KILL $$", 137, None),
    ("kill -TERM $$", 143, None),
    ("sleep 30 >&1 & head -c 100 /dev/zero; exit 9", 9, None),
    # Out of memory, as a small limit makes it.
    ("head -c 6000000 /dev/zero; ulimit -v 60000; exec python3 -c 'b\"x\" * (1 << 30)'", 1, None),
    ("tidegate-no-such-command", 127, None),
]


@pytest.mark.parametrize(("script", "code", "size"), ENDS)
def test_only_what_a_successful_command_wrote_is_published(on, cp, script, code, size):
    run = produced(on, cp, script)
    assert run.returncode == code, run
    assert on.exists("k") == (size is not None)
    if size is not None:
        assert len(on.get("k")) == size
    else:
        assert b"sh: the command" in run.stderr, run
    assert on.sessions("k") == []


def test_producers_that_end_at_any_moment(on, cp, tmp_path):
    """Whatever ends the producer, and whenever: the object is there, whole, exactly if the exit code is 0."""
    random.seed(49)
    script = (
        "import sys, time, os, random\n"
        "random.seed(int(sys.argv[1])); left = random.choice([0, 100, 6_000_000, 12_000_000])\n"
        "while left > 0:\n"
        "    left -= os.write(1, bytes(min(left, 1 << 18)))\n"
        "    if random.random() < 0.02: os.kill(os.getpid(), random.choice([9, 15, 6]))\n"
        "    if random.random() < 0.01: sys.exit(random.choice([0, 1, 3]))\n"
        "open('whole', 'w').close()\n"
    )
    (tmp_path / "producer.py").write_text(script)
    ends = {True: 0, False: 0}
    for seed in range(40):
        (tmp_path / "whole").unlink(missing_ok=True)
        run = cp("--from-command", on.url(f"{seed}"), "--", "python3", "producer.py", str(seed))
        if run.returncode != 0:
            assert not on.exists(f"{seed}"), (seed, run)
        elif (tmp_path / "whole").exists():
            assert len(on.get(f"{seed}")) in (0, 100, 6_000_000, 12_000_000), seed
        assert on.sessions(f"{seed}") == [], seed
        ends[run.returncode == 0] += 1
    assert min(ends.values()) > 3, ends


def test_a_command_that_can_t_be_found_or_started_has_the_code_of_a_shell(on, cp, tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\n")
    for command, code, says in [("tidegate-no-such", 127, b"no such command"), ("./script", 126, b"could not be")]:
        run = cp("--from-command", on.url("k"), "--", command)
        assert (run.returncode, says in run.stderr) == (code, True), run
    assert not on.exists("k")


def test_a_command_has_only_its_time_and_whoever_holds_its_output_is_named(on, cp):
    for script, says in [("sleep 30", b"did not end within 0.5 s"), ("sleep 30 & exit 0", b"(sleep)")]:
        run = produced(on, cp, script, "--command-timeout", "500ms")
        assert (run.returncode, says in run.stderr) == (124, True), run
    assert not on.exists("k")


def test_whoever_holds_the_output_open_is_waited_for_and_named(on, cp):
    run = produced(on, cp, "(sleep 11; printf behind) & printf before")
    assert run.returncode == 0 and on.get("k") == b"beforebehind", run
    assert b"with the output of sh open" in run.stderr and b"(sleep)" in run.stderr, run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_too(on, tmp_path, number):
    script = "trap 'touch ended; exit 0' TERM; touch begun; head -c 6000000 /dev/zero; while :; do sleep 0.05; done"
    words = [binary(), "cp", "--from-command", on.url("k"), "--", "sh", "-c", script]
    run = subprocess.Popen(words, env=clean_env(on.env), cwd=tmp_path, stderr=subprocess.DEVNULL)
    until("the command has begun", (tmp_path / "begun").exists)
    run.send_signal(number)
    assert run.wait(PATIENCE) == 128 + number
    until("the command has ended", (tmp_path / "ended").exists)
    assert not on.exists("k")


def test_a_journaled_upload_is_published_when_the_command_has_succeeded(on, cp, tmp_path):
    (tmp_path / "journal").mkdir()
    options = ("--journal", "journal", "--part-size", "5MiB")
    zeros = "head -c 12000000 /dev/zero"
    for _ in range(2):
        run = produced(on, cp, f"{zeros}; exit 5", *options)
        assert (run.returncode, on.exists("k")) == (5, False), run
        assert os.listdir(tmp_path / "journal")
    run = produced(on, cp, f"{zeros}; printf end", *options)
    assert (run.returncode, len(on.get("k"))) == (0, 12_000_003), run
    assert not [name for name in os.listdir(tmp_path / "journal") if name.endswith(".journal")]


def test_a_rerun_of_a_command_that_fails_says_that(on, cp, tmp_path):
    """Not that its output differs from the journal, which would be given up then."""
    (tmp_path / "journal").mkdir()
    options = ("--journal", "journal", "--part-size", "5MiB")
    run = produced(on, cp, "head -c 12000000 /dev/zero; exit 3", *options)
    assert run.returncode == 3, run
    for script, code in [("exit 7", 7), ("head -c 1000 /dev/zero; kill -KILL $$", 137)]:
        run = produced(on, cp, script, *options)
        assert run.returncode == code and b"abort" not in run.stderr, run
    run = produced(on, cp, "echo other; sleep 0.2", *options)
    assert run.returncode == 1 and b"does not begin with them" in run.stderr, run
    run = produced(on, cp, "head -c 12000000 /dev/zero", *options)
    assert (run.returncode, len(on.get("k"))) == (0, 12_000_000), run


@pytest.mark.parametrize("end", ["from", "to"])
def test_a_process_that_ignores_the_ends_of_children_knows_them(on, tmp_path, end):
    on.put("old", b"abc")
    key, script = ("k", "echo hi") if end == "from" else ("old", "cat > got")
    words = ["env", "--ignore-signal=CHLD", binary(), "cp", f"--{end}-command", on.url(key), "--", "sh", "-c", script]
    run = subprocess.run(words, env=clean_env(on.env), cwd=tmp_path, capture_output=True, timeout=PATIENCE)
    assert run.returncode == 0, run
    assert on.get("k") == b"hi\n" if end == "from" else (tmp_path / "got").read_bytes() == b"abc"
    words[-1] += "; exit 5"
    run = subprocess.run(words, env=clean_env(on.env), cwd=tmp_path, capture_output=True, timeout=PATIENCE)
    assert run.returncode == 5, run


def test_a_consumer_is_not_started_for_an_object_that_is_not_there(on, cp, tmp_path):
    run = cp("--to-command", on.url("none"), "--", "sh", "-c", "touch started; cat")
    assert run.returncode == 3 and not (tmp_path / "started").exists(), run


def test_a_consumer_must_succeed(on, cp, tmp_path):
    on.put("k", bytes(3 * MIB))
    for script, code, says in [
        ("cat >copy", 0, b""),
        ("head -c 10 >copy", 0, b"has not read all"),
        ("cat >copy; exit 6", 6, b"sh: the command failed: exit code 6"),
        ("exit 7", 7, b"exit code 7"),
        ("kill -KILL $$", 137, b"signal 9"),
    ]:
        (tmp_path / "copy").unlink(missing_ok=True)
        run = cp("--to-command", on.url("k"), "--", "sh", "-c", script)
        assert (run.returncode, says in run.stderr) == (code, True), (script, run)
        if script == "cat >copy":
            assert (tmp_path / "copy").read_bytes() == bytes(3 * MIB)
    run = cp("--to-command", on.url("k"), "--command-timeout", "300ms", "--", "sleep", "30")
    assert run.returncode == 124, run
    run = cp("--to-command", on.url("missing"), "--", "cat")
    assert run.returncode == 3, run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--from-command", "URL"], b"the command is missing"),
        (["--from-command", "a", "URL", "--", "true"], b"name one target"),
        (["--from-command", "-", "--", "true"], b"name one target"),
        (["--from-command", "URL/", "--", "true"], b"has no name to keep"),
        (["--from-command", "-r", "URL", "--", "true"], b"is no directory"),
        (["--from-command", "--to-command", "URL", "--", "true"], b"cannot be used with"),
        (["--to-command", "-", "--", "true"], b"name one source"),
        (["--to-command", "-r", "URL", "--", "true"], b"takes one object"),
        (["--command-timeout", "1s", "a", "URL"], b"goes with --from-command"),
        ([], b"name a source and a target"),
    ],
)
def test_ends_that_make_no_sense_are_refused(on, cp, words, says):
    run = cp(*(word.replace("URL", on.url("k")) for word in words))
    assert (run.returncode, says in run.stderr) == (2, True), run
    assert not on.exists("k")


def test_words_after_two_dashes_are_sources_without_a_command(on, cp, tmp_path):
    (tmp_path / "-weird").write_bytes(b"1")
    assert cp("--", "-weird", on.url("k")).returncode == 0
    assert on.get("k") == b"1"
    assert cp("--from-command", on.url("planned"), "--dry-run", "--", "false").returncode == 0
    assert not on.exists("planned")


def test_standard_input_that_is_a_file_is_uploaded_as_one(on, cp, tmp_path):
    """Its size is known before a byte is sent; what was read before is not part of it."""
    (tmp_path / "f").write_bytes(b"line\n" * MIB)
    with (tmp_path / "f").open("rb") as file:
        run = cp("--expect-size", "7", "-", on.url("k"), stdin=file)
        assert (run.returncode, b"it has 5242880 bytes" in run.stderr) == (2, True), run
        assert cp("-", on.url("k"), stdin=file).returncode == 0
        assert len(on.get("k")) == 5 * MIB
        file.seek(5)
        assert cp("-", on.url("rest"), stdin=file).returncode == 0
        assert len(on.get("rest")) == 5 * MIB - 5
    with (tmp_path / "f").open("rb") as file:
        (tmp_path / "f").unlink()
        assert cp("-", on.url("gone"), stdin=file).returncode == 0
        assert len(on.get("gone")) == 5 * MIB


def test_a_command_in_a_list_is_refused(on, cp, tmp_path):
    (tmp_path / "list").write_text(f"cp --from-command {on.url('k')} -- date\n")
    run = subprocess.run(
        [binary(), "run", "list"], env=clean_env(on.env), cwd=tmp_path, capture_output=True, timeout=PATIENCE
    )
    assert (run.returncode, b"--from-command" in run.stderr) == (2, True), run
