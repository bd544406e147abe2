"""The release, places to install it into, and the table of what ran."""

import hashlib
import os
import subprocess
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import MIB, ROOT
from harness.command import CommandLine
from harness.process import until
from harness.s3 import Bucket

TOOLS = ROOT / ".tools"
QEMU = TOOLS / "qemu-aarch64/usr/bin/qemu-aarch64-static"
# Libraries and Python for aarch64, unpacked.
AARCH64 = TOOLS / "python-aarch64"
QUIET = ("--progress", "never")
# Slow enough that a kill comes in the middle.
SLOW = {"bandwidth": {"total_in": 8_000_000, "total_out": 8_000_000}}
SIZE = 40 * MIB + 7

rows = []


@dataclass(frozen=True)
class Release:
    folder: Path
    version: str

    def file(self, pattern):
        """The one file that the release has of this pattern, with {version} in it."""
        pattern = pattern.format(version=self.version)
        found = list(self.folder.glob(pattern))
        assert len(found) == 1, f"{self.folder} has {len(found)} files {pattern}"
        return found[0]


@pytest.fixture(scope="session")
def release():
    folder = ROOT / os.environ.get("TIDEGATE_RELEASE", "dist")
    if not (folder / "SHA256SUMS").exists():
        pytest.exit(f"{folder} has no release: scripts/release {folder}", returncode=2)
    assert os.geteuid() == 0, "these checks need root, for chroot"
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    return Release(folder, version)


def sh(*command, timeout=120, **more):
    """Runs a command that is to succeed, and returns what it printed."""
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, **more)
    assert run.returncode == 0, f"{command}: exit {run.returncode}\n{run.stdout}\n{run.stderr}"
    return run.stdout


class Installed:
    """A program that was installed: how it is started, and the folder that it and the tests both see, which is `inside` to the
    program and `outside` to the tests."""

    def __init__(self, folder, start, outside, inside=None):
        # A script that becomes the program: what kills it kills the program.
        script = folder / "tidegate"
        script.write_text(f'#!/bin/sh\nexec {" ".join(map(str, start))} "$@"\n')
        script.chmod(0o755)
        self.run = CommandLine(script)
        self.outside, self.inside = Path(outside), Path(inside or outside)


@pytest.fixture
def make_installed(tmp_path):
    made = []

    def make(start, outside=None, inside=None):
        if outside is None:
            outside = tmp_path / "files"
            outside.mkdir()
        made.append(Installed(tmp_path, start, outside, inside))
        return made[-1]

    yield make
    for one in made:
        one.run.stop()


@pytest.fixture
def use(embedded, release):
    """`use(installed, artefact, "deb in a chroot", began)` does with the program what its users do, and adds a row to the table.
    `began` is when its installation began."""

    def run(installed, artefact, where, began):
        bucket, program = Bucket(embedded.endpoint), installed.run
        said = program("--version")
        assert said.exit == 0 and said.text.startswith(f"tidegate {release.version} (commit "), said

        small = os.urandom(MIB + 1)
        (installed.outside / "small").write_bytes(small)
        sent = program("cp", installed.inside / "small", bucket.url("small"), *QUIET, env=bucket.env)
        assert sent.exit == 0, sent
        seconds = time.monotonic() - began
        assert bucket.sha256("small") == hashlib.sha256(small).hexdigest()
        back = program("cp", bucket.url("small"), installed.inside / "back", *QUIET, env=bucket.env)
        assert back.exit == 0, back
        assert (installed.outside / "back").read_bytes() == small

        resumes(installed, bucket, embedded)
        ran = ("upload", "download", "resumed upload", "resumed download")
        rows.append((artefact.name, artefact.stat().st_size, where, ", ".join(ran), seconds))

    yield run
    embedded.control("PUT", "knobs", {})


def resumes(installed, bucket, server):
    """An upload with a journal and a download, both killed in the middle: the second run moves less than the whole."""
    data = os.urandom(SIZE)
    (installed.outside / "big").write_bytes(data)
    # Of the user that the program runs as, like the folder.
    journal, owner = installed.outside / "journal", installed.outside.stat()
    journal.mkdir(mode=0o700)
    os.chown(journal, owner.st_uid, owner.st_gid)
    up = (installed.inside / "big", bucket.url("big"), "--part-size", "5MiB", "--journal", installed.inside / "journal")
    down = (bucket.url("big"), installed.inside / "down", "--concurrency", "2")
    for words, counted in ((up, "bytes_in"), (down, "bytes_out")):
        server.control("PUT", "knobs", SLOW)
        begun = server.control("GET", "counts")[counted]
        first = installed.run.start("cp", *words, *QUIET, env=bucket.env)
        moved = lambda: server.control("GET", "counts")[counted] - begun  # noqa: B023
        until("half of it has moved", lambda: first.ended or moved() > SIZE // 2, 60)
        assert not first.ended, first.error_so_far()
        first.killed()
        server.control("PUT", "knobs", {})
        begun = server.control("GET", "counts")[counted]
        second = installed.run("cp", *words, *QUIET, env=bucket.env)
        assert second.exit == 0, second
        assert moved() < SIZE, f"{moved()} of {SIZE} bytes were moved again"
    assert bucket.sha256("big") == hashlib.sha256(data).hexdigest()
    assert (installed.outside / "down").read_bytes() == data


def pytest_terminal_summary(terminalreporter):
    terminalreporter.section("artefacts")
    for name, size, where, ran, seconds in rows:
        terminalreporter.write_line(
            f"{name} | {size / 1e6:.1f} MB | {where} | {ran} | {seconds:.1f} s to the first upload"
        )
