"""What the program is asked to do in one run, and what then has to be there."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

from harness import MIB, ROOT
from harness.command import Run, binary

from .plan import PART, Plan
from .stores import TRACING, Store

POOL = Random(0).randbytes(48 * MIB)
OLD = b"what was there before"


@dataclass(frozen=True)
class Thing:
    """One object: where it is to appear and what it has to be."""

    key: str
    named: str  # As the program names it in an error.
    wanted: str
    before: str | None


def faces_binary() -> Path:
    """The example `faces` of the library; a relative TIDEGATE_FACES is taken from the repository's root."""
    return ROOT / os.environ.get("TIDEGATE_FACES", "target/debug/examples/faces")


def sha256(data) -> str:
    return hashlib.sha256(data).hexdigest()


class Job:
    """Sources, command and expectation of one run, in a folder of its own."""

    def __init__(self, plan: Plan, store: Store, bucket: str, folder: Path):
        self.plan = plan
        self.store = store
        self.bucket = bucket
        self.folder = folder
        self._write_end = None
        # Each object begins elsewhere in the pool, so that none can stand in for another.
        self.contents = [memoryview(POOL)[plan.offset + 977 * at :][:size] for at, size in enumerate(plan.sizes)]
        self.things = [self._thing(at) for at in range(len(plan.sizes))]
        self._left = self.contents[0] if self.is_piped else memoryview(b"")
        self._prepare()

    @property
    def is_piped(self) -> bool:
        return self.plan.job in ("pipe", "face")

    @property
    def size(self) -> int:
        return sum(self.plan.sizes)

    def _thing(self, at: int) -> Thing:
        key = f"t/{at}.bin" if self.plan.job == "tree" else "o/k.bin"
        named = self.store.url(self.bucket, key)
        has_old = self.plan.before and at == 0
        return Thing(key, named, sha256(self.contents[at]), sha256(OLD) if has_old else None)

    def _prepare(self):
        self.store.make_bucket(self.bucket)
        for thing in self.things:
            if thing.before:
                self.store.put(self.bucket, thing.key, OLD)
        if not self.is_piped:
            self.source.mkdir()
            for at, content in enumerate(self.contents):
                (self.source / f"{at}.bin").write_bytes(content)

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def spool(self) -> Path | None:
        return self.folder / "spool" if self.plan.job == "face" and self.plan.spools else None

    def start(self, url: str) -> Run:
        env = self.store.endpoint.at(url).env | TRACING
        if self.spool is not None:
            self.spool.mkdir()
            env |= {"TIDEGATE_SPOOL": str(self.spool)}
        read_end = None
        if self.is_piped:
            read_end, self._write_end = os.pipe()
            os.set_blocking(self._write_end, False)
        try:
            return Run(self._command(), env | {"TIDEGATE_PART_SIZE": str(PART)}, read_end, self.folder, None)
        finally:
            if read_end is not None:
                os.close(read_end)

    def _command(self) -> list:
        plan, named = self.plan, self.things[0].named
        if plan.job == "face":
            return [faces_binary(), plan.face, self.store.url(self.bucket), self.things[0].key]
        options = ["--part-size", "5MiB", "--strategy", plan.strategy, "--json"]
        if plan.create_only:
            options.append("--create-only")
        places = {
            "pipe": ["-", named],
            "tree": ["-r", f"{self.source}/", self.store.url(self.bucket, "t/")],
        }
        return [binary(), "cp", *places.get(plan.job, [self.source / "0.bin", named]), *options]

    def move(self, most: int | None = None):
        """Gives the pipe what it takes without waiting, up to the first `most` bytes of all."""
        if self._write_end is None:
            return
        left = self._left if most is None else self._left[: max(0, most - self.fed)]
        try:
            while left:
                written = os.write(self._write_end, left[: 1 * MIB])
                left = left[written:]
                self._left = self._left[written:]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._left = memoryview(b"")  # It ended first; how it ended is what is judged.
        if not self._left and most is None:
            self.end()

    @property
    def fed(self) -> int:
        return len(self.contents[0]) - len(self._left)

    def read(self, run: Run) -> int:
        """How many bytes of the source the program has taken, by the kernel's count where it is a file."""
        if self.is_piped:
            return self.fed
        try:
            with open(f"/proc/{run.pid}/io") as io:
                count = dict(line.split(": ") for line in io)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return self.size
        return int(count["rchar"])

    def is_stored(self) -> bool:
        """Whether the server has all parts of an object that has several; of others all that was read counts."""
        parts = -(-self.size // PART)
        if len(self.things) > 1 or parts == 1 or self.plan.strategy == "put":
            return True
        return any(len(session.parts) == parts for session in self.store.sessions(self.bucket, self.things[0].key))

    def there(self, thing: Thing) -> str | None:
        """The sha256 of what is there now, None where nothing is."""
        return self.store.sha256(self.bucket, thing.key)

    def stray_files(self) -> list[str]:
        """What is left in a spool directory."""
        return [path.name for path in self.spool.iterdir()] if self.spool else []

    def end(self):
        if self._write_end is not None:
            os.close(self._write_end)
            self._write_end = None

    def clear(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
