"""The fault suite's own judgement: a judge that never condemns shows nothing."""

import json
import subprocess
import sys

import pytest

from faults.cases import CASES, Fault
from faults.one import run
from faults.plan import JOBS, READS, plan, possible
from faults.stores import STORES
from faults.verdict import CLEAN, EXISTS, UNCERTAIN, WHOLE, WRONG, Ended, Found, judge
from faults.verdict_of_reads import NOT_ITS_CHECKSUM, Again, Reading, judge_reading
from faults.way import Way, open_toxiproxy
from harness import ROOT
from harness.crc64nvme import crc64nvme

URL = "s3://b/k"
SENTENCE = f"error: {URL}: put failed after 8 attempts in 5.0 s: connection refused\n"
LEFT = f"warning: 1 upload could not be aborted and may hold parts: see `tidegate sessions ls {URL}`\n"
REFUSAL = f"error: {URL}: put failed: 412 ({EXISTS} and was left as it is)\n"
DOUBT = f"error: {URL}: complete failed: the answer was lost ({UNCERTAIN})\n"


def one(exit=0, err="", now="new", before=None, sessions=(), out="", **rest):
    return Ended(exit, out, err, [Found(URL, "new", before, now, sessions)], **rest)


def tree(exit, err, now, copied, **rest):
    found = [Found(f"{URL}{at}", f"new{at}", None, sha) for at, sha in enumerate(now)]
    out = "".join(json.dumps({"target": f"{URL}{at}", "retries": 1}) + "\n" for at in copied)
    return Ended(exit, out, err, found, is_tree=True, **rest)


REST = "error: 1 of 2 objects could not be copied\n"


@pytest.mark.parametrize(
    "ended, kind",
    [
        (one(), WHOLE),
        (one(sessions=(0,)), WHOLE),
        (one(1, SENTENCE, None), CLEAN),
        (one(1, SENTENCE, "old", "old"), CLEAN),
        (one(1, SENTENCE, None, sessions=(3,), could_abort=False, could_know=False), CLEAN),
        (one(1, LEFT + SENTENCE, None, sessions=(3,), could_abort=False, could_know=False), CLEAN),
        (one(1, LEFT + SENTENCE, None, could_know=False), CLEAN),
        (one(sessions=(3,), could_abort=False, was_killed=True), WHOLE),
        (one(1, DOUBT), CLEAN),
        (one(1, REFUSAL, "old", "old", create_only=True, must_succeed=True), CLEAN),
        (one(1, "2025-11-22T00:00:00Z DEBUG tidegate: trying again\n" + SENTENCE, None), CLEAN),
        (tree(0, "", ["new0", "new1"], [0, 1]), WHOLE),
        (tree(1, f"error: {URL}1: put failed\n{LEFT}{REST}", ["new0", None], [0], could_know=False), CLEAN),
        (tree(1, f"error: {URL}1: put failed\n{REST}", ["new0", None], [0]), CLEAN),
    ],
)
def test_what_is_in_order(ended, kind):
    verdict = judge(ended)
    assert (verdict.kind, verdict.why) == (kind, [])


@pytest.mark.parametrize(
    "ended",
    [
        one(now=None),
        one(now="half of it"),
        one(now="old", before="old"),
        one(before="old", create_only=True),
        one(sessions=(2,)),
        one(sessions=(2,), could_abort=False),
        one(err="warning: strange\n"),
        one(None),
        one(2, SENTENCE, None),
        one(101, "thread 'main' panicked at src/main.rs\n", None),
        one(-9, "", None),
        one(1, "", None),
        one(1, SENTENCE),
        one(1, SENTENCE, "half of it"),
        one(1, SENTENCE, None, "old"),
        one(1, DOUBT, "half of it"),
        one(1, SENTENCE, None, sessions=(1,)),
        one(1, SENTENCE, None, must_succeed=True),
        one(1, SENTENCE, "old", "old", create_only=True, must_succeed=True),
        one(1, SENTENCE + SENTENCE, None),
        one(1, "error: it failed\n", None),
        one(1, LEFT + SENTENCE, None),
        one(1, LEFT, None, could_abort=False, could_know=False),
        one(1, LEFT + SENTENCE, None, sessions=(3,), could_know=False),
        one(1, SENTENCE, None, stray=[".k.tmp"]),
        tree(0, "", ["new0", None], [0, 1]),
        tree(1, f"error: {URL}1: put failed\n{REST}", ["new0", "new1"], [0]),
        tree(1, f"error: {URL}1: put failed\n{REST}", [None, None], [0]),
        tree(1, REST, ["new0", None], [0]),
        tree(1, f"error: {URL}1: put failed\n{LEFT}{REST}", ["new0", None], [0]),
    ],
)
def test_what_is_not(ended):
    verdict = judge(ended)
    assert verdict.kind == WRONG and verdict.why


OBJECT, OTHER = b"the object that is read", b"what came in its place"
BROKEN = f"error: {URL}: get failed after 8 attempts in 5.0 s: connection reset; it was read up to byte 7\n"
CORRUPT = f"error: {URL}: get failed: the bytes read have crc, {NOT_ITS_CHECKSUM}\n"
KEPT = ".tidegate-0123456789abcdef-k.bin.part"
NOTE = ".tidegate-note-0123456789abcdef-k.bin.part"
SUMMARY = f"{URL} -> -: 28.5 MiB in 4.3 s (6.6 MiB/s), 65 requests, 8 retries\n"


def stream(exit=0, given=OBJECT, err="", may_give=(OBJECT,), **rest):
    return Reading(URL, exit, "", err, list(may_give), given, **rest)


def file(exit=0, given=OBJECT, err="", may_give=(OBJECT,), out="", **rest):
    return Reading(URL, exit, out, err, list(may_give), given, is_file=True, **rest)


@pytest.mark.parametrize(
    "reading, kind",
    [
        (stream(), WHOLE),
        (stream(given=OTHER, may_give=(OBJECT, OTHER)), WHOLE),
        (stream(given=b"", may_give=(b"",)), WHOLE),
        (stream(err=SUMMARY, sums_up=True), WHOLE),
        (stream(err=SUMMARY.replace("retries", "retries, 3 hedges"), sums_up=True), WHOLE),
        (stream(1, OBJECT[:7], BROKEN), CLEAN),
        (stream(1, b"", BROKEN, may_give=(b"",)), CLEAN),
        (stream(1, OBJECT, BROKEN), CLEAN),
        (stream(1, OTHER[:5], BROKEN, may_give=(OBJECT, OTHER)), CLEAN),
        (stream(1, b"the OBject", CORRUPT, corrupts=True), CLEAN),
        (stream(1, b"the OBject", BROKEN, corrupts=True), CLEAN),
        (file(), WHOLE),
        (file(before=b"old"), WHOLE),
        (file(out=json.dumps({"target": "k", "retries": 2})), WHOLE),
        (file(1, None, BROKEN), CLEAN),
        (file(1, b"old", BROKEN, before=b"old"), CLEAN),
        (file(1, None, BROKEN, stray=[KEPT, NOTE], may_keep=True), CLEAN),
        (file(1, None, BROKEN, again=[Again(0, "", True)]), CLEAN),
        (file(1, None, BROKEN, again=[Again(1, CORRUPT, False), Again(0, "", True)], corrupts=True), CLEAN),
    ],
)
def test_which_reads_are_in_order(reading, kind):
    verdict = judge_reading(reading)
    assert (verdict.kind, verdict.why) == (kind, [])


@pytest.mark.parametrize(
    "reading",
    [
        stream(given=OBJECT[:7]),
        stream(given=b""),
        stream(given=OBJECT + b"!"),
        stream(given=OTHER),
        stream(given=OBJECT[:7] + OTHER[7:], may_give=(OBJECT, OTHER)),
        stream(given=b"the OBject that is read", corrupts=True),
        stream(err="warning: strange\n"),
        stream(err=SUMMARY),
        stream(sums_up=True),
        stream(err=SUMMARY + SUMMARY, sums_up=True),
        stream(None, OBJECT[:7]),
        stream(101, OBJECT[:7], "thread 'main' panicked at src/main.rs\n"),
        stream(1, OBJECT[:7]),
        stream(1, OBJECT[:7], BROKEN + BROKEN),
        stream(1, OBJECT[:7], "error: it failed\n"),
        stream(1, OBJECT[:7], BROKEN, must_succeed=True),
        stream(1, OBJECT[:7] + OTHER[7:], BROKEN, may_give=(OBJECT, OTHER)),
        stream(1, OBJECT + b"!", BROKEN),
        stream(1, OBJECT + b"!", CORRUPT, corrupts=True),
        stream(1, b"the OBject", CORRUPT),
        file(given=None),
        file(given=OBJECT[:7]),
        file(given=b"old", before=b"old"),
        file(given=OBJECT[:7] + OTHER[7:], may_give=(OBJECT, OTHER)),
        file(given=b"the OBject that is read", corrupts=True),
        file(stray=[KEPT], may_keep=True),
        file(1, OBJECT, BROKEN),
        file(1, OBJECT[:7], BROKEN),
        file(1, None, BROKEN, before=b"old"),
        file(1, b"the OBject", CORRUPT, corrupts=True),
        file(1, None, BROKEN, stray=[KEPT]),
        file(1, None, BROKEN, stray=[KEPT], may_keep=True),
        file(1, None, BROKEN, stray=[KEPT, KEPT + ".part"], may_keep=True),
        file(1, None, BROKEN, stray=[KEPT, KEPT + ".part", NOTE], may_keep=True),
        file(1, None, BROKEN, stray=["core"], may_keep=True),
        file(1, None, BROKEN, out=json.dumps({"target": "k", "retries": 2})),
        file(1, None, BROKEN, again=[Again(1, BROKEN, False)]),
        file(1, None, BROKEN, again=[Again(1, CORRUPT, False), Again(0, "", True)]),
        file(1, None, BROKEN, again=[Again(1, CORRUPT, False)], corrupts=True),
        file(1, None, BROKEN, again=[Again(1, CORRUPT, True), Again(0, "", True)], corrupts=True),
        file(1, None, BROKEN, again=[Again(1, CORRUPT, False, [KEPT]), Again(0, "", True)], corrupts=True),
        file(1, None, BROKEN, again=[Again(1, CORRUPT, False), Again(0, "", False)], corrupts=True),
        file(1, None, BROKEN, again=[Again(0, "", False)]),
        file(1, None, BROKEN, again=[Again(0, "", True, [KEPT])]),
    ],
)
def test_which_reads_are_not(reading):
    verdict = judge_reading(reading)
    assert verdict.kind == WRONG and verdict.why


def test_a_checksum_that_differs_is_told_in_these_words(tidegate, embedded_bucket, knobs):
    embedded_bucket.put("k", b"12345", ChecksumCRC64NVME=crc64nvme(b"12345"))
    knobs(faults=[{"operation": "GetObject", "action": {"corrupt_response": {"at": 3}}}])
    run = tidegate("cat", embedded_bucket.url("k"), env=embedded_bucket.env)
    assert run.exit == 1 and NOT_ITS_CHECKSUM in run.err, run


def test_doubt_is_told_in_these_words(tidegate, bucket, minio, proxy_to):
    proxy = proxy_to(minio.address)
    proxy.toxic("limit_data", stream="downstream", bytes=4)
    env = minio.endpoint.at(proxy.url).env
    run = tidegate("cp", "-", bucket.url("k"), "--attempts", "1", "--progress", "never", stdin=b"x", env=env)
    assert run.exit == 1 and UNCERTAIN in run.err, run
    assert bucket.exists("k")


def toxic(name, stream="upstream", toxicity=1.0, **attributes):
    return Fault("toxic", 0.5, None, name, stream, toxicity, attributes)


@pytest.mark.parametrize(
    "fault, hides, blocks",
    [
        # The way, or the server, is gone.
        (Fault("cut", 0.5, 1.0), True, True),
        (Fault("kill", 0.5, 1.0), True, True),
        (Fault("cut", 0.5, 1.0, stream="downstream"), True, True),
        # Every connection; downstream the request has arrived before.
        (toxic("reset_peer", timeout=0), True, True),
        (toxic("reset_peer", "downstream", timeout=0), True, False),
        (toxic("timeout", timeout=0), True, True),
        (toxic("timeout", "downstream", timeout=800), True, False),
        # Enough connections stay as they are for one of several attempts.
        (toxic("reset_peer", toxicity=0.5, timeout=0), False, False),
        (toxic("timeout", toxicity=0.1, timeout=0), False, False),
        (toxic("reset_peer", toxicity=0.7, timeout=0), True, True),
        # An abort is small.
        (toxic("limit_data", bytes=4095), True, True),
        (toxic("limit_data", "downstream", bytes=1), True, False),
        (toxic("limit_data", bytes=4096), False, False),
        # It only takes longer.
        (toxic("latency", latency=300, jitter=0), False, False),
        (toxic("bandwidth", rate=5), False, False),
        (toxic("slicer", average_size=2, size_variation=1, delay=300), False, False),
    ],
)
def test_which_faults_keep_an_abort_from_the_store(fault, hides, blocks):
    assert (fault.hides_aborts, fault.blocks_aborts) == (hides, blocks)


class Struck(Way):
    """A way whose fault struck, and was over, at these moments; there is no proxy."""

    def __init__(self, fault, struck, mended):
        self._fault, self.struck, self.mended = fault, struck, mended


@pytest.mark.parametrize(
    "struck, mended, ended, clear",
    [
        (None, None, 10.0, True),
        (5.0, None, 10.0, False),
        (5.0, 7.0, 10.0, True),
        (5.0, 9.0, 10.0, False),
    ],
)
def test_an_abort_is_expected_where_the_way_was_clear_or_the_fault_lets_it_through(struck, mended, ended, clear):
    for fault, could_abort, could_know in [
        (Fault("cut", 0.5, 1.0), clear, clear),
        (toxic("reset_peer", "downstream", timeout=0), True, clear),
        (toxic("latency", latency=300), True, True),
    ]:
        way = Struck(fault, struck, mended)
        assert (way.could_abort(ended), way.could_know(ended)) == (could_abort, could_know), fault


def test_the_same_name_is_the_same_run():
    for case in CASES:
        assert plan(f"7.minio.{case}.3") == plan(f"7.minio.{case}.3")
        assert str(plan(f"7.minio.{case}.3")) != str(plan(f"8.minio.{case}.3"))


def test_every_kind_of_upload_and_read_is_drawn():
    drawn = {plan(f"1.minio.{case}.{number}").job for case in CASES for number in range(20)}
    assert drawn == set(JOBS)


def test_what_is_about_reads_is_tried_on_reads():
    for case in CASES.values():
        jobs = {plan(f"1.minio.{case.id}.{number}").job for number in range(20)}
        assert jobs <= set(READS) or not case.reads_only
        assert plan(f"1.embedded.{case.id}.1").is_read
        assert set(possible("minio", case, ["get", "put"])) == ({"get"} if case.reads_only else {"get", "put"})


def test_a_consumer_has_the_time_for_either_object():
    """An object that is replaced before the first answer is read whole, however small the one before was."""
    plans = [plan(f"1.embedded.replaced.{number}", ["cat", "read"]) for number in range(300)]
    slow = [at.consumer for at in plans if at.consumer.rate]
    assert len(slow) > 30 and all(consumer.other / consumer.rate <= 4 for consumer in slow)


def test_a_job_that_was_drawn_is_the_same_run_where_it_is_asked_for():
    for case in CASES:
        drawn = plan(f"7.embedded.{case}.3", ["get", "cat"])
        assert plan(f"7.embedded.{case}.3", [drawn.job]) == drawn


@pytest.fixture
def script(tmp_path, monkeypatch):
    """`script(text)` is what runs in the program's place."""

    def write(text):
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setenv("TIDEGATE_BIN", str(path))
        monkeypatch.setenv("TIDEGATE_FACES", str(path))

    return write


def test_a_program_that_lies_is_found_out(script):
    """It reads everything, says that all went well, and sends nothing."""
    script("exec cat >/dev/null")
    suite = subprocess.run(
        [
            sys.executable,
            "-m",
            "faults",
            "--runs",
            "2",
            "--only",
            "latency-up",
            "--server",
            "versitygw",
            "--job",
            "pipe",
            "--json",
        ],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert suite.returncode == 1, suite
    reports = [json.loads(line) for line in suite.stdout.splitlines()]
    assert [report["kind"] for report in reports] == [WRONG] * 2
    assert "--replay 1.versitygw.latency-up.0" in suite.stderr


def test_what_failed_is_told_below_the_table(script):
    """With what the program said that it did: of a log that is cut, only the end may be seen."""
    script("seq -f '2026-01-01T00:00:00Z DEBUG step %.0f' 30 >&2; exec cat >/dev/null")
    suite = subprocess.run(
        [
            sys.executable,
            "-m",
            "faults",
            "--runs",
            "1",
            "--only",
            "latency-up",
            "--server",
            "versitygw",
            "--job",
            "pipe",
        ],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert suite.returncode == 1, suite
    below = suite.stdout.partition("1 runs in")[2]
    assert (
        "1.versitygw.latency-up.0: anything else" in below and "--replay 1.versitygw.latency-up.0 --job pipe" in below
    )
    assert "step 30" in below and "step 2\n" not in below


def test_a_program_that_gives_other_bytes_is_found_out(script):
    script("""[ "$1" = cp ] && echo '{"target":"x"}' || echo no object of ours""")
    suite = subprocess.run(
        [sys.executable, "-m", "faults", "--runs", "2", "--only", "latency-up", "--server", "versitygw"]
        + ["--job", "cat", "--job", "read", "--json", "--seed", "5"],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert suite.returncode == 1, suite
    reports = [json.loads(line) for line in suite.stdout.splitlines()]
    assert [report["kind"] for report in reports] == [WRONG] * 2
    assert "success, but it gave" in suite.stderr, suite


def test_a_program_that_hangs_is_found_out(script, tmp_path):
    script("exec sleep 100")
    store = STORES["versitygw"](tmp_path / "store")
    toxiproxy = open_toxiproxy(tmp_path / "toxiproxy")
    try:
        report, job = run(plan("1.versitygw.latency-up.0"), store, toxiproxy, "hangs", tmp_path / "run", limit=1)
    finally:
        toxiproxy.stop()
        store.stop()
    assert report.kind == WRONG and "it did not end within its limit" in report.why
