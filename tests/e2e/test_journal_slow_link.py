"""`cp --journal` over a slow link, in runs that are cut: each one gets further, and what is acknowledged is not sent again."""

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
        # The store has some parts more, and others are in flight.
        until("it is cut or done", lambda: run.ended or bucket.parts("k") >= has + 2, timeout=30)
        if run.ended:
            break
        if cut == "kill":
            run.killed()
        else:
            run.interrupt()
            run.wait(10)
        [left] = listed(tidegate, journal)
        assert left["bytes"] == parts * PART and runs < 12, left
        has = bucket.parts("k")
    assert run.wait(10).exit == 0, run
    assert bucket.sha256("k") == digest
    asked = counts()["UploadPart"]
    # A kill costs the parts in flight, three at most. Ctrl-C lets parts in flight end for a second.
    lost = 3 if cut == "kill" else 2
    assert asked <= parts + lost * (runs - 1), f"{asked} parts were sent of {parts}, in {runs} runs"
    assert runs > 2 and list(journal.iterdir()) == []
