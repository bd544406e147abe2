"""`--bandwidth`: one limit of bytes a second for all transfers of a command, in both directions together."""

import time

import pytest

from harness import MIB

MB = 1_000_000
QUIET = ("--progress", "never")


def timed(tidegate, *arguments, **options):
    began = time.monotonic()
    run = tidegate(*arguments, **options)
    assert run.exit == 0, run
    return run, time.monotonic() - began


def is_about_two_seconds(took):
    return 1.8 <= took <= 2.6


@pytest.mark.alone
def test_an_upload_and_a_download_keep_to_the_limit(tidegate, bucket, make_file, tmp_path):
    path, digest = make_file(10 * MB)
    limit = ("--bandwidth", "5MB/s", *QUIET)
    _, took = timed(tidegate, "cp", path, bucket.url("k"), *limit, env=bucket.env)
    assert is_about_two_seconds(took), took
    assert bucket.sha256("k") == digest
    _, took = timed(tidegate, "cp", bucket.url("k"), tmp_path / "down", *limit, env=bucket.env)
    assert is_about_two_seconds(took), took
    assert (tmp_path / "down").read_bytes() == path.read_bytes()
    run, took = timed(tidegate, "cat", bucket.url("k"), "--bandwidth", "20MB/s", env=bucket.env)
    assert took >= 0.4, took
    assert run.stdout == path.read_bytes()


@pytest.mark.alone
def test_a_tree_of_small_objects_keeps_to_the_limit(tidegate, bucket, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(200):
        (tree / f"{number}").write_bytes(bytes([number]) * 25_000)
    limit = ("--bandwidth", "2.5MB/s", *QUIET)
    _, took = timed(tidegate, "cp", "-r", tree, bucket.url("tree/"), *limit, env=bucket.env)
    assert is_about_two_seconds(took), took
    _, took = timed(tidegate, "cp", "-r", bucket.url("tree/"), tmp_path / "down", *limit, env=bucket.env)
    assert is_about_two_seconds(took), took
    assert sum(1 for _ in (tmp_path / "down").rglob("*") if _.is_file()) == 200


@pytest.mark.alone
def test_both_directions_are_added_up(tidegate, bucket, embedded_bucket, make_file):
    """A copy between two servers reads each byte and writes it."""
    path, digest = make_file(5 * MB)
    timed(tidegate, "cp", path, bucket.url("from"), *QUIET, env=bucket.env)
    E
