"""What one run came to, judged from what it said and what the server holds; reads have a module of their own. No I/O
here."""

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
DEBRIS = ("panicked", "Caused by", "stack backtrace", "Os {", "Error {", "Some(")
# Exit codes of a program that failed: in general, because the object was removed, and for want of an answer.
FAILED = (1, 3, 5)
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
    judge_end(ended.exit, lines, wrong)
    if ended.exit == 0:
        judge_success(ended, lines, wrong)
    elif ended.exit in FAILED:
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


# Azurite compares no checksums, and each command that writes there warns of that.
NOT_COMPARED = "does not compare the bytes that it gets with their checksums"


def said_on(err: str) -> list[str]:
    return [
        line
        for line in err.splitlines()
        if line.strip() and not TRACE.match(line) and not line.startswith("waiting: ") and NOT_COMPARED not in line
    ]


def judge_end(exit: int | None, lines: list[str], wrong):
    for debris in DEBRIS:
        if any(debris in line for line in lines):
            wrong(f"{debris!r} on stderr")
    if exit is None:
        wrong("it did not end within its limit")
    elif exit != 0 and exit not in FAILED:
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
