"""`cp --journal` over a slow link, in runs that are cut: each one gets further, and what is acknowledged is not sent again."""

import time

import pytest

from harness.process import until
from journals import CP, PART, listed

RATE = 8_000_000


@pytest.mark.parametrize("cut", ["interrupt", "kill"])
def test_runs_that_are_cut_send_what_is_acknowledged_once(
    tidegate, embedded_bucket, counts, knobs, journal, make_file, cut
):
    bucket, parts = embedded_bucket, 8
    path, digest = make_file(parts * PART)
    knobs(bandwidth={"total_in": RATE})
    cp = ("cp", path, bucket.url("k"), *CP, "--journal", journal)
    has, runs = 0, 0
    while True:
        runs += 1
        run = tidegate.start(*cp, env=bucket.env)
        began = time.monotonic()
        # Some parts are acknowledged, and others are on their way.
        until("it is cut or done", lambda: run.ended or bucket.parts("k") >= has + 2, timeout=30)
        if run.ended:
            break
        assert time.monotonic() - began < 20
        if cut == "kill":
            run.killed()
        else:
            run.interrupt()
            run.wait(10)
        [left] = listed(tidegate, journal)
        now_has = left["acknowledged_bytes"] // PART
        assert now_has > has, f"run {runs} came no further: {left}"
        has = now_has
    assert run.wait(10).exit == 0, run
    assert bucket.sha256("k") == digest
    asked = counts()["UploadPart"]
    # A cut costs what is in flight then: at most as many parts as the link carries in three seconds, four.
    assert asked <= parts + 4 * (runs - 1), f"{asked} parts were sent of {parts}, in {runs} runs"
    assert runs > 2 and list(journal.iterdir()) == []
