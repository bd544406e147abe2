"""What a cell of the table works with: one place on one server, the program, and questions that have to be answered right."""

import hashlib
import re
from pathlib import Path
from random import Random

from harness import MIB
from harness.command import CommandLine, Result, Run

from .servers import Place

POOL = Random(32).randbytes(101 * MIB)


class Wrong(Exception):
    """What was not as it has to be: the first line of the program's error, or what was found instead."""


def content(size: int) -> memoryview:
    """So many bytes, different at every size."""
    return memoryview(POOL)[size % 9973 :][:size]


def sha256(data) -> str:
    return hashlib.sha256(data).hexdigest()


class Trial:
    """One cell: keys begin with `prefix`, and `work` is an empty folder."""

    def __init__(self, place: Place, prefix: str, work: Path):
        self.bucket, self._place, self._prefix = place.bucket, place, prefix
        self.work = work
        self._program = CommandLine()

    def close(self):
        self._program.stop()

    def key(self, name="") -> str:
        return f"{self._prefix}/{name}"

    def url(self, name="") -> str:
        return self.bucket.url(self.key(name))

    def start(self, command, *arguments, stdin=None) -> Run:
        options = [*self.bucket.options, *(["--progress", "never"] if command in ("cp", "sync") else [])]
        if command == "journal":
            options = []
        return self._program.start(command, *arguments, *options, env=self.bucket.env, stdin=stdin, cwd=self.work)

    def run(self, command, *arguments, stdin=None, exit=0) -> Result:
        """Runs the program, which has to end with this exit code."""
        ended = self.start(command, *arguments, stdin=stdin).wait(120)
        if ended.exit != exit:
            said = self.first_line(ended.said)
            raise Wrong(said if ended.exit else f"`{command}` succeeded, but had to end with exit code {exit}")
        return ended

    def first_line(self, text: str) -> str:
        """Of what the program said, without what is different at every run."""
        errors = [line for line in text.splitlines() if line.startswith("error: ")]
        line = (errors or text.splitlines() or ["it said nothing"])[0].removeprefix("error: ")
        line = line.replace(self.bucket.url(), self.bucket.url().split("://")[0] + "://bucket/")
        line = re.sub(r"127\.0\.0\.1:\d+", "server", line)
        return re.sub(r"in [\d.]+ m?s\b", "in … s", line)

    def file(self, name: str, size: int) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(size))
        return path

    def is_stored(self, name: str, data):
        """By the server's own client."""
        key = self.key(name)
        size = self.bucket.size(key)
        if size != len(data):
            raise Wrong(
                f"{name}: the server has {'nothing' if size is None else f'{size} bytes'}, not {len(data)} bytes"
            )
        if self.bucket.sha256(key) != sha256(data):
            raise Wrong(f"{name}: the server has other bytes")

    def is_absent(self, name: str):
        if self.bucket.size(self.key(name)) is not None:
            raise Wrong(f"{name}: the server has it")

    def has_keys(self, *names: str):
        """These and no others, by the server's own client."""
        found = [key for key in self.bucket.keys() if key.startswith(self.key())]
        wanted = sorted(self.key(name) for name in names)
        if sorted(found) != wanted:
            raise Wrong(f"the server has {sorted(found)}, not {wanted}")

    def same(self, what: str, found, wanted):
        if found != wanted:
            shown = lambda value: f"{len(value)} bytes" if isinstance(value, bytes | memoryview) else repr(value)
            raise Wrong(f"{what}: {shown(found)}, not {shown(wanted)}")
