"""Prints what the runs came to: `python -m tree_kills` from the folder tests/."""

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.command import CommandLine
from harness.s3 import Bucket
from harness.servers import Minio

MIB = 1 << 20
COMMANDS = {
    "sync": ("sync", "--delete"),
    "cp": ("cp", "-r"),
    "mv": ("mv", "-r"),
    "rm": ("rm", "-r"),
}
DIRECTIONS = ("up", "down", "between")
# Seconds that no command takes.
LIMIT = 120


class Disk:
    """A directory as a tree."""

    def __init__(self, folder):
        self.folder = folder

    def url(self, below):
        return f"{self.folder / below}/"

    def put(self, key, data):
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def all(self):
        files = (path for path in self.folder.rglob("*") if path.is_file())
        found = {str(path.relative_to(self.folder)): path.read_bytes() for path in files}
        # An interrupted download is resumed from its partial file, which no command lists.
        return {key: data for key, data in found.items() if ".tidegate-" not in Path(key).name}

    def clear(self):
        shutil.rmtree(self.folder)
        self.folder.mkdir()


class Objects:
    """A bucket as a tree."""

    def __init__(self, bucket):
        self.bucket = bucket

    def url(self, below):
        return self.bucket.url(f"{below}/")

    def put(self, key, data):
        self.bucket.put(key, data)

    def all(self):
        found = {}
        for key in self.bucket.keys():
            # A removal that was in flight when its program was killed may end now.
            with contextlib.suppress(self.bucket.client.exceptions.NoSuchKey):
                found[key] = self.bucket.get(key)
        return found

    def clear(self):
        self.bucket.empty()


@dataclass
class Case:
    """One command on two trees."""

    seed: int
    command: str
    source: object
    target: object
    # What each side has, by its whole key.
    before: dict = field(default_factory=dict)
    new: dict = field(default_factory=dict)
    old: dict = field(default_factory=dict)

    def arguments(self):
        name, *options = COMMANDS[self.command]
        ends = [self.source.url("named")]
        if self.command != "rm":
            ends.append(self.target.url("to"))
        return (name, *options, *ends)

    def make(self, chance):
        """The trees: small objects, one of several parts, some that are unchanged, changed or extra at the target."""
        for side in {self.source, self.target}:
            side.clear()
        self.new = {
            f"{number % 5}/{number:02}": chance.randbytes(chance.choice((0, 100, 70_000))) for number in range(40)
        }
        self.new["large"] = chance.randbytes(12 * MIB)
        self.old = {key: chance.randbytes(50) for key in chance.sample(sorted(self.new), 10)}
        extra = {f"extra/{number}": b"x" for number in range(10)}
        for key, data in {**self.old, **(extra if self.command != "rm" else {})}.items():
            self.target.put(f"to/{key}", data)
        self.extra = {f"to/{key}": data for key, data in extra.items()} if self.command != "rm" else {}
        for side in (self.source, self.target):
            for key in ("name", "named-", "outside/a", "t", "to-", "too/a"):
                side.put(key, f"outside {key}".encode())
        # Later than the target's, whose times have whole seconds.
        time.sleep(1.1 if self.command == "sync" else 0)
        for key, data in self.new.items():
            self.source.put(f"named/{key}", data)
        self.before = {side: side.all() for side in {self.source, self.target}}

    def look(self, is_over):
        """What is wrong; `is_over` if the command has ended well."""
        now = {side: side.all() for side in {self.source, self.target}}
        for side, found in now.items():
            for key, data in self.before[side].items():
                if not key.startswith(("named/", "to/")) and found.get(key) != data:
                    yield f"{key} is not named, and has changed"
            allowed = {*self.before[side], *(f"to/{key}" for key in self.new)}
            yield from (f"{key} has come from nowhere" for key in sorted(set(found) - allowed))
        ours, theirs = now[self.source], now[self.target]
        for key, data in self.new.items():
            here, there = ours.get(f"named/{key}"), theirs.get(f"to/{key}")
            if here not in (data, None):
                yield f"named/{key} has other bytes"
            if there not in (data, self.old.get(key)):
                yield f"to/{key} is torn: {len(there or b'')} bytes"
            if here is None and (self.command in ("cp", "sync") or self.command == "mv" and there != data):
                yield f"{key} is lost"
            if not is_over:
                continue
            if self.command != "rm" and there != data:
                yield f"{key} was not copied"
            if self.command in ("mv", "rm") and here is not None:
                yield f"named/{key} was not removed"
        left = [key for key in self.extra if key in theirs]
        if self.command != "sync" and len(left) < len(self.extra):
            yield "an extra object was removed, and nobody asked for that"
        if self.command == "sync" and is_over and left:
            yield f"extra objects stay: {left}"


def run(case, program, chance, longest):
    """Kills one command. Yields what is wrong."""
    case.make(chance)
    started = program.start(*case.arguments(), env=case.env)
    time.sleep(chance.uniform(0, longest))
    with contextlib.suppress(ProcessLookupError):
        os.kill(started.pid, signal.SIGKILL)
    started.wait(LIMIT)
    yield from case.look(is_over=False)
    again = program(*case.arguments(), env=case.env, timeout=LIMIT)
    # Everything was moved or removed before the kill: then there is nothing to move.
    is_done = (
        case.command in ("mv", "rm")
        and again.exit == 3
        and not any(key.startswith("named/") for key in case.source.all())
    )
    if again.exit != 0 and not is_done:
        yield f"run again, it ended with {again.exit}: {again.err[-500:]}"
    yield from case.look(is_over=True)


def main():
    parser = argparse.ArgumentParser(prog="python -m tree_kills", description=sys.modules["tree_kills"].__doc__)
    parser.add_argument("--runs", type=int, default=24, help="how many runs (default: 24)")
    parser.add_argument("--seed", type=int, default=1, help="of the first run (default: 1)")
    options = parser.parse_args()
    killed, wrong = Counter(), []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-tree-kills-")))
        minio = Minio(folder)
        stack.callback(minio.stop)
        program = CommandLine()
        stack.callback(program.stop)
        disk = Disk(folder / "disk")
        disk.folder.mkdir()
        objects, others = Objects(Bucket(minio.endpoint)), Objects(Bucket(minio.endpoint))
        ends = {"up": (disk, objects), "down": (objects, disk), "between": (objects, others)}
        # How long each command takes, so that kills are spread over all of it.
        longest = {}
        for seed in range(options.seed, options.seed + options.runs):
            chance = random.Random(seed)
            command = sorted(COMMANDS)[seed % len(COMMANDS)]
            direction = DIRECTIONS[seed // len(COMMANDS) % len(DIRECTIONS)]
            case = Case(seed, command, *ends[direction])
            case.env = minio.endpoint.env
            kind = (command, direction)
            if kind not in longest:
                case.make(random.Random(0))
                began = time.monotonic()
                whole = program(*case.arguments(), env=case.env, timeout=LIMIT)
                if whole.exit != 0:
                    raise SystemExit(f"{command} {direction} fails without a kill: {whole.err}")
                longest[kind] = time.monotonic() - began
            for fault in run(case, program, chance, longest[kind]):
                wrong.append(f"seed {seed}, {command} {direction}: {fault}")
                print(wrong[-1], flush=True)
            killed[kind] += 1
            if sum(killed.values()) % 50 == 0:
                print(f"{sum(killed.values())} kills", flush=True)
    for (command, direction), count in sorted(killed.items()):
        print(f"{command:5} {direction:8} {count:4} kills")
    print(f"{sum(killed.values())} kills, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
