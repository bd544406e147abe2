"""One run: set up, struck, mended, awaited, judged."""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.command import Result
from harness.process import until
from harness.toxiproxy import Toxiproxy

from .cases import COMMIT
from .jobs import Job
from .plan import Plan
from .reads import ReadJob
from .stores import Store
from .verdict import TRACE, Ended, Found, Verdict, judge, said_on
from .verdict_of_reads import judge_reading
from .way import Way

# The longest that retries and their pauses can take, several requests one after another, on a machine that is busy.
LIMIT = 180.0
# A read of little memory is many requests, one after another: it has that long from one piece to the next, and so
# often.
PIECE, MOST_LIMITS = 4096, 3
BEAT = 0.002


@dataclass
class Report:
    """A run, as it is told to whoever started it."""

    id: str
    kind: str
    struck: bool
    seconds: float
    job: str = ""
    refused: bool = False
    uncertain: bool = False
    retries: int = 0
    left: int = 0
    unnamed: int = 0
    went_on: bool = False
    why: list[str] = field(default_factory=list)
    plan: str = ""
    exit: int | None = None
    err: str = ""
    # What the program said that it does.
    trace: str = ""
    log: str = ""
    # What was wrong with the suite itself at the first try, where this is the second.
    trouble: str = ""

    def json(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if name != "trace"})


def run(
    plan: Plan, store: Store, toxiproxy: Toxiproxy, bucket: str, folder: Path, limit=LIMIT
) -> tuple[Report, Job | ReadJob]:
    folder.mkdir(parents=True)
    job = (ReadJob if plan.is_read else Job)(plan, store, bucket, folder)
    program = None
    way = Way(toxiproxy, store, plan.fault, lambda what: job.meddle(what, program))
    began = time.monotonic()
    try:
        program = job.start(way.url)
        ended = watch(plan, job, way, program, began, limit)
        if ended is None:
            os.kill(program.pid, signal.SIGKILL)
        result = program.wait(10)
    finally:
        if program is not None:
            program.close()
        job.end()
        way.close()
    until("the server is back", store.is_ready, 60)
    seconds = (ended or time.monotonic()) - began
    exit = None if ended is None else result.exit
    if plan.is_read:
        verdict = judge_reading(job.ended(exit, result))
    else:
        verdict = judge(upload_ended(plan, job, way, exit, result, ended))
    return report(plan, verdict, exit, result.said, way, seconds, store), job


def upload_ended(plan: Plan, job: Job, way: Way, exit: int | None, result: Result, ended: float | None) -> Ended:
    return Ended(
        exit=exit,
        out=result.out.decode(errors="replace"),
        err=result.said,
        found=look(job),
        is_tree=plan.job == "tree",
        create_only=plan.create_only,
        must_succeed=plan.case.must_succeed,
        could_abort=ended is not None and job.store.has_aborts and way.could_abort(ended),
        could_know=ended is not None and way.could_know(ended),
        was_killed=way.has_killed,
        stray=job.stray_files(),
    )


def watch(plan: Plan, job: Job | ReadJob, way: Way, program, began: float, limit: float) -> float | None:
    """Moves what is piped and lets the fault strike and end, until the program has ended. When that was; None where it did
    not."""
    strike_at = int(min(plan.fault.at, 1.0) * job.size)
    striking, given, moved = None, 0, began
    # Beside this: Toxiproxy takes no toxic while the bytes of a connection are not taken.
    with ThreadPoolExecutor(1) as beside:
        while not program.ended:
            now = time.monotonic()
            if plan.is_read and job.read(program) >= given + PIECE:
                given, moved = job.read(program), now
            if now > moved + limit or now > began + MOST_LIMITS * limit:
                return None
            has_struck = way.struck is not None or plan.is_read and striking is not None
            waits = not has_struck and plan.holds and plan.fault.at < COMMIT
            job.move(strike_at if waits else None)
            if way.struck is None and striking is None and job.read(program) >= strike_at:
                if plan.fault.at < COMMIT or job.is_stored():
                    striking = beside.submit(way.strike)
            if striking is not None and striking.done():
                striking.result()
            way.tend()
            time.sleep(BEAT)
        ended = time.monotonic()
    if striking is not None:
        striking.result()
    return ended


def look(job: Job) -> list[Found]:
    return [
        Found(
            thing.named,
            thing.wanted,
            thing.before,
            job.there(thing),
            tuple(len(session.parts) for session in job.store.sessions(job.bucket, thing.key)),
        )
        for thing in job.things
    ]


def report(plan: Plan, verdict: Verdict, exit: int | None, err: str, way: Way, seconds: float, store: Store) -> Report:
    said = Report(
        id=plan.id,
        job=plan.job,
        kind=verdict.kind,
        struck=way.struck is not None,
        seconds=round(seconds, 2),
        refused=verdict.refused,
        uncertain=verdict.uncertain,
        retries=verdict.retries,
        left=verdict.left,
        unnamed=verdict.unnamed,
        went_on=verdict.went_on,
        exit=exit,
        err="\n".join(said_on(err)),
        trace="\n".join(line for line in err.splitlines() if TRACE.match(line)),
        plan=str(plan),
    )
    if verdict.why:
        said.why = verdict.why
        said.log = store.log
    return said
