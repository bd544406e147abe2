"""A process with a server of its own, which carries out one run after another.

A process, not a thread: a server is killed by the kernel when the thread that started it ends, and a fork from one of
many threads may hang.
"""

import os
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path

from harness.process import until
from harness.toxiproxy import Toxiproxy

from .jobs import Job
from .one import Report, look, run
from .plan import plan
from .stores import STORES, Store
from .verdict import CLEAN, WRONG, Found, name_of
from .way import open_toxiproxy

# How often a run is tried where the suite itself fails. Toxiproxy 2.12 hangs for good when a toxic comes to a connection
# that is closed before all of its bytes were taken, as readers do: the last time it comes before there are any.
TRIES = 3


@dataclass
class Worker:
    folder: Path
    store: Store
    toxiproxy: Toxiproxy
    jobs: list[str] | None
    number: int = 0
    # Runs that ended in an error, and what was there then: nothing may appear later.
    errors: list[tuple[Report, Job, list[Found]]] = field(default_factory=list)

    def carry_out(self, id: str) -> Report:
        drawn = plan(id, self.jobs)
        trouble = ""
        for left in reversed(range(TRIES)):
            self.number += 1
            if not left and drawn.fault.what == "toxic":
                drawn = replace(drawn, fault=replace(drawn.fault, at=0.0))
            folder = self.folder / f"run-{self.number}"
            try:
                report, job = run(drawn, self.store, self.toxiproxy, f"r{self.number:06}", folder)
                break
            except Exception as error:
                # The suite's own trouble, such as a proxy that hangs: again, with a new one.
                shutil.rmtree(folder, ignore_errors=True)
                trouble = f"the suite itself failed: {error!r}"
                if not left:
                    return Report(id, WRONG, False, 0.0, drawn.job, why=[trouble], plan=str(drawn), log=self.store.log)
                self._renew()
        report.trouble = trouble
        if isinstance(job, Job):
            self._forget(job)
            if report.kind == CLEAN and not report.uncertain:
                self.errors.append((report, job, look(job)))
        job.clear()
        return report

    def _renew(self):
        self.toxiproxy.stop()
        self.toxiproxy = open_toxiproxy(self.folder / f"toxiproxy-{self.number}")
        self.store.kill()
        self.store.start()
        until("the server is back", self.store.is_ready, 60)

    def _forget(self, job: Job):
        """Objects that were looked at need not fill the disk."""
        for thing in job.things:
            if job.there(thing) == thing.wanted:
                self.store.remove(job.bucket, thing.key)

    def look_again(self) -> list[Report]:
        """At everything that failed, now that all is quiet: what has appeared since."""
        late = []
        for report, job, then in self.errors:
            for old, new in zip(then, look(job), strict=True):
                if new.now != old.now:
                    report.why.append(f"{new.named}: an error, and later there was {name_of(new)}")
                if self.store.has_aborts and sum(map(bool, new.sessions)) > sum(map(bool, old.sessions)):
                    report.why.append(f"{new.named}: later there was an unfinished upload with parts")
            if report.why:
                report.kind = WRONG
                late.append(report)
        return late


def work(kind: str, requests: Connection, jobs: list[str] | None):
    """The process: takes names of runs and answers reports; None is the end, answered by what appeared late."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Whoever started it ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A developer's proxy is not for servers on this machine.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    with tempfile.TemporaryDirectory(prefix=f"faults-{kind}-") as folder:
        folder = Path(folder)
        store = STORES[kind](folder)
        toxiproxy = open_toxiproxy(folder / "toxiproxy")
        worker = Worker(folder, store, toxiproxy, jobs)
        try:
            while (id := requests.recv()) is not None:
                requests.send(worker.carry_out(id))
            requests.send(worker.look_again())
        except EOFError:
            pass
        finally:
            worker.toxiproxy.stop()
            store.stop()
