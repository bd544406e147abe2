"""`cp -r` and `rm -r`: what can be done is done, each failure is one line, the last line has the sum. Links and other
files of a directory are in test_upload.py."""

import os

import pytest

QUIET = ("--progress", "never")
ARCHIVED = {"error": {"status": 403, "code": "InvalidObjectState"}}
LOCKED = {"error": {"status": 403, "code": "AccessDenied"}}
BROKEN = {"error": {"status": 500, "code": "InternalError"}}


def fails(operation, prefix, action):
    return {"operation": operation, "key_prefix": prefix, "action": action}


@pytest.fixture
def on(embedded_bucket):
    """20 objects that come first, and 30 after them."""
    for number in range(20):
        embedded_bucket.put(f"t/a{number:02}", b"old")
    for number in range(30):
        embedded_bucket.put(f"t/b{number:02}", b"new")
    return embedded_bucket


def errors(run):
    return [line for line in run.err.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize("action", [ARCHIVED, LOCKED, BROKEN, {"reset_response": {"after_bytes": 0}}], ids=str)
def test_a_download_goes_on_after_many_that_fail(tidegate, on, knobs, tmp_path, action):
    knobs(faults=[fails("GetObject", "t/a", action)])
    run = tidegate("cp", "-r", on.url("t/"), f"{tmp_path}/out/", "--attempts", "1", env=on.env)
    assert run.exit == 1, run
    assert sorted(os.listdir(tmp_path / "out")) == [f"b{number:02}" for number in range(30)], run
    assert len(errors(run)) == 21 and "20 of 50 objects could not be copied" in errors(run)[-1], run
    assert "30 of 50 objects" in run.err, run


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_directory_over_a_tree_that_is_there_in_part(tidegate, on, tmp_path, first):
    """The order in which targets exist makes no difference."""
    names = [f"{letter}{number:02}" for letter in "ab" for number in range(40)]
    for name in names:
        (tmp_path / name).write_bytes(b"theirs")
        if name.startswith(first):
            on.put(f"up/{name}", b"kept")
    run = tidegate("cp", "-r", "--create-only", f"{tmp_path}/", on.url("up/"), env=on.env)
    assert run.exit == 1 and len(errors(run)) == 41, run
    for name in names:
        assert on.get(f"up/{name}") == (b"kept" if name.startswith(first) else b"theirs")


def test_keys_that_are_no_paths_fail_alone(tidegate, on, tmp_path):
    for key in ("t//lead", "t/x/../y", "t/./z"):
        on.put(key, b"x")
    on.put("t/folder/", b"")
    on.put("t/full/", b"bytes")
    run = tidegate("cp", "-r", on.url("t/"), f"{tmp_path}/out/", *QUIET, env=on.env)
    assert run.exit == 1 and len(os.listdir(tmp_path / "out")) == 50, run
    assert len(errors(run)) == 5 and "4 of 54 objects" in errors(run)[-1], run
    assert f"left out: {on.url('t/folder/')}" in run.err and on.url("t/full/") in run.err, run


def test_keys_that_end_with_a_slash_are_objects_of_a_store(tidegate, on):
    on.put("t/folder/", b"")
    on.put("t/full/", b"bytes")
    run = tidegate("cp", "-r", on.url("t/"), on.url("u/"), *QUIET, env=on.env)
    assert run.exit == 0 and len(on.keys("u/")) == 52 and on.get("u/full/") == b"bytes", run
    assert tidegate("cat", on.url("u/full/"), env=on.env).out == b"bytes"
    assert tidegate("stat", on.url("u/folder/"), env=on.env).exit == 0
    assert tidegate("rm", on.url("u/folder/"), env=on.env).exit == 0
    assert len(on.keys("u/")) == 51


def test_a_bucket_that_is_missing_ends_it_and_is_named_once(tidegate, on, tmp_path):
    for number in range(400):
        (tmp_path / f"{number}").write_bytes(b"x")
    run = tidegate("cp", "-r", f"{tmp_path}/", "s3://no-such-bucket-here/", *QUIET, env=on.env)
    assert run.exit == 3 and "no-such-bucket-here" in run.err and len(errors(run)) <= 10, run


def test_rm_goes_on_after_a_failure(tidegate, on, knobs):
    one_by_one = {"operation": "DeleteObjects", "action": {"error": {"status": 501, "code": "NotImplemented"}}}
    knobs(faults=[one_by_one, fails("DeleteObject", "t/a0", LOCKED)])
    run = tidegate("rm", "-r", on.url("t/"), env=on.env, timeout=120)
    assert run.exit == 1, run
    assert on.keys("t/") == [f"t/a{number:02}" for number in range(10)]
    assert len(errors(run)) == 11 and "removed 40 of 50 objects" in errors(run)[-1], run


def test_rm_goes_on_after_a_key_that_no_request_can_say(tidegate, on):
    on.put("t/x/../y", b"x")
    run = tidegate("rm", "-r", on.url("t/"), env=on.env)
    assert run.exit == 1 and on.keys() == ["t/x/../y"] and "removed 50 of 51 objects" in run.err, run


def test_rm_goes_on_with_the_next_tree(tidegate, on, counts):
    run = tidegate("rm", "-r", on.url("nothing/"), on.url("t/"), env=on.env)
    assert run.exit == 1 and on.keys() == [] and "removed 50 objects" in run.err, run
    asked = counts()
    # Keys that are ready together go together; how many that are depends on how the tasks are scheduled.
    assert asked["DeleteObjects"] + asked.get("DeleteObject", 0) <= 10, asked


def test_a_dry_run_prints_what_a_real_one_removes(tidegate, on, tmp_path):
    dry = tidegate("rm", "-r", "--dry-run", on.url("t/a"), on.url("t/"), env=on.env)
    assert dry.exit == 1, dry  # nothing is below t/a/
    dry = tidegate("rm", "-r", "--dry-run", on.url("t/"), env=on.env)
    assert dry.exit == 0 and dry.text.splitlines() == [f"remove {on.url(key)}" for key in on.keys()], dry
    one = tidegate("rm", "--dry-run", on.url("t/a00"), env=on.env)
    assert (one.exit, one.text) == (0, f"remove {on.url('t/a00')}\n"), one
    assert len(on.keys()) == 50
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_bytes(b"x")
    dry = tidegate("rm", "-r", "--dry-run", tmp_path / "d")
    assert (dry.exit, dry.text) == (0, f"remove {tmp_path}/d/f\n"), dry
    assert (tmp_path / "d/f").exists()


def test_rm_removes_a_link_and_not_where_it_leads(tidegate, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/f").write_bytes(b"x")
    for command in (["rm"], ["rm", "-r"]):
        for target in ("kept", "kept/f", "nowhere"):
            os.symlink(target, tmp_path / "link")
            run = tidegate(*command, tmp_path / "link")
            assert run.exit == 0 and not os.path.lexists(tmp_path / "link"), run
    assert (tmp_path / "kept/f").exists()
