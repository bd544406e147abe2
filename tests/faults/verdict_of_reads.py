"""What one run that reads an object came to, judged from what it said and what it gave. No I/O here."""

import re
from dataclasses import dataclass, field

from .verdict import CLEAN, FAILED, WHOLE, WRONG, Verdict, json_lines, judge_end, said_on

# Of an error of the kind `Integrity`, of a read.
NOT_ITS_CHECKSUM = "which the store's checksum is not"
# What a download that failed may leave beside its target.
NOTE = ".tidegate-note-"
UNFINISHED = re.compile(r"\.tidegate-[^/]+\.part")
SUMMARY = re.compile(r"[0-9.]+ \w+ in [^,]+ \([^)]+\), \d+ requests?(, (?P<retries>\d+) retr(y|ies))?(, \d+ hedges?)?")


@dataclass(frozen=True)
class Again:
    """How the same download ended when it was called again, with nothing in its way."""

    exit: int
    err: str
    is_whole: bool
    stray: list[str] = field(default_factory=list)

    @property
    def is_refused(self) -> bool:
        """By the store's checksum."""
        return self.exit == 1 and NOT_ITS_CHECKSUM in self.err


@dataclass
class Reading:
    """How a program that reads an object ended."""

    named: str
    exit: int | None  # None where it had to be killed at its limit.
    out: str  # Where it gives the bytes to a file.
    err: str
    # What is to be read, of the object that was there when it began; of each, where that is not known.
    may_give: list[bytes]
    # What is in the file, None where there is none; or what came on stdout.
    given: bytes | None
    is_file: bool = False
    # `cp … -`: how it went is said on stderr, because the object is on stdout.
    sums_up: bool = False
    # What was in the file.
    before: bytes | None = None
    must_succeed: bool = False
    # The server gave bytes that are not the object's, and has its checksum.
    corrupts: bool = False
    stray: list[str] = field(default_factory=list)
    # The object is so large that what has arrived of it is kept.
    may_keep: bool = False
    # Twice where the first found out that what it had is corrupt.
    again: list[Again] = field(default_factory=list)


def judge_reading(reading: Reading) -> Verdict:
    lines = said_on(reading.err)
    records = list(json_lines(reading.out)) if reading.is_file else []
    summary = None
    if reading.sums_up and reading.exit == 0 and lines:
        summary = SUMMARY.fullmatch(lines[0].removeprefix(f"{reading.named} -> -: "))
        lines = lines[1:] if summary else lines
    verdict = Verdict(
        CLEAN if reading.exit else WHOLE,
        retries=sum(record.get("retries", 0) for record in records) + int(summary and summary["retries"] or 0),
        went_on=bool(reading.again),
    )
    wrong = verdict.why.append
    judge_end(reading.exit, lines, wrong)
    if reading.exit == 0:
        if reading.given not in reading.may_give:
            wrong(f"{reading.named}: success, but it gave {told(reading)}")
        if lines or reading.sums_up and not summary:
            wrong("success, but not what is to be on stderr")
    elif reading.exit in FAILED:
        if len(lines) != 1 or not lines[0].startswith("error: ") or reading.named not in lines[0]:
            wrong("stderr is not one sentence that begins with `error: ` and names the object")
        if records:
            wrong("an error, and yet an object is reported on stdout")
        judge_what_was_given(reading, wrong)
        if reading.must_succeed:
            wrong("it failed although the network was only slow")
    for name in stray(reading):
        wrong(f"a file was left: {name}")
    for number, again in enumerate(reading.again):
        judge_again(again, reading.corrupts and number == 0 and again.is_refused, wrong)
    if reading.again and reading.again[-1].is_refused:
        wrong("what is corrupt is still there")
    if verdict.why:
        verdict.kind = WRONG
    return verdict


def judge_what_was_given(reading: Reading, wrong):
    """By one that failed. A stream gives bytes before it can know that the checksum of all is another, and may fail
    for another reason before that."""
    if reading.is_file:
        if reading.given != reading.before:
            wrong(f"{reading.named}: an error, but the file has {told(reading)}")
    elif reading.corrupts:
        if len(reading.given) > max(map(len, reading.may_give), default=0):
            wrong(f"{reading.named}: an error, but it gave {told(reading)}")
    elif not any(content.startswith(reading.given) for content in reading.may_give):
        wrong(f"{reading.named}: an error, but it gave {told(reading)}")


def judge_again(again: Again, may_refuse: bool, wrong):
    if may_refuse:
        if again.is_whole:
            wrong("called again, it failed, but the file is the object")
    elif again.exit != 0:
        wrong(f"called again, with nothing in its way, it ended with {again.exit}: {again.err.strip()}")
    elif not again.is_whole:
        wrong("called again, it succeeded, but the file is not the object")
    for name in again.stray:
        wrong(f"called again, it left a file: {name}")


def stray(reading: Reading) -> list[str]:
    """What must not be there: all but one file, and its note, by which a download that failed can be resumed."""
    kept = [name for name in reading.stray if UNFINISHED.fullmatch(name)]
    notes = [name for name in kept if name.startswith(NOTE)]
    if reading.exit in FAILED and reading.may_keep and len(notes) == 1 and len(kept) == 2:
        return [name for name in reading.stray if name not in kept]
    return reading.stray


def told(reading: Reading) -> str:
    """What was given, for people: how many bytes, and where they begin to be others."""
    if reading.given is None:
        return "nothing"
    shared = max((agree(reading.given, content) for content in reading.may_give), default=0)
    wholes = ", ".join(str(len(content)) for content in reading.may_give)
    return f"{len(reading.given)} bytes (of {wholes}), the first {shared} of them right"


def agree(left: bytes, right: bytes) -> int:
    """How many of their first bytes are the same."""
    least, most = 0, min(len(left), len(right))
    while least < most:
        middle = (least + most + 1) // 2
        if left[least:middle] == right[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
