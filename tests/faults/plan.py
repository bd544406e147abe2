"""One run, drawn from its name: SEED.SERVER.CASE.NUMBER. The same name is the same run."""

from dataclasses import dataclass
from random import Random

from harness import KIB, MIB

from .cases import CASES, Case, Fault

PART = 5 * MIB

# What is sent, and how often: an object of one request, a file and a pipe of several parts, a directory, the writer's
# faces that the command line does not reach, and the way back.
JOBS = {"put": 25, "file": 25, "pipe": 20, "tree": 10, "face": 15, "get": 5}
FACES = ["write", "async-write", "sink", "blocking", "spool"]
STRATEGIES = ["auto", "auto", "auto", "auto", "parallel", "chunked", "put"]


@dataclass(frozen=True)
class Plan:
    id: str
    server: str
    case: Case
    fault: Fault
    job: str
    sizes: list[int]
    strategy: str
    face: str
    # The face has little memory and a spool directory.
    spools: bool
    # An object lies there already.
    before: bool
    create_only: bool
    # The pipe stands still where the fault strikes, until it has.
    holds: bool
    # Where in the pool of random bytes the contents begin.
    offset: int

    def __str__(self):
        said = [self.job, f"{len(self.sizes)} of {sum(self.sizes)} bytes", self.strategy]
        if self.job == "face":
            said += [self.face, *(["spool"] if self.spools else [])]
        said += [word for word, true in [("before", self.before), ("create-only", self.create_only)] if true]
        return f"{', '.join(said)}; {self.fault}"


def sizes(random: Random, job: str) -> list[int]:
    if job == "put":
        return [random.choice([0, 1, random.randint(2, 100 * KIB), random.randint(2, PART), random.randint(2, PART)])]
    if job == "tree":
        most = random.choice([100 * KIB, PART, 8 * MIB])
        return [random.randint(0, most) for _ in range(random.randint(2, 8))]
    # Also exactly at the edge of a part, and one byte on either side of it.
    edge = random.randint(1, 6) * PART + random.randint(-1, 1)
    return [random.choice([edge, random.randint(0, 40 * MIB), random.randint(PART, 20 * MIB), random.randint(PART, 20 * MIB)])]


def plan(id: str, job: str | None = None) -> Plan:
    seed, server, case_id, number = id.split(".")
    random = Random(id)
    case = CASES[case_id]
    drawn = random.choices(list(JOBS), JOBS.values())[0]
    job = job or drawn
    lengths = sizes(random, job)
    face = random.choice(FACES)
    create_only = job not in ("face", "get") and random.random() < 0.2
    return Plan(
        id=id,
        server=server,
        case=case,
        fault=case.fault(random, sum(lengths), is_download=job == "get"),
        job=job,
        sizes=lengths,
        strategy=random.choice(STRATEGIES),
        face=face,
        spools=face == "spool" or random.random() < 0.5,
        before=random.random() < 0.25,
        create_only=create_only,
        holds=random.random() < 0.5,
        offset=random.randrange(8 * MIB),
    )
