"""The faces that a file goes up and down through, each as one process."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness import ROOT
from harness.command import binary

UP, DOWN = "up", "down"


def rust_example() -> Path:
    """The program `transfers`; a relative TIDEGATE_TRANSFERS is taken from the repository's root."""
    return ROOT / os.environ.get("TIDEGATE_TRANSFERS", "target/release/transfers")


def python() -> Path:
    """A Python that has the package: the suite's own, which finds it by PYTHONPATH, or what TIDEGATE_PYTHON names."""
    return ROOT / os.environ.get("TIDEGATE_PYTHON", ".tools/venv/bin/python")


@dataclass(frozen=True)
class Transfer:
    """One transfer between the file `path` and the object `key` of `bucket`."""

    path: Path
    bucket: str
    key: str
    scratch: Path
    # Bytes a second, or None for full speed.
    rate: int | None = None

    @property
    def url(self):
        return f"{self.bucket}/{self.key}"


@dataclass(frozen=True)
class Face:
    name: str
    direction: str
    command: Callable[[Transfer], list]
    # Whether the file is the process's standard input or output, through a pipe.
    is_piped: bool = False
    # Whether the command keeps to `Transfer.rate`.
    has_rate: bool = False


def _cli(*words):
    def command(transfer: Transfer):
        values = {"PATH": transfer.path, "URL": transfer.url, "JOURNAL": transfer.scratch / "journal"}
        rate = ["--bandwidth", f"{transfer.rate}B"] if transfer.rate else []
        return [binary(), words[0], "-q", *rate, *(values.get(word, word) for word in words[1:])]

    return command


def _rust(runtime, direction):
    verb = {UP: "upload", DOWN: "download"}[direction]
    return lambda transfer: [rust_example(), runtime, verb, transfer.bucket, transfer.key, transfer.path]


def _python(face, direction):
    verb = {UP: "upload", DOWN: "download"}[direction]
    script = Path(__file__).with_name("python_face.py")
    return lambda transfer: [python(), script, face, verb, transfer.url, transfer.path]


LIBRARY = [
    *((f"Rust, {runtime}", _rust, runtime) for runtime in ("multi-thread", "current-thread", "blocking")),
    *((f"Python, {face}", _python, face) for face in ("blocking", "aio")),
]

FACES = [
    Face("cp, a file", DOWN, _cli("cp", "URL", "PATH"), has_rate=True),
    Face("cp, a file", UP, _cli("cp", "PATH", "URL"), has_rate=True),
    Face("cat, a pipe", DOWN, _cli("cat", "URL"), is_piped=True, has_rate=True),
    Face("cp, a pipe", UP, _cli("cp", "-", "URL"), is_piped=True, has_rate=True),
    Face(
        "cp, a pipe with a journal",
        UP,
        _cli("cp", "--journal", "JOURNAL", "-", "URL"),
        is_piped=True,
        has_rate=True,
    ),
    *(Face(name, direction, of(face, direction)) for name, of, face in LIBRARY for direction in (DOWN, UP)),
]


def missing() -> str | None:
    """What has to be built before the suite can run."""
    for program, part in ((binary(), "release"), (rust_example(), "release"), (python(), "packages")):
        if not program.exists():
            return f"{program} is not there: scripts/test --only {part} builds it"
    return None
