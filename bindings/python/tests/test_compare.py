"""The measurements (`python -m compare`) at a tiny size, and whether they would see wrong bytes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compare.content import PIECE, block, content
from compare.jobs import JOBS, OUT, Wrong, check_large, write_large
from harness.command import clean_env

PYTHON = Path(__file__).resolve().parents[1]
SCALE = 0.0005


def test_every_job_is_measured_and_its_bytes_are_right():
    done = subprocess.run(
        [sys.executable, "-m", "compare", "--json", "--scale", str(SCALE), "--libraries", "tidegate"],
        cwd=PYTHON,
        env=clean_env(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [run["job"] for run in runs] == list(JOBS)
    assert all(run["seconds"] > 0 and run["peak_mib"] >= run["base_mib"] > 5 for run in runs)


def test_ranges_of_the_content_are_those_of_its_pieces():
    whole = block(0, PIECE) + block(1, PIECE) + block(2, PIECE)
    for start, end in [(0, PIECE), (10, 20), (PIECE - 1, PIECE + 1), (5, 3 * PIECE - 5)]:
        assert content(start, end) == whole[start:end]


def changed(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def swapped(path, _):
    data = path.read_bytes()
    path.write_bytes(data[PIECE : 2 * PIECE] + data[:PIECE] + data[2 * PIECE :])


def cut(path, at):
    path.write_bytes(path.read_bytes()[:at])


@pytest.mark.parametrize("spoil", [changed, swapped, cut])
def test_a_large_object_with_wrong_bytes_is_found(tmp_path, spoil):
    write_large(tmp_path / "object", 3 * PIECE)
    check_large(tmp_path / "object", 3 * PIECE)
    spoil(tmp_path / "object", 2 * PIECE + 5)
    with pytest.raises(Wrong):
        check_large(tmp_path / "object", 3 * PIECE)


@pytest.mark.parametrize("spoil", ["changed", "missing", "too many"])
def test_small_objects_that_are_wrong_are_found(tmp_path, spoil):
    job = JOBS["put-4k"](SCALE)
    (tmp_path / OUT).mkdir()
    for key, data in job.objects():
        (tmp_path / key).write_bytes(data)
    job.check(tmp_path, tmp_path)
    match spoil:
        case "changed":
            changed(tmp_path / OUT / "00003", 2000)
        case "missing":
            (tmp_path / OUT / "00003").unlink()
        case "too many":
            (tmp_path / OUT / "more").touch()
    with pytest.raises(Wrong):
        job.check(tmp_path, tmp_path)
