"""The soak (`python -m soak`) in short, and whether it would see what it looks for."""

import os
import subprocess
import sys
from pathlib import Path

from harness.command import clean_env
from soak.content import Recipe
from soak.stored import sessions, wrong_objects

PYTHON = Path(__file__).resolve().parents[1]


def test_a_short_soak_passes():
    # Its memory is not flat yet after so short a time.
    short = ["--seconds", "4", "--processes", "2", "--threads", "3", "--growth-mib", "200", "--seed", "33"]
    done = subprocess.run(
        [sys.executable, "-m", "soak", *short],
        cwd=PYTHON,
        env=clean_env({"TIDEGATE_BIN": os.environ["TIDEGATE_BIN"]}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The soak has passed" in done.stdout


def test_wrong_objects_and_sessions_are_found(embedded, bucket):
    expected = {name: Recipe(number, 100) for number, name in enumerate(["right", "torn", "missing"])}
    bucket.put("right", expected["right"].data())
    bucket.put("torn", expected["torn"].data()[:50])
    bucket.put("more", b"1")
    bucket.client.create_multipart_upload(Bucket=bucket.name, Key="left")
    assert wrong_objects(bucket, expected) == [
        "missing is missing",
        "more should have no object",
        "torn has other bytes than were written",
    ]
    assert sessions(embedded, bucket) == ["left"]
