"""Every page of `--help`, `-h` and `man`."""

import os
import re
import shutil
import subprocess

import pytest

# The width of a terminal, for text that is not written to one.
WIDE = {"COLUMNS": "100"}
GROUPS = ("journal", "lifecycle", "prefix", "sessions")


def commands(tidegate):
    """Every command as it is typed, from the help itself."""
    run = tidegate("--help", env=WIDE)
    assert run.exit == 0 and run.err == "", run
    names = re.findall(r"^  ([a-z]+) {2,}[A-Z]", run.text, re.M)
    assert {"cp", "sync", "du", "serve", "man"} <= set(names), run
    for name in names:
        if name == "help":
            continue
        yield name
        if name in GROUPS:
            below = tidegate(name, "--help", env=WIDE).text.split("Commands:", 1)[1]
            yield from (
                f"{name} {found}" for found in re.findall(r"^  ([a-z]+) {2,}[A-Z]", below, re.M) if found != "help"
            )


def test_every_command_explains_itself(tidegate):
    names = list(commands(tidegate))
    assert "journal resume" in names and len(names) > 25, names
    for name in names:
        run = tidegate(*name.split(), "--help", env=WIDE)
        assert run.exit == 0 and run.err == "", run
        title, example = run.text.split("\n\n")[:2]
        assert "\n" not in title and example.startswith("    "), run
        assert "Usage: tidegate " + name in run.text, run
        assert max(map(len, run.text.splitlines())) <= 100, run
        short = tidegate(*name.split(), "-h", env=WIDE)
        assert short.exit == 0 and len(short.text) < len(run.text), short
        assert short.text.startswith(title + "\n\nUsage: "), short


def test_the_codes_of_a_command_that_cannot_run_are_told(tidegate):
    text = " ".join(tidegate("cp", "--help", env=WIDE).text.split())
    assert "127 if there is no such command, 126 if it cannot be started, 124 if its time was up" in text


def test_help_without_a_command_is_the_short_one(tidegate):
    run = tidegate(env=WIDE)
    assert run.exit == 2 and run.text == "", run
    assert "tidegate cp big.tar" in run.err and "Copy and compare:" in run.err, run
    assert "Exit codes" not in run.err and "Exit codes" in tidegate("--help", env=WIDE).text, run


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return tmp_path_factory.mktemp("pages") / "man1"


def write(tidegate, pages):
    run = tidegate("man", "--output", pages, env={"SOURCE_DATE_EPOCH": "1795774500"})
    assert run.exit == 0 and run.text == "", run
    return sorted(pages.iterdir())


def test_every_command_has_a_man_page(tidegate, pages):
    written = {path.name for path in write(tidegate, pages)}
    assert written == {"tidegate.1"} | {f"tidegate-{name.replace(' ', '-')}.1" for name in commands(tidegate)}
    one = tidegate("man", "journal", "ls", env={"SOURCE_DATE_EPOCH": "1795774500"})
    assert one.exit == 0 and one.out == (pages / "tidegate-journal-ls.1").read_bytes(), one
    assert b'.TH TIDEGATE-JOURNAL-LS 1 2026-11-27 "tidegate ' in one.out
    wrong = tidegate("man", "frobnicate")
    assert wrong.exit == 2 and "no such command" in wrong.err, wrong


def test_man_pages_are_clean_for_mandoc(tidegate, pages):
    if not shutil.which("mandoc"):
        pytest.skip("there is no mandoc")
    for path in write(tidegate, pages):
        run = subprocess.run(
            ["mandoc", "-T", "lint", "-W", "warning", path], capture_output=True, text=True, timeout=20
        )
        # Pages that are not installed yet, and a page without an operating system.
        complaints = [line for line in run.stdout.splitlines() if "unknown manual" not in line]
        assert not complaints, "\n".join(complaints)


def test_man_pages_read_as_they_should(tidegate, pages):
    if not shutil.which("man") or not shutil.which("groff"):
        pytest.skip("there is no man with groff")
    env = os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    for path in write(tidegate, pages):
        command = ["man", "--warnings=w", "-E", "UTF-8", "-l", "-P", "cat", path]
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, env=env)
        assert run.returncode == 0 and run.stderr == "", (path, run)
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"):
            assert f"\n{section}\n" in run.stdout, (path, run.stdout)
        lines = run.stdout.splitlines()
        # Prose is filled to the width; examples stay whole, however long.
        examples = re.findall(r"^\.EX\n(.*?)^\.EE", path.read_text(), re.M | re.S)
        shown = [
            re.sub(r"\\(.)", lambda found: {"e": "\\", "&": ""}.get(found[1], found[1]), line)
            for block in examples
            for line in block.splitlines()
        ]
        assert shown, path
        for example in shown:
            if example.startswith("."):
                continue
            text = example.replace("(aq", "'").replace("*(Aq", "'")
            assert any(text.strip() in line for line in lines), (path, text, run.stdout)
