"""Runs the soak and judges it."""

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PYTHON.parents[1] / "tests"), str(PYTHON / "python")]
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"

import tidegate  # noqa: E402
from harness.s3 import REGION, Bucket  # noqa: E402
from harness.servers import Embedded, Minio  # noqa: E402

from .stored import sessions, wrong_objects  # noqa: E402
from .watch import Watch  # noqa: E402
from .worker import Report, work  # noqa: E402

#: Seconds beyond the soak's own that a process gets to start and to end.
PATIENCE = 180
#: How much more one process may grow than all do on average: objects of 6 MiB come and go.
ONE = 4
#: By how many descriptors a process may grow while it is judged.
DESCRIPTORS = 8


class Worker:
    """One process, watched."""

    def __init__(self, number: int, store: tidegate.Store, given: argparse.Namespace) -> None:
        context = multiprocessing.get_context("spawn")
        own: Connection
        own, theirs = context.Pipe(duplex=False)
        self.number, self._pipe = number, own
        arguments = (number, store, given.seconds, given.threads, given.seed, theirs)
        self._process: BaseProcess = context.Process(target=work, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self.watch: Watch | None = None
        self.report: Report | None = None

    def has_ended(self) -> bool:
        """Whether the report is there, or will never be. Takes a sample of a process whose threads run."""
        if self.report is None and self._pipe.poll():
            try:
                self._received(self._pipe.recv())
            except EOFError:
                return True
        if self.watch and self.report is None:
            self.watch.sample()
        return self.report is not None or not self._process.is_alive()

    def _received(self, message: Report | str) -> None:
        if isinstance(message, Report):
            self.report = message
        else:
            self.watch = Watch(self._process.pid or 0)

    def stop(self) -> None:
        """Waits for the end. A process that hangs is killed, and prints where its threads are."""
        self._process.join(30 if self.report else 0)
        if self._process.is_alive() and self._process.pid:
            os.kill(self._process.pid, signal.SIGABRT)
            self._process.join()

    def growth(self) -> tuple[float, float]:
        """By how many MiB and how many descriptors the process grows while it is judged."""
        return self.watch.growth() if self.watch else (0.0, 0.0)

    def problems(self, growth_mib: float) -> list[str]:
        """What is wrong with the process itself."""
        if self.report is None:
            return [f"process {self.number} did not end by itself: exit {self._process.exitcode}"]
        found = [f"process {self.number}: {failure}" for failure in self.report.failures]
        if self._process.exitcode != 0:
            found.append(f"process {self.number} ended with exit {self._process.exitcode}")
        memory, count = self.growth()
        if memory > growth_mib:
            found.append(f"process {self.number}: resident memory grows by {memory:.1f} MiB, more than {growth_mib}")
        if count > DESCRIPTORS:
            found.append(f"process {self.number}: open descriptors grow by {count:.0f}, more than {DESCRIPTORS}")
        before, after = self.report.descriptors
        # Kept connections come and go; the growth above is the bound for them.
        leaked = {kind: number for kind, number in (after - before).items() if kind != "socket"}
        if leaked:
            found.append(f"process {self.number} has descriptors that it had not before: {leaked}")
        return found

    def row(self) -> str:
        judged = self.watch.judged() if self.watch else []
        if not self.report or not judged:
            return f"| {self.number} | | | | | |"
        sizes = [sample.resident_mib for sample in judged]
        memory, count = self.growth()
        cells = [f"{self.number}", f"{self.report.turns}", f"{min(sizes):.0f} to {max(sizes):.0f}", f"{memory:+.1f}"]
        cells += [f"{max(sample.descriptors for sample in judged)}", f"{count:+.1f}"]
        return f"| {' | '.join(cells)} |"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description="Processes and threads that use one bucket.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--threads", type=int, default=8, help="of each process")
    parser.add_argument("--server", choices=["embedded", "minio"], default="embedded")
    parser.add_argument(
        "--growth-mib", type=float, default=8, help="growth of a process, on average, after the first quarter"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    return parser.parse_args()


def soak(server: Embedded | Minio, bucket: Bucket, given: argparse.Namespace) -> list[str]:
    """Runs it and returns what is wrong."""
    store = tidegate.Store(
        f"s3://{bucket.name}",
        endpoint_url=bucket.endpoint.url,
        access_key=bucket.endpoint.access_key,
        secret_key=bucket.endpoint.secret_key,
        region=REGION,
        memory=64 << 20,
    )
    workers = [Worker(number, store, given) for number in range(given.processes)]
    deadline = time.monotonic() + given.seconds + PATIENCE
    while not all([worker.has_ended() for worker in workers]) and time.monotonic() < deadline:
        time.sleep(min(1.0, given.seconds / 100))
    for worker in workers:
        worker.stop()
    print("| process | turns | resident MiB | growth MiB | most descriptors | growth |\n|--:|--:|--:|--:|--:|--:|")
    for worker in workers:
        print(worker.row())
    found = [problem for worker in workers for problem in worker.problems(ONE * given.growth_mib)]
    mean = sum(worker.growth()[0] for worker in workers) / len(workers)
    print(f"resident memory of a process grows by {mean:+.1f} MiB on average")
    if mean > given.growth_mib:
        found.append(f"resident memory of a process grows by {mean:.1f} MiB on average, more than {given.growth_mib}")
    if all(worker.report for worker in workers):
        expected = {
            key: recipe for worker in workers if worker.report for key, recipe in worker.report.expected.items()
        }
        found += wrong_objects(bucket, expected)
        print(f"{len(expected)} objects checked")
        found += [f"an upload session is left: {session}" for session in sessions(server, bucket)]
    return found


def main() -> int:
    given = arguments()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        server = Embedded(Path(folder)) if given.server == "embedded" else Minio(Path(folder))
        try:
            problems = soak(server, Bucket(server.endpoint), given)
        finally:
            server.stop()
    for problem in problems[:20]:
        print(f"wrong: {problem.strip()}")
    if problems:
        print(f"The soak has failed: {len(problems)} things are wrong.")
        return 1
    print("The soak has passed: every object is right, memory and descriptors are flat, and nothing is left behind.")
    return 0


if __name__ == "__main__":
    # Ends as Ctrl-C does: servers are stopped and their files removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
