"""Kills the programs of a distributed job, executors and drivers, and asks the store what is there.

A round is one job of several tasks, each a program of its own (`examples/job.rs` of tidegate-transfer). Executors are killed at
random moments and their tasks begun anew; some tasks run twice at the same time. Then drivers are killed in the middle of the
commit, and other programs end the job: the command line from the store alone, another driver, or `tidegate abandon --job`.
Looked at from outside, by the store's own client:

- before the commit is begun, no file is visible;
- after the end each row is there once, or none at all, and neither sessions nor records nor the work path are left.
"""

import os
import random
import signal
import time
from dataclasses import dataclass

from harness import ROOT
from harness.command import CommandLine
from pending_kills import OWN, Wrong, expect, is_there, kill

# The rows that the example writes to each file.
ROWS = 100
MARKER = "_SUCCESS"
# What a driver says of a set that has lost an upload.
LOST = "cannot be completed without this upload"


def program():
    """The example; a relative TIDEGATE_JOB_BIN is taken from the repository's root."""
    found = ROOT / os.environ.get("TIDEGATE_JOB_BIN", "target/release/examples/job")
    assert found.exists(), (
        f"{found} is not there: cargo build --release -p tidegate-transfer --example job, or TIDEGATE_JOB_BIN"
    )
    return found


@dataclass
class JobKills:
    """What the programs of the rounds have come to."""

    executors: int = 0
    drivers: int = 0
    committed: int = 0
    # Jobs whose end was begun by a driver that was killed, and that the command line completed from the store alone.
    rolled_forward: int = 0
    abandoned: int = 0
    # Jobs that the store left without an upload, see docs/PENDING.md.
    lost: int = 0


@dataclass
class Pace:
    """How long a program takes that is not killed, in seconds."""

    executor: float = 0.2
    driver: float = 0.2


class Round:
    """One job in an empty bucket. `job` starts the job's programs, which take the arguments of the example."""

    def __init__(self, bucket, job: CommandLine, seed, pace: Pace, may_lose, tasks=3, files=3):
        self.bucket, self.pace, self.may_lose = bucket, pace, may_lose
        self.tasks, self.files = tasks, files
        self.chance, self.seen = random.Random(seed), JobKills()
        self.tidegate, self.job = CommandLine(), job
        self.id = f"job-{seed}"
        self.out = "warehouse/t"
        self.place = (bucket.url(self.out), self.id)

    def run(self, abandons) -> JobKills:
        try:
            self.call("set-up")
            for task in range(self.tasks):
                self.task(task)
            expect(self.visible() == [], f"visible before the commit: {self.visible()}")
            if abandons:
                self.abandon()
            else:
                self.commit()
            return self.seen
        finally:
            self.tidegate.stop()
            self.job.stop()

    def call(self, role, *rest):
        ended = self.job(role, *self.place, *rest, env=self.bucket.env)
        expect(ended.exit == 0, ended)
        return ended

    def task(self, task):
        """Attempts, until one is not killed. Some run beside another one that is."""
        for attempt in range(100):
            run = self.start_task(task, 2 * attempt)
            started = time.monotonic()
            if self.chance.random() < 0.75:
                time.sleep(self.chance.random() * self.pace.executor * 1.1)
                kill(run)
            other = None
            if self.chance.random() < 0.25:
                other = self.start_task(task, 2 * attempt + 1)
                time.sleep(self.chance.random() * self.pace.executor)
                kill(other)
            ended = [run.wait(60), *([other.wait(60)] if other else [])]
            for each in ended:
                expect(each.exit in (0, -signal.SIGKILL), each)
            self.seen.executors += sum(each.exit != 0 for each in ended)
            if any(each.exit == 0 for each in ended):
                if ended[0].exit == 0 and not other:
                    self.pace.executor = 0.9 * self.pace.executor + 0.1 * (time.monotonic() - started)
                return
        raise Wrong("a hundred attempts of one task were killed")

    def start_task(self, task, attempt):
        names = (f"task-{task}", f"{task}-{attempt}")
        return self.job.start("task", *self.place, *names, str(self.files), env=self.bucket.env)

    def commit(self):
        """Drivers, each killed at a random moment, and at the end a program that nobody kills."""
        for _ in range(4):
            run = self.job.start("commit", *self.place, env=self.bucket.env)
            started = time.monotonic()
            time.sleep(self.chance.random() * self.pace.driver * 1.2)
            kill(run)
            ended = run.wait(60)
            if ended.exit == 0:
                self.pace.driver = 0.9 * self.pace.driver + 0.1 * (time.monotonic() - started)
                break
            if self.may_lose and LOST in ended.err:
                break
            expect(ended.exit == -signal.SIGKILL, ended)
            self.seen.drivers += 1
            if not self.is_begun():
                expect(self.visible() == [], f"visible before the intent: {self.visible()}")
            if self.chance.random() < 0.3:
                break
        begun = self.is_begun()
        last = self.tidegate("commit", "--job", self.place[0], env=self.bucket.env)
        if last.exit == 3 and "was not begun" in last.err:
            expect(not begun and self.visible() == [], last)
            last = self.job("commit", *self.place, env=self.bucket.env)
        elif last.exit == 0 and begun:
            self.seen.rolled_forward += 1
        if self.may_lose and LOST in last.err:
            self.end_lost_set()
            return
        expect(last.exit == 0, last)
        self.expect_all_rows()
        self.seen.committed += 1

    def abandon(self):
        run = self.tidegate.start("abandon", "--job", self.place[0], env=self.bucket.env)
        time.sleep(self.chance.random() * self.pace.driver)
        kill(run)
        self.seen.drivers += run.wait(60).exit != 0
        ended = self.tidegate("abandon", "--job", self.place[0], "--id", self.id, env=self.bucket.env)
        # The first may have come to its end.
        expect(ended.exit == 0 or ended.exit == 3 and "no such job" in ended.err, ended)
        expect(self.bucket.keys() == [], f"left of a job that was given up: {self.bucket.keys()}")
        expect(self.sessions() == [], f"sessions are left: {self.sessions()}")
        self.seen.abandoned += 1

    def end_lost_set(self):
        """The store has lost an upload whose completion was cut: the job is ended by hand."""
        expect(self.seen.drivers > 0, "an upload was lost without a kill")
        pointer = f"{self.place[0]}/__tidegate_{self.id}/commit.json"
        ended = self.tidegate("abandon", "--manifest", pointer, env=self.bucket.env)
        expect(ended.exit == 0, ended)
        ended = self.tidegate("abandon", "--job", *self.place[:1], env=self.bucket.env)
        expect(ended.exit == 0, ended)
        for key in self.bucket.keys():
            expect(key in self.rows(), f"{key} is left")
            expect(self.bucket.get(key) == self.rows()[key], f"{key} is torn")
        expect(self.sessions() == [], f"sessions are left: {self.sessions()}")
        self.seen.lost += 1

    def expect_all_rows(self):
        rows = self.rows()
        expect(sorted(self.bucket.keys()) == sorted([*rows, f"{self.out}/{MARKER}"]), f"there are {self.bucket.keys()}")
        for key, content in rows.items():
            expect(self.bucket.get(key) == content, f"{key} is torn")
        expect(self.sessions() == [], f"sessions are left: {self.sessions()}")

    def rows(self):
        return {
            f"{self.out}/task-{task}-{file}.csv": b"".join(
                b"task-%d,%d,%d\n" % (task, file, row) for row in range(ROWS)
            )
            for task in range(self.tasks)
            for file in range(self.files)
        }

    def visible(self):
        return [key for key in self.bucket.keys() if not key.startswith(OWN) and "/__tidegate_" not in key]

    def is_begun(self):
        """Whether the set's intent or its pointer is there, or the job is complete."""
        keys = self.bucket.keys()
        return any(key.startswith(f"{OWN}manifests/") or key.endswith(("/commit.json", MARKER)) for key in keys)

    def sessions(self):
        """Of each file, because MinIO lists them for an exact key only. After a cut completion it lists one that its other
        requests do not know."""
        found = [(key, session) for key in self.rows() for session in self.bucket.sessions(key)]
        return [key for key, session in found if not self.may_lose or is_there(self.bucket, key, session)]


def kills_of_jobs(
    bucket, kills, seed, may_lose=False, job=lambda: CommandLine(program()), pace: Pace | None = None
) -> JobKills:
    """Runs jobs, each in a bucket that `bucket` makes, until so many executors and drivers were killed. `job` makes what
    starts the programs of a job."""
    total, pace = JobKills(), pace or Pace()
    while total.executors + total.drivers < kills:
        seen = Round(bucket(), job(), seed, pace, may_lose).run(abandons=seed % 4 == 3)
        for field in vars(total):
            setattr(total, field, getattr(total, field) + getattr(seen, field))
        seed += 1
    return total
