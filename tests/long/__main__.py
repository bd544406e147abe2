"""Prints the table: `python -m long` from the folder tests/."""

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from botocore.exceptions import ClientError

from harness.command import Run, binary, clean_env
from harness.servers import Embedded, Versitygw

from .faces import DOWN, FACES, UP, Face, Transfer, missing

MIB = 1 << 20
SERVERS = {"embedded": lambda folder: Embedded(folder, "--auto-create-buckets"), "versitygw": Versitygw}
# Its file system is memory, where there is one.
MEMORY = Path("/dev/shm")
# Seconds that no transfer takes: of the table's files beside two busy processes, and of the nightly's with every pause.
LIMIT, NIGHTLY_LIMIT = 60, 600


def arguments():
    parser = argparse.ArgumentParser(prog="python -m long", description=sys.modules["long"].__doc__)
    parser.add_argument("--mib", type=int, default=2048, help="the size of each file (default: 2048)")
    parser.add_argument("--server", choices=SERVERS, default="embedded", help="the store (default: embedded)")
    parser.add_argument("--disk", type=Path, help="a folder on a disk (default: that of temporary files)")
    parser.add_argument(
        "--every",
        action="store_true",
        help="every face idle and busy, on memory and on disk: four times as long as once",
    )
    parser.add_argument(
        "--nightly",
        type=float,
        metavar="SECONDS",
        help="for so long, random faces, sizes up to 4 GiB, rates and pauses",
    )
    parser.add_argument(
        "--seed", default=str(time.time_ns()), help="what the nightly's choices are drawn from (default: the time)"
    )
    return parser.parse_args()


@dataclass(frozen=True)
class Setting:
    """What goes on around one transfer."""

    place: str
    is_busy: bool
    # When the process is stopped, and for how long, in seconds.
    pauses: tuple[tuple[float, float], ...] = ()

    def __str__(self):
        return f"{self.place}, {'busy' if self.is_busy else 'idle'}"


class Lab:
    """A store with one object, and the same bytes as a file in memory and on disk."""

    def __init__(self, stack, server, mib, disk, limit):
        self.limit = limit

        def folder(parent):
            made = tempfile.mkdtemp(prefix="tidegate-long-", dir=parent)
            stack.callback(shutil.rmtree, made, ignore_errors=True)
            return Path(made)

        memory = folder(MEMORY if MEMORY.is_dir() else None)
        self.folders = {"memory": memory, "disk": folder(disk)}
        for place in self.folders.values():
            (place / "journal").mkdir()
        started = SERVERS[server](memory)
        stack.callback(started.stop)
        self.endpoint = started.endpoint
        self.endpoint.client().create_bucket(Bucket="lab")
        self.resize(mib)

    def resize(self, mib):
        """Replaces the file and the object by new bytes."""
        self.mib = mib
        source = self.folders["memory"] / "source"
        with source.open("wb") as file:
            for _ in range(mib):
                file.write(random.randbytes(MIB))
        shutil.copyfile(source, self.folders["disk"] / "source")
        command = [binary(), "cp", "-q", source, "s3://lab/source"]
        subprocess.run(command, env=clean_env(self.endpoint.env), check=True)

    def run(self, face: Face, setting: Setting, rate=None) -> tuple[float, str | None]:
        """The seconds that one transfer took, and what is wrong with it, if anything."""
        folder = self.folders[setting.place]
        path = folder / ("source" if face.direction == UP else "target")
        transfer = Transfer(path, "s3://lab", "target" if face.direction == UP else "source", folder, rate)
        with contextlib.ExitStack() as stack:
            stack.enter_context(busy_processes(2 if setting.is_busy else 0))
            compared = stdin = stdout = None
            if face.is_piped and face.direction == UP:
                feeder = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
                stack.callback(feeder.wait)
                stdin = stack.enter_context(feeder.stdout)
            elif face.is_piped:
                compared = subprocess.Popen(
                    self._compare("-"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
                stdout = compared.stdin
            run = Run(face.command(transfer), self.endpoint.env, stdin, None, stdout)
            stack.callback(run.close)
            stopper = threading.Thread(target=pause, args=(run, setting.pauses))
            stopper.start()
            try:
                result = run.wait(self.limit)
                seconds = result.seconds
                wrong = f"exit {result.exit}: {result.err.strip()[-300:]}" if result.exit else None
            except AssertionError as error:
                seconds, wrong = self.limit, str(error)
            finally:
                stopper.join()
        # Without the busy processes, which would only make it slower.
        difference = compared.communicate()[0] if compared else self._difference(face, path)
        return seconds, wrong or difference or None

    def _compare(self, path) -> list:
        return ["cmp", self.folders["memory"] / "source", path]

    def _difference(self, face: Face, path: Path) -> str | None:
        """How what arrived differs from the source, if it does. Removes it."""
        if face.direction == DOWN:
            compared = subprocess.run(self._compare(path), capture_output=True, text=True)
            path.unlink(missing_ok=True)
            return compared.stdout + compared.stderr
        client = self.endpoint.client()
        try:
            # The store computes the checksum from the bytes that it has. Those of its `source` are what downloads give.
            target, source = (
                client.head_object(Bucket="lab", Key=key, ChecksumMode="ENABLED") for key in ("target", "source")
            )
            client.delete_object(Bucket="lab", Key="target")
        except ClientError as error:
            return str(error)
        told, sent = ((head["ContentLength"], head["ChecksumCRC64NVME"]) for head in (target, source))
        return None if told == sent else f"the store has {told} where {sent} was sent"


def pause(run: Run, pauses):
    """Stops the process and lets it continue, while it runs."""
    for wait, stopped in pauses:
        time.sleep(wait)
        if run.ended:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.pid, signal.SIGSTOP)
            time.sleep(stopped)
            os.kill(run.pid, signal.SIGCONT)


@contextlib.contextmanager
def busy_processes(count: int):
    """Processes that keep the processors busy."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def settings(number: int, every: bool) -> list[Setting]:
    """Each face is tried idle and beside two busy processes, once in memory and once on disk. Every second pair of faces
    (down and up) is idle in memory, the others on disk."""
    places = ["memory", "disk"]
    if every:
        return [Setting(place, is_busy) for place in places for is_busy in (False, True)]
    idle = number // 2 % 2
    return [Setting(places[idle], False), Setting(places[1 - idle], True)]


def table(lab: Lab, every: bool) -> int:
    columns = [str(Setting(place, is_busy)) for place in ("memory", "disk") for is_busy in (False, True)]
    print(f"| {lab.mib} MiB | | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    failures, count, began = [], 0, time.monotonic()
    for number, face in enumerate(FACES):
        cells = dict.fromkeys(columns, "")
        for setting in settings(number, every):
            seconds, wrong = lab.run(face, setting)
            count += 1
            cells[str(setting)] = f"{seconds:.1f} s" if wrong is None else "FAILED"
            if wrong is not None:
                failures.append(f"{face.name} {face.direction}, {setting}: {wrong}")
        print(f"| {face.name} | {face.direction} | {' | '.join(cells.values())} |", flush=True)
    return ended(count, failures, began)


def nightly(lab: Lab, seconds: float, seed: str) -> int:
    print(f"seed {seed}", flush=True)
    drawn = random.Random(seed)
    failures, count, began = [], 0, time.monotonic()
    while time.monotonic() - began < seconds:
        lab.resize(int(2 ** drawn.uniform(0, 12)))
        for _ in range(8):
            face = drawn.choice(FACES)
            pauses = tuple((drawn.uniform(0.1, 2), 10 ** drawn.uniform(-1, 1.3)) for _ in range(drawn.randrange(4)))
            setting = Setting(drawn.choice(["memory", "disk"]), drawn.random() < 0.5, pauses)
            rate = int(lab.mib * MIB / drawn.uniform(2, 30)) if face.has_rate and drawn.random() < 0.5 else None
            took, wrong = lab.run(face, setting, rate)
            count += 1
            said = f"{lab.mib} MiB, {face.name} {face.direction}, {setting}, {len(pauses)} pauses, rate {rate}: {took:.1f} s"
            print(said, flush=True)
            if wrong is not None:
                failures.append(f"{said}: {wrong}")
                print(f"  FAILED: {wrong}", flush=True)
    return ended(count, failures, began)


def ended(count: int, failures: list[str], began: float) -> int:
    print(f"\n{count} transfers in {time.monotonic() - began:.0f} s, {len(failures)} of them failed")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def main() -> int:
    options = arguments()
    if lacks := missing():
        print(f"long: {lacks}", file=sys.stderr)
        return 2
    # Ended by a time limit, it stops what it started and removes its files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    limit = NIGHTLY_LIMIT if options.nightly else LIMIT
    with contextlib.ExitStack() as stack:
        lab = Lab(stack, options.server, options.mib, options.disk, limit)
        if options.nightly:
            return nightly(lab, options.nightly, options.seed)
        return table(lab, options.every)


if __name__ == "__main__":
    sys.exit(main())
