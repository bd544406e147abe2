"""What one run came to, judged from what it said, what it gave, and what the server holds. No I/O here."""

import json
import re
from dataclasses import dataclass, field

WHOLE, CLEAN, WRONG = "whole", "clean error", "anything else"

# The words of an error of the kind `Uncertain`, and of nothing else.
UNCERTAIN = "look at the object before writing it again"
# What the command line says of sessions that it could not end.
NOT_ABORTED = "could not be aborted and may hold parts"
# Of an error of the kind `AlreadyExists`.
EXISTS = "an object exists there"
# Of one of the kind `Integrity`, of a read.
NOT_ITS_CHECKSUM = "which the store's checksum is not"
# What a download that failed may leave beside its target.
UNFINISHED = re.compile(r"\.tidegate-[^/]+\.part")
SUMMARY = re.compile(r"[0-9.]+ \w+ in [^,]+ \([^)]+\), \d+ requests?(, (?P<retries>\d+) retr(y|ies))?(, \d+ hedges?)?")
DEBRIS = ("panicked", "Caused by", "stack backtrace", "Os {", "Error {", "Some(")
TRACE = re.compile(r"^\d{4}-\d\d-\d\dT\S+ +(TRACE|DEBUG|INFO|WARN|ERROR) ")


@dataclass(frozen=True)
class Found:
    """One object: what it was to be, what it was, what it is (sha256, None where there is none)."""

    named: str
    wanted: str
    before: str | None
    now: str | None
    # How many parts each unfinished upload of its key holds.
    sessions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ended:
    """How the program ended."""

    exit: int | None  # None where it had to be killed at its limit.
    out: str
    err: str
    found: list[Found]
    is_tree: bool = False
    create_only: bool = False
    must_succeed: bool = False
    # Whether an abort can have reached the server before the program ended.
    could_abort: bool = True
    # Whether its answer can have come back.
    could_know: bool = True
    # Whether the server was killed: one that dies behind a completion may keep the parts as well.
    was_killed: bool = False
    stray: list[str] = field(default_factory=list)


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


@dataclass
class Verdict:
    kind: str
    # Create-only refused, as it had to.
    refused: bool = False
    uncertain: bool = False
    retries: int = 0
    # Unfinished uploads with parts, left while the server could not be reached, or by its end.
    left: int = 0
    # Unfinished uploads without parts: the answer that named them was lost.
    unnamed: int = 0
    # A download that failed was whole when it was called again.
    went_on: bool = False
    why: list[str] = field(default_factory=list)


def judge(ended: Ended) -> Verdict:
    lines = said_on(ended.err)
    records = list(json_lines(ended.out))
    verdict = Verdict(
        CLEAN if ended.exit else WHOLE,
        refused=refuses(ended) and any(EXISTS in line for line in lines),
        uncertain=any(UNCERTAIN in line for line in lines),
        retries=sum(record.get("retries", 0) for record in records),
        unnamed=sum(found.sessions.count(0) for found in ended.found),
    )
    wrong = verdict.why.append
    judge_end(ended.exit, ended.err, wrong)
    if ended.exit == 0:
        judge_success(ended, lines, wrong)
    elif ended.exit == 1:
        judge_error(ended, lines, records, wrong)
    if ended.exit not in (0, None) and ended.must_succeed and not verdict.refused:
        wrong("it failed although the network was only slow")
    for found in ended.found:
        with_parts = [parts for parts in found.sessions if parts]
        if with_parts and (ended.could_abort or ended.exit == 0 and not ended.was_killed):
            wrong(f"{found.named}: an unfinished upload was left with {with_parts} parts")
        verdict.left += len(with_parts)
    for name in ended.stray:
        wrong(f"a file was left: {name}")
    if verdict.why:
        verdict.kind = WRONG
    return verdict


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
    judge_end(reading.exit, reading.err, wrong)
    if reading.exit == 0:
        if reading.given not in reading.may_give:
            wrong(f"{reading.named}: success, but it gave {told(reading)}")
        if lines or reading.sums_up and not summary:
            wrong("success, but not what is to be on stderr")
    elif reading.exit == 1:
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
    """What must not be there: all but one file that a download which failed can go on with."""
    kept = [name for name in reading.stray if UNFINISHED.fullmatch(name)]
    if reading.exit == 1 and reading.may_keep and len(kept) == 1:
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


def said_on(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.strip() and not TRACE.match(line)]


def judge_end(exit: int | None, err: str, wrong):
    for debris in DEBRIS:
        if debris in err:
            wrong(f"{debris!r} on stderr")
    if exit is None:
        wrong("it did not end within its limit")
    elif exit not in (0, 1):
        wrong(f"exit code {exit}")


def judge_success(ended: Ended, lines: list[str], wrong):
    for found in ended.found:
        if found.now != found.wanted:
            wrong(f"{found.named}: success, but there is {name_of(found)}")
    if refuses(ended):
        wrong("success, but create-only had to refuse")
    if lines:
        wrong("success, but something on stderr")


def judge_error(ended: Ended, lines: list[str], records: list[dict], wrong):
    """Each object that failed is named in one sentence, and is as it was. A line before the last one says how many
    uploads could not be aborted, where no answer to that came either."""
    if NOT_ABORTED in "".join(lines[-2:-1]) and not ended.could_know:
        lines = lines[:-2] + lines[-1:]
    if not lines or any(not line.startswith("error: ") for line in lines):
        wrong("stderr is not sentences that begin with `error: `")
    if not ended.is_tree and len(lines) != 1:
        wrong("not one line on stderr")
    if not ended.is_tree and records:
        wrong("an error, and yet an object is reported on stdout")
    copied = {record["target"] for record in records}
    for found in ended.found:
        said = [line for line in lines if found.named in line]
        if found.named in copied:
            if found.now != found.wanted:
                wrong(f"{found.named}: reported as copied, but there is {name_of(found)}")
        elif not said:
            wrong(f"{found.named}: neither copied nor named in an error")
        elif found.now == found.before:
            pass
        elif found.now == found.wanted and any(UNCERTAIN in line for line in said):
            pass
        else:
            wrong(f"{found.named}: an error, but there is {name_of(found)}")


def refuses(ended: Ended) -> bool:
    """Whether there was something that create-only has to leave as it is."""
    return ended.create_only and any(found.before for found in ended.found)


def name_of(found: Found) -> str:
    if found.now is None:
        return "nothing"
    if found.now == found.wanted:
        return "the whole object"
    return "what was there before" if found.now == found.before else f"something else ({found.now})"


def json_lines(text: str):
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "target" in record:
            yield record
