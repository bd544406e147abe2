"""The soak (`python -m soak`) in short, and whether it would see what it looks for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.command import clean_env
from soak.content import Recipe, is_whole
from soak.stored import sessions, wrong_objects
from soak.turns import Turns
from soak.watch import Sample, Watch
from soak.worker import descriptors

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


def test_every_turn_leaves_the_expected_objects(embedded, store, bucket):
    turns = Turns(store, "0/0/", seed=33)
    for _ in range(2):
        turns.each()
    assert store.tide.settled() == []
    assert len(turns.expected) > 4
    assert wrong_objects(bucket, turns.expected) == []
    assert sessions(embedded, bucket) == []


def test_no_part_of_an_object_is_a_whole_one():
    data = Recipe(7, 300).data()
    assert is_whole(data)
    assert not any(is_whole(data[:length]) for length in range(300))
    assert not is_whole(data + b"1")
    assert not is_whole(data[:299] + bytes([data[299] ^ 1]))


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


@pytest.mark.parametrize("rise, least, most", [(0, -1, 1), (0.1, 6.5, 8.5)])
def test_growth_is_the_rise_after_the_first_quarter(rise, least, most):
    watch = Watch(os.getpid())
    # The first quarter rises much; then there is noise, and perhaps a slow rise.
    watch.samples = [
        Sample(at, 100 + min(at, 25) * 4 + at % 3 + at * rise, 20 + min(at, 25) + round(at * rise)) for at in range(100)
    ]
    memory, count = watch.growth()
    assert least < memory < most
    assert least < count < most


def test_a_leaked_descriptor_is_counted(store):
    before = descriptors(store)
    with open("/dev/null"):
        leaked = descriptors(store) - before
    assert leaked == {"file": 1}
