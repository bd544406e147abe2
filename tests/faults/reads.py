"""What the program is asked to read in one run, how what it gives is taken, and what it may have given."""

import os
import shutil
from fcntl import F_SETPIPE_SZ, fcntl
from pathlib import Path
from time import monotonic

from harness import KIB, MIB
from harness.command import Result, Run, binary

from .jobs import OLD, POOL, faces_binary
from .plan import Plan
from .stores import TRACING, Store
from .verdict import FAILED
from .verdict_of_reads import Again, Reading

# Of an object that is larger, a download that failed keeps what it has.
KEPT_ABOVE = 256 * KIB
# Behind so many bytes of an object a read is of that object.
CERTAIN = 64 * KIB


class ReadJob:
    """An object, a command that reads it, and expectation of one run, in a folder of its own."""

    def __init__(self, plan: Plan, store: Store, bucket: str, folder: Path):
        self.plan = plan
        self.store = store
        self.folder = folder
        self.bucket, self.key = bucket, "o/k.bin"
        self.named = store.url(bucket, self.key)
        # Each object begins elsewhere in the pool, so that none can stand in for another.
        self.content = memoryview(POOL)[plan.offset :][: plan.sizes[0]]
        self.other = memoryview(POOL)[plan.offset + 977 :][: plan.consumer.other]
        # The objects that the program may give: which of the two it was that was there when it began.
        self.may_give = [self.content]
        self._there: memoryview | None = self.content
        self._read_end: int | None = None
        self._taken = bytearray()
        self._began = self._rested = monotonic()
        self.store.make_bucket(bucket)
        if plan.consumer.sealed:
            self._put_with_checksum()
        else:
            self._put(self.content)
        if plan.job == "get" and plan.before:
            self.target.write_bytes(OLD)

    def _put(self, content):
        self.store.put(self.bucket, self.key, bytes(content))

    def _put_with_checksum(self):
        """By the program, straight to the server: no other client here knows the checksum that it compares."""
        source = self.folder / "source.bin"
        source.write_bytes(self.content)
        command = [binary(), "cp", source, self.named, "--part-size", "5MiB", "--progress", "never"]
        result = Run(command, self.store.endpoint.env, None, self.folder, None).wait(60)
        source.unlink()
        if result.exit:
            raise RuntimeError(f"the object could not be put there: {result}")

    @property
    def is_file(self) -> bool:
        return self.plan.job == "get"

    @property
    def size(self) -> int:
        """How much is to be read."""
        return len(self._asked(self.content))

    def _asked(self, content) -> memoryview:
        first, last = self.plan.consumer.range or (0, None)
        return content[first:] if last is None else content[first : last + 1]

    @property
    def target(self) -> Path:
        """In a folder of its own, where nothing else may be left."""
        path = self.folder / "target" / "k.bin"
        path.parent.mkdir(exist_ok=True)
        return path

    def start(self, url: str) -> Run:
        env = self.store.endpoint.at(url).env | TRACING
        if self.is_file:
            return Run(self._command(), env, None, self.folder, None)
        self._read_end, write_end = os.pipe()
        fcntl(self._read_end, F_SETPIPE_SZ, 1 * MIB)
        os.set_blocking(self._read_end, False)
        self._began = monotonic()
        try:
            return Run(self._command(), env, None, self.folder, write_end)
        finally:
            os.close(write_end)

    def _command(self) -> list:
        consumer = self.plan.consumer
        if self.plan.job == "read":
            return [faces_binary(), self.plan.face, self.store.url(self.bucket), self.key]
        memory = ["--memory", consumer.memory] if consumer.memory else []
        if self.is_file:
            return [binary(), "cp", self.named, self.target, "--json", *memory]
        if memory:
            return [binary(), "cp", self.named, "-", *memory]
        first, last = consumer.range or (None, None)
        asked = [] if first is None else ["--range", f"{first}-{'' if last is None else last}"]
        return [binary(), "cat", self.named, *asked]

    def move(self, most: int | None = None):
        """Takes what is in the pipe, as fast as the plan's consumer does and up to the first `most` bytes of all."""
        if self._read_end is None:
            return
        # More than all is taken as well, and found to be wrong.
        limit = 2 * len(POOL) if most is None else most
        consumer, now = self.plan.consumer, monotonic()
        if consumer.rate is not None:
            limit = min(limit, int(consumer.rate * (now - self._began)))
        if consumer.pause is not None:
            share, seconds = consumer.pause
            if len(self._taken) < share * self.size:
                self._rested = now + seconds
                limit = min(limit, int(share * self.size) + 1)
            elif now < self._rested:
                return
        self._take(limit)

    def _take(self, limit: int):
        try:
            while (left := limit - len(self._taken)) > 0:
                piece = os.read(self._read_end, min(left, 1 * MIB))
                if not piece:
                    return
                self._taken += piece
        except BlockingIOError:
            return

    def read(self, run: Run) -> int:
        """How many bytes the program has given, by the kernel's count where it is to a file."""
        if not self.is_file:
            return len(self._taken)
        try:
            with open(f"/proc/{run.pid}/io") as io:
                count = dict(line.split(": ") for line in io)
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return self.size
        return int(count["wchar"])

    def is_stored(self) -> bool:
        return True

    def meddle(self, what: str, run: Run | None):
        """Another client puts another object in its place, or removes it, while `run` reads."""
        is_of_first = run is not None and self.read(run) >= CERTAIN
        if what == "remove":
            self.store.remove(self.bucket, self.key)
            self._there = None
            return
        self._put(self.other)
        self._there = self.other
        if not is_of_first:
            self.may_give = [*([] if run is None else [self.content]), self.other]

    def end(self):
        """The program has ended: takes the rest of what it gave."""
        if self._read_end is not None:
            self._take(2 * len(POOL))
            os.close(self._read_end)
            self._read_end = None

    def ended(self, exit: int | None, result: Result) -> Reading:
        """What came of it. A download that failed is called again, with nothing in its way; and once more where it
        then finds out that what it had is corrupt."""
        stray = self._stray()
        reading = Reading(
            named=self.named,
            exit=exit,
            out=result.out.decode(errors="replace"),
            err=result.said,
            may_give=[bytes(self._asked(content)) for content in self.may_give],
            given=self._given(),
            is_file=self.is_file,
            sums_up=self.plan.job == "cat" and self.plan.consumer.memory is not None,
            before=OLD if self.plan.before else None,
            must_succeed=self.plan.case.must_succeed,
            corrupts=self.plan.case.corrupts,
            stray=stray,
            may_keep=max(map(len, self.may_give), default=0) > KEPT_ABOVE,
        )
        if self.is_file and exit in FAILED and self._there is not None:
            reading.again.append(self._call_again())
            if reading.corrupts and reading.again[0].is_refused:
                reading.again.append(self._call_again())
        return reading

    def _call_again(self) -> Again:
        result = Run(self._command(), self.store.endpoint.env, None, self.folder, None).wait(60)
        return Again(result.exit, result.said, self._given() == bytes(self._there), self._stray())

    def _given(self) -> bytes | None:
        if not self.is_file:
            return bytes(self._taken)
        return self.target.read_bytes() if self.target.exists() else None

    def _stray(self) -> list[str]:
        """What is beside the target."""
        return [path.name for path in self.target.parent.iterdir() if path != self.target] if self.is_file else []

    def clear(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.store.remove(self.bucket, self.key)
