"""`--bandwidth`: one limit of bytes a second for all transfers of a command, in both directions together."""

import subprocess

import pytest

from harness import MIB

MB = 1_000_000

# They compare times.
pytestmark = pytest.mark.alone


@pytest.fixture
def limited(tidegate):
    """`limited(rate, …)` runs a command with that limit."""

    def run(rate, *arguments, **options):
        run = tidegate(*arguments, "--bandwidth", rate, **options)
        assert run.exit == 0, run
        return run

    return run


def took(run, seconds):
    """A start and an end of the program take some time, and a timer may be late."""
    return 0.9 * seconds <= run.seconds <= 1.3 * seconds


def test_an_upload_and_a_download_keep_to_the_limit(limited, bucket, make_file, tmp_path):
    path, digest = make_file(10 * MB)
    run = limited("5MB/s", "cp", path, bucket.url("k"), env=bucket.env)
    assert took(run, 2), run.seconds
    assert bucket.sha256("k") == digest
    run = limited("5MB/s", "cp", bucket.url("k"), tmp_path / "down", env=bucket.env)
    assert took(run, 2), run.seconds
    assert (tmp_path / "down").read_bytes() == path.read_bytes()


def test_pipes_keep_to_the_limit(limited, bucket, make_file):
    path, digest = make_file(10 * MB)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as source:
        run = limited("10MB/s", "cp", "-", bucket.url("k"), stdin=source.stdout, env=bucket.env)
    assert took(run, 1), run.seconds
    assert bucket.sha256("k") == digest
    run = limited("10MB/s", "cat", bucket.url("k"), env=bucket.env)
    assert took(run, 1), run.seconds
    assert run.out == path.read_bytes()


def test_a_tree_of_small_objects_keeps_to_the_limit(limited, bucket, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(200):
        (tree / f"{number}").write_bytes(bytes([number]) * 25_000)
    run = limited("2.5MB/s", "cp", "-r", tree, bucket.url("tree/"), env=bucket.env)
    assert took(run, 2), run.seconds
    run = limited("5MB/s", "cp", "-r", bucket.url("tree/"), tmp_path / "down", env=bucket.env)
    assert took(run, 1), run.seconds
    down = [path for path in (tmp_path / "down").rglob("*") if path.is_file()]
    assert len(down) == 200
    assert all(path.stat().st_size == 25_000 for path in down)


def test_both_directions_are_added_up(limited, bucket, google_bucket, make_file):
    """A copy between two stores reads each byte and writes it."""
    path, digest = make_file(10 * MB)
    bucket.put("k", path.read_bytes())
    env = {**bucket.env, **google_bucket.env}
    run = limited("20MB/s", "cp", bucket.url("k"), google_bucket.url("k"), *google_bucket.options, env=env)
    assert took(run, 1), run.seconds
    assert google_bucket.sha256("k") == digest


def test_at_a_low_rate_no_part_is_sent_twice(limited, bucket, make_file):
    path, digest = make_file(7 * MIB)
    run = limited("3MB/s", "cp", path, bucket.url("k"), "--part-size", "5MiB", "--json", env=bucket.env)
    assert took(run, 7 * MIB / 3 / MB), run.seconds
    [said] = run.json
    assert (said["parts"], said["retries"], said["hedges"]) == (2, 0, 0)
    assert bucket.sha256("k") == digest
