"""`du`: how many objects and bytes there are."""

import pytest

from harness.lines import one_sentence


@pytest.fixture
def filled(on):
    for key, size in {"t/a": 10, "t/b/c": 2048, "t2": 1, "u/d": 3}.items():
        on.put(key, b"x" * size)
    return on


def columns(run):
    """Size, count and URL of each line."""
    assert run.exit == 0 and run.err == "", run
    lines = [line.split() for line in run.text.splitlines()]
    assert all(line[2] in ("object", "objects") for line in lines), run
    return [(int(line[0]), int(line[1]), line[3]) for line in lines]


def test_what_is_below_is_counted(tidegate, filled):
    bucket = filled.url().rstrip("/")
    assert columns(tidegate("du", bucket, env=filled.env)) == [(2062, 4, bucket)]
    # As everywhere, a prefix is a place: t2 is not below it.
    for url in (filled.url("t"), filled.url("t/")):
        assert columns(tidegate("du", url, env=filled.env)) == [(2058, 2, url)]
    assert columns(tidegate("du", filled.url("t2"), env=filled.env)) == [(1, 1, filled.url("t2"))]


def test_several_places_have_a_total(tidegate, filled):
    urls = [filled.url("t"), filled.url("u/")]
    run = tidegate("du", *urls, env=filled.env)
    assert columns(run) == [(2058, 2, urls[0]), (3, 1, urls[1]), (2061, 3, "total")]
    run = tidegate("du", *urls, "--json", env=filled.env)
    assert run.json == [
        {"type": "usage", "url": urls[0], "objects": 2, "bytes": 2058},
        {"type": "usage", "url": urls[1], "objects": 1, "bytes": 3},
        {"type": "total", "objects": 3, "bytes": 2061},
    ]


@pytest.mark.parametrize("option", ["-H", "--human"])
def test_sizes_for_people(tidegate, filled, option):
    run = tidegate("du", filled.url("t"), option, env=filled.env)
    assert run.exit == 0 and run.text.split() == ["2.0", "KiB", "2", "objects", filled.url("t")], run


def test_more_than_one_page_is_counted(tidegate, any_bucket, put_many):
    put_many(any_bucket, "n/", 1005, b"12")
    assert columns(tidegate("du", any_bucket.url("n/"), env=any_bucket.env)) == [(2010, 1005, any_bucket.url("n/"))]


def test_google_and_this_machine(tidegate, google_bucket, tmp_path):
    google_bucket.put("t/a", b"12345")
    run = tidegate("du", google_bucket.url("t"), *google_bucket.options, env=google_bucket.env)
    assert columns(run) == [(5, 1, google_bucket.url("t"))]
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"123")
    assert columns(tidegate("du", tmp_path)) == [(3, 1, str(tmp_path))]
    assert columns(tidegate("du", tmp_path / "below" / "file")) == [(3, 1, str(tmp_path / "below" / "file"))]


def test_nothing_there(tidegate, bucket, tmp_path):
    assert columns(tidegate("du", bucket.url(), env=bucket.env)) == [(0, 0, bucket.url().rstrip("/"))]
    one_sentence(tidegate("du", bucket.url("missing"), env=bucket.env), bucket.url("missing"), exit=3)
    one_sentence(tidegate("du", bucket.url("missing/"), env=bucket.env), bucket.url("missing/"), exit=3)
    one_sentence(tidegate("du", tmp_path / "missing"), tmp_path / "missing", exit=3)
    one_sentence(tidegate("du", "s3://no-such-bucket-here", env=bucket.env), "no-such-bucket-here", exit=3)


def test_a_failure_hides_no_other_place_and_no_total_is_too_small(tidegate, bucket):
    bucket.put("t/a", b"12")
    urls = [bucket.url("missing"), bucket.url("t"), bucket.url("gone")]
    run = tidegate("du", *urls, env=bucket.env)
    assert run.exit == 1 and run.text.split() == ["2", "1", "object", bucket.url("t")], run
    errors = run.err.splitlines()
    assert len(errors) == 3 and "missing" in errors[0] and "gone" in errors[1], run
    assert "2 of 3 places could not be measured" in errors[2], run
    assert tidegate("du", bucket.url("missing"), bucket.url("gone"), env=bucket.env).exit == 3
    assert tidegate("du", bucket.url("missing"), "s3://UPPER/x y", env=bucket.env).exit != 0
