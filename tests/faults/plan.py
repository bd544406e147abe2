"""One run, drawn from its name: SEED.SERVER.CASE.NUMBER. The same name is the same run."""

from dataclasses import dataclass
from random import Random

from harness import KIB, MIB

from .cases import CASES, Case, Fault
from .stores import STORES

PART = 5 * MIB

# What is sent, and how often: an object of one request, a file and a pipe of several parts, a directory, and the
# writer's faces that the command line does not reach.
UPLOADS = {"put": 25, "file": 25, "pipe": 20, "tree": 10, "face": 15}
# The way back: into a file, to a pipe, and through the reader's faces to a pipe.
READS = {"get": 9, "cat": 6, "read": 5}
JOBS = UPLOADS | READS
FACES = ["write", "async-write", "sink", "blocking", "spool"]
READ_FACES = ["stream", "async-read", "blocking-read", "blocks", "seek"]
# Of these only the bytes are compared with the store's checksum: they read an object whole and in order.
CHECKED_FACES = READ_FACES[:3]
STRATEGIES = ["auto", "auto", "auto", "auto", "parallel", "chunked", "put"]


@dataclass(frozen=True)
class Consumer:
    """What is read, and how it is taken."""

    # The store has a checksum of the object that the program compares.
    sealed: bool = False
    # The first byte and the last one; to the end where that is None.
    range: tuple[int, int | None] | None = None
    # The program's --memory.
    memory: str | None = None
    # Bytes a second; or at once, but for one pause: behind which share of all, for how many seconds.
    rate: int | None = None
    pause: tuple[float, float] | None = None
    # The size of an object that takes its place.
    other: int = 0

    def __str__(self):
        return ", ".join(f"{name}={value}" for name, value in vars(self).items() if value)


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
    consumer: Consumer

    @property
    def is_read(self) -> bool:
        return self.job in READS

    def __str__(self):
        if self.is_read:
            said = [
                self.job,
                *([self.face] if self.job == "read" else []),
                f"{self.sizes[0]} bytes",
                str(self.consumer),
            ]
            return f"{', '.join([*said, *(['before'] if self.before else [])])}; {self.fault}"
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
    if job in READS:
        # The requests of a read are of 8 MiB at most; a download of more than that keeps what it has.
        edge = random.randint(1, 4) * 8 * MIB + random.randint(-1, 1)
        few = random.choice([0, 1, random.randint(2, 100 * KIB), random.randint(2, 8 * MIB)])
        return [random.choice([few, edge, random.randint(8 * MIB, 39 * MIB), random.randint(8 * MIB, 39 * MIB)])]
    # Also exactly at the edge of a part, and one byte on either side of it.
    edge = random.randint(1, 6) * PART + random.randint(-1, 1)
    return [
        random.choice(
            [edge, random.randint(0, 40 * MIB), random.randint(PART, 20 * MIB), random.randint(PART, 20 * MIB)]
        )
    ]


def consumer(random: Random, job: str, face: str, size: int, case: Case) -> Consumer:
    sealed = case.corrupts or random.random() < 0.5
    memory = random.choice([None, None, "1MiB", "8MiB", "32MiB"]) if job != "read" else None
    range = None
    if job == "cat" and memory is None and size and not case.corrupts and random.random() < 0.6:
        first = random.randrange(size)
        range = (first, random.choice([None, random.randrange(first, size), size + random.randrange(size)]))
    asked = size if range is None else size - range[0]
    pace = random.choice(["fast", "fast", "rate", "pause"]) if job != "get" else "fast"
    seconds = random.uniform(0.5, 4) if pace == "rate" else None
    pause = (random.random(), random.uniform(0.2, 3)) if pace == "pause" else None
    other = random.choice([size, random.randint(0, size), random.randint(size, 39 * MIB)])
    # Where the object is replaced before the first answer, the other one is read, at the same rate.
    most = max(asked, other) if case.name == "replaced" else asked
    rate = int(most / seconds) + 1 if seconds else None
    return Consumer(sealed, range, memory, rate, pause, other)


def possible(server: str, case: Case, jobs: list[str] | None = None) -> dict[str, int]:
    """The jobs that a case may meet on a server, of those that are wanted, with their weights."""
    if case.kills and not STORES[server].is_durable:
        return {}
    only = READS if case.reads_only or STORES[server].reads_only else JOBS
    return {job: weight for job, weight in only.items() if not jobs or job in jobs}


def plan(id: str, jobs: list[str] | None = None) -> Plan:
    seed, server, case_id, number = id.split(".")
    random = Random(id)
    case = CASES[case_id]
    candidates = possible(server, case, jobs)
    job = random.choices(list(candidates), candidates.values())[0]
    lengths = sizes(random, job)
    faces = FACES if job in UPLOADS else CHECKED_FACES if case.corrupts else READ_FACES
    face = random.choice(faces)
    create_only = job in UPLOADS and job != "face" and random.random() < 0.2
    reads = consumer(random, job, face, lengths[0], case) if job in READS else Consumer()
    first, last = reads.range or (0, None)
    size = sum(lengths) - first if last is None else min(last + 1, lengths[0]) - first
    return Plan(
        id=id,
        server=server,
        case=case,
        fault=case.fault(random, size, is_read=job in READS),
        job=job,
        sizes=lengths,
        strategy=random.choice(STRATEGIES),
        face=face,
        spools=face == "spool" or random.random() < 0.5,
        before=random.random() < 0.25,
        create_only=create_only,
        holds=random.random() < 0.5,
        offset=random.randrange(8 * MIB),
        consumer=reads,
    )
