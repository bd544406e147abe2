"""The fault suite's own judgement: a judge that never condemns shows nothing."""

import json
import subprocess
import sys

import pytest

from faults.cases import CASES, Fault
from faults.plan import plan
from faults.verdict import CLEAN, EXISTS, UNCERTAIN, WHOLE, WRONG, Ended, Found, judge
from faults.verdict_of_reads import NOT_ITS_CHECKSUM, Again, Reading, judge_reading
from harness import ROOT
from harness.crc64nvme import crc64nvme

URL = "s3://b/k"
SENTENCE = f"error: {URL}: put failed after 8 attempts in 5.0 s: connection refused\n"
LEFT = f"warning: 1 upload could not be aborted and may hold parts: see `tidegate sessions ls {URL}`\n"
REFUSAL = f"error: {URL}: put failed: 412 ({EXISTS} and was left as it is)\n"
DOUBT = f"error: {URL}: complete failed: the answer was lost ({UNCERTAIN})\n"


def one(exit=0, err="", now="new", before=None, sessions=(), out="", **rest):
    return Ended(exit, out, err, [Found(URL, "new", before, now, sessions)], **rest)


UPLOADS = [
    (one(), WHOLE),
    (one(1, SENTENCE, "old", "old"), CLEAN),
    (one(1, LEFT + SENTENCE, None, sessions=(3,), could_abort=False, could_know=False), CLEAN),
    (one(1, DOUBT), CLEAN),
    (one(1, REFUSAL, "old", "old", create_only=True, must_succeed=True), CLEAN),
    (one(now=None), WRONG),
    (one(now="half of it"), WRONG),
    (one(before="old", create_only=True), WRONG),
    (one(sessions=(2,)), WRONG),
    (one(None), WRONG),
    (one(101, "thread 'main' panicked at src/main.rs\n", None), WRONG),
    (one(1, "", None), WRONG),
    (one(1, SENTENCE), WRONG),
    (one(1, DOUBT, "half of it"), WRONG),
    (one(1, SENTENCE, None, "old"), WRONG),
    (one(1, SENTENCE, None, sessions=(1,)), WRONG),
    (one(1, SENTENCE, None, must_succeed=True), WRONG),
    (one(1, "error: it failed\n", None), WRONG),
    (one(1, SENTENCE, None, stray=[".k.tmp"]), WRONG),
]

OBJECT, OTHER = b"the object that is read", b"what came in its place"
BROKEN = f"error: {URL}: get failed after 8 attempts in 5.0 s: connection reset; it was read up to byte 7\n"
CORRUPT = f"error: {URL}: get failed: the bytes read have crc, {NOT_ITS_CHECKSUM}\n"
KEPT = [".tidegate-0123456789abcdef-k.bin.part", ".tidegate-note-0123456789abcdef-k.bin.part"]


def read(exit=0, given=OBJECT, err="", may_give=(OBJECT,), **rest):
    return Reading(URL, exit, "", err, list(may_give), given, **rest)


READINGS = [
    (read(given=OTHER, may_give=(OBJECT, OTHER)), WHOLE),
    (read(1, OBJECT[:7], BROKEN), CLEAN),
    (read(1, b"the OBject", CORRUPT, corrupts=True), CLEAN),
    (read(1, b"old", BROKEN, before=b"old", is_file=True), CLEAN),
    (read(1, None, BROKEN, stray=KEPT, may_keep=True, is_file=True), CLEAN),
    (read(given=OBJECT[:7]), WRONG),
    (read(given=OBJECT[:7] + OTHER[7:], may_give=(OBJECT, OTHER)), WRONG),
    (read(given=b"the OBject that is read", corrupts=True), WRONG),
    (read(1, OBJECT[:7] + OTHER[7:], BROKEN, may_give=(OBJECT, OTHER)), WRONG),
    (read(1, b"the OBject", CORRUPT), WRONG),
    (read(None, OBJECT[:7]), WRONG),
    (read(1, OBJECT[:7], BROKEN, is_file=True), WRONG),
    (read(1, None, BROKEN, stray=KEPT, is_file=True), WRONG),
    (read(1, None, BROKEN, again=[Again(0, "", False)], is_file=True), WRONG),
]


@pytest.mark.parametrize(
    "judge_it, ended, kind", [(judge, *row) for row in UPLOADS] + [(judge_reading, *row) for row in READINGS]
)
def test_judgements(judge_it, ended, kind):
    verdict = judge_it(ended)
    assert verdict.kind == kind and bool(verdict.why) == (kind == WRONG), verdict


def test_the_program_has_the_words_that_are_looked_for(tidegate, embedded_bucket, knobs):
    embedded_bucket.put("k", b"12345", ChecksumCRC64NVME=crc64nvme(b"12345"))
    knobs(faults=[{"operation": "GetObject", "action": {"corrupt_response": {"at": 3}}}])
    run = tidegate("cat", embedded_bucket.url("k"), env=embedded_bucket.env)
    assert run.exit == 1 and NOT_ITS_CHECKSUM in run.err, run
    knobs(faults=[{"operation": "*", "action": "lose_answer"}])
    env = embedded_bucket.env
    run = tidegate("cp", "-", embedded_bucket.url("l"), "--attempts", "1", "--progress", "never", stdin=b"x", env=env)
    assert run.exit == 1 and UNCERTAIN in run.err, run


@pytest.mark.parametrize(
    "fault, hides, blocks",
    [
        (Fault("cut", 0.5, 1.0), True, True),
        (Fault("toxic", 0.5, None, "reset_peer", "downstream", 1.0, {"timeout": 0}), True, False),
        (Fault("toxic", 0.5, None, "timeout", "upstream", 0.1, {"timeout": 0}), False, False),
        (Fault("toxic", 0.5, None, "limit_data", "upstream", 1.0, {"bytes": 4095}), True, True),
        (Fault("toxic", 0.5, None, "bandwidth", "upstream", 1.0, {"rate": 5}), False, False),
    ],
)
def test_which_faults_keep_an_abort_from_the_store(fault, hides, blocks):
    assert (fault.hides_aborts, fault.blocks_aborts) == (hides, blocks)


def test_the_same_name_is_the_same_run():
    for case in CASES:
        assert plan(f"7.minio.{case}.3") == plan(f"7.minio.{case}.3")
        assert str(plan(f"7.minio.{case}.3")) != str(plan(f"8.minio.{case}.3"))


@pytest.mark.parametrize(
    "script, jobs",
    [
        ("exec cat >/dev/null", ["pipe"]),
        ("""[ "$1" = cp ] && echo '{"target":"x"}' || echo no object of ours""", ["cat", "read"]),
    ],
    ids=["sends nothing", "gives other bytes"],
)
def test_a_program_that_lies_is_found_out(tmp_path, monkeypatch, script, jobs):
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("TIDEGATE_BIN", str(path))
    monkeypatch.setenv("TIDEGATE_FACES", str(path))
    command = [sys.executable, "-m", "faults", "--runs", "2", "--only", "latency-up", "--server", "versitygw", "--json"]
    command += [word for job in jobs for word in ("--job", job)]
    suite = subprocess.run(command, cwd=ROOT / "tests", capture_output=True, text=True, timeout=120)
    assert suite.returncode == 1, suite
    assert [json.loads(line)["kind"] for line in suite.stdout.splitlines()] == [WRONG] * 2
    assert "--replay 1.versitygw.latency-up.0" in suite.stderr
