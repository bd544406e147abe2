"""Runs each job by each library in a process of its own, on one versitygw, and checks what is there afterwards."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.command import clean_env
from harness.process import die_with_parent
from harness.s3 import Bucket
from harness.servers import Versitygw

from .jobs import GIB, JOBS, OUT, SOURCE, Job, Wrong, write_large

PYTHON = Path(__file__).resolve().parents[1]
#: Seconds that one run may last.
LIMIT = 1800
#: Bytes that all objects of the largest job take at scale 1, twice: parts exist beside the object while it is completed.
ROOM = 8 * GIB


@dataclass
class Figures:
    """What one run needed."""

    seconds: float
    #: CPU time of the measured process and its children.
    cpu_seconds: float
    #: The most resident memory that the measured process has had (`VmHWM`).
    peak_mib: float
    #: What was resident before the job began: the interpreter, the library's code, its client.
    base_mib: float
    #: CPU time of the server.
    server_cpu_seconds: float


@dataclass
class Run:
    """One run of one job by one library."""

    job: str
    library: str
    #: The figures, or why there are none.
    outcome: Figures | str

    def line(self) -> str:
        """The run as a line of JSON."""
        found = {"failure": self.outcome} if isinstance(self.outcome, str) else asdict(self.outcome)
        return json.dumps({"job": self.job, "library": self.library, **found})


class Bench:
    """A server, a bucket for each job, and directories for the files of the measured processes."""

    def __init__(self, folder: Path, scale: float) -> None:
        self._scale = scale
        self._scratch = folder / "scratch"
        self._data = folder / "versitygw"
        self._server = Versitygw(folder)

    def stop(self) -> None:
        self._server.stop()

    @contextmanager
    def prepared(self, job_name: str) -> Iterator["Prepared"]:
        """The bucket and the source of a job; both are removed at the end."""
        job = JOBS[job_name](self._scale)
        bucket = Bucket(self._server.endpoint)
        self._scratch.mkdir()
        try:
            if job.uses == "upload" or job.reads:
                write_large(self._scratch / "source", job.size)
            if job.reads:
                bucket.client.upload_file(str(self._scratch / "source"), bucket.name, SOURCE)
                (self._scratch / "source").unlink()
            yield Prepared(job_name, job, self._scale, bucket, self._data / bucket.name, self._scratch, self._server)
        finally:
            shutil.rmtree(self._scratch)
            shutil.rmtree(self._data / bucket.name)


@dataclass
class Prepared:
    """What the runs of one job share."""

    job_name: str
    job: Job
    scale: float
    bucket: Bucket
    #: Where the server keeps the bucket's objects.
    stored: Path
    scratch: Path
    server: Versitygw

    def run(self, library: str) -> Run:
        (self.scratch / OUT).mkdir()
        try:
            return Run(self.job_name, library, self._measured(library))
        except (RuntimeError, Wrong, OSError, subprocess.TimeoutExpired) as error:
            return Run(self.job_name, library, str(error))
        finally:
            shutil.rmtree(self.scratch / OUT)
            shutil.rmtree(self.stored / OUT, ignore_errors=True)

    def _measured(self, library: str) -> Figures:
        command = [sys.executable, "-W", "ignore", "-m", "compare.one", library, self.job_name, str(self.scale)]
        path = os.pathsep.join([str(PYTHON / "python"), str(PYTHON)])
        place = {"COMPARE_BUCKET": self.bucket.name, "COMPARE_SCRATCH": str(self.scratch), "NO_PROXY": "127.0.0.1"}
        cpu = self.server.cpu_seconds()
        done = subprocess.run(
            command,
            env=clean_env({**self.bucket.env, **place, "PYTHONPATH": path}),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            preexec_fn=die_with_parent,
        )
        if done.returncode:
            sys.stderr.write(done.stderr)
            raise RuntimeError(f"exit {done.returncode} {' '.join(done.stderr.splitlines()[-1:])}".strip())
        figures = Figures(**json.loads(done.stdout), server_cpu_seconds=round(self.server.cpu_seconds() - cpu, 2))
        self.job.check(self.stored, self.scratch)
        return figures


def roomy_folder() -> tempfile.TemporaryDirectory[str]:
    """A directory for objects and files: in memory if that has room for them and takes the attributes of files that
    versitygw needs, otherwise on disk."""
    shared = Path("/dev/shm")
    if shared.is_dir() and min(shutil.disk_usage(shared).free, _available()) > ROOM + 4 * GIB:
        folder = tempfile.TemporaryDirectory(prefix="compare-", dir=shared)
        try:
            os.setxattr(folder.name, "user.compare", b"1")
            return folder
        except OSError:
            folder.cleanup()
    return tempfile.TemporaryDirectory(prefix="compare-")


def _available() -> int:
    """Bytes of memory that programs can have."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0
