"""`cp` of several sources, and its `--if-absent` and `--dry-run`."""

import threading

import pytest

from harness import MIB
from harness.lines import one_sentence
from harness.process import until
from trees import Folder, Prefix, below, lines, plant, stored


@pytest.fixture
def mixed(embedded_bucket, tmp_path):
    """Objects and files, as the words that name them; and what they hold."""
    on, root = embedded_bucket, plant(tmp_path / "t", {"f": b"file", "tree/a": b"1", "tree/b/c": b"2"})
    for key, body in {"s/o": b"object", "s/p/x": b"3", "s/p/y/z": b"4"}.items():
        on.put(key, body)
    return [root / "f", root / "tree", on.url("s/o*"), on.url("s/p/")], {
        "f": b"file",
        "tree/a": b"1",
        "tree/b/c": b"2",
        "o": b"object",
        "x": b"3",
        "y/z": b"4",
    }


@pytest.fixture(params=["store", "disk", "google"])
def target(request, embedded_bucket, tmp_path):
    if request.param == "disk":
        return Folder(tmp_path / "d")
    place = Prefix(embedded_bucket, "d/")
    if request.param == "google":
        place.url = lambda key="": f"gs://{embedded_bucket.name}/d/{key}"
    return place


def test_files_objects_and_trees_go_to_one_place(tidegate, mixed, target, embedded_bucket):
    words, files = mixed
    env = embedded_bucket.env | {"STORAGE_EMULATOR_HOST": embedded_bucket.endpoint.url}
    planned = tidegate("cp", "-r", "--dry-run", *words, target.url(), env=env)
    assert planned.exit == 0 and target.held() == {}, planned
    run = tidegate("cp", "-r", "-v", *words, target.url(), env=env)
    assert run.exit == 0 and target.held() == files, run
    assert lines(run) == lines(planned) and "4 sources" in run.err, run
    again = tidegate("cp", "-r", "-v", "--if-absent", *words, target.url(), env=env)
    assert again.exit == 0 and all(line.startswith("skip ") for line in lines(again)), again
    assert len(lines(again)) == len(files)


def test_targets_of_several_sources(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"1", "b": b"2"})
    (tmp_path / "link").symlink_to(root)
    sources = [root / "a", root / "b"]
    for target in (on.url("x"), root / "a", tmp_path / "none", "dev://demo/x", "/dev/null"):
        one_sentence(tidegate("cp", *sources, target, env=on.env, cwd=tmp_path), target, "slash", exit=2)
    one_sentence(tidegate("cp", *sources, "-", env=on.env), "standard output", exit=2)
    one_sentence(tidegate("cp", "-", *sources, on.url("x/"), env=on.env, stdin=b""), "standard input", exit=2)
    assert on.keys() == [] and below(root) == {"a": b"1", "b": b"2"}
    for target in (on.url("x/"), on.url().rstrip("/"), on.url(), f"{tmp_path}/new/"):
        run = tidegate("cp", *sources, target, env=on.env)
        assert run.exit == 0, run
    assert on.keys() == ["a", "b", "x/a", "x/b"] and below(tmp_path / "new") == {"a": b"1", "b": b"2"}
    on.put("c", b"3")
    run = tidegate("cp", on.url("c"), tmp_path / "new/a", tmp_path / "link", env=on.env)
    assert run.exit == 0 and below(root) == {"a": b"1", "b": b"2", "c": b"3"}, run


def test_a_source_that_fails_does_not_stop_the_others(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"1", "b": b"2", "d/c": b""})
    run = tidegate("cp", root / "a", root / "none", on.url("none"), root / "b", on.url("x/"), env=on.env)
    assert run.exit == 1 and stored(on, "x/") == {"a": b"1", "b": b"2"}, run
    assert "2 of 4 objects" in run.err and run.err.count("error:") == 3, run
    run = tidegate("cp", root / "a", root / "d", on.url("y/"), env=on.env)
    assert run.exit == 2 and "add -r" in run.err and not on.keys("y/"), run
    run = tidegate("cp", root / "a", root / "b", "s3://no-such-bucket-here/", env=on.env)
    assert run.exit in (1, 3) and "no-such-bucket-here" in run.err, run


@pytest.mark.parametrize("size", [10, 6 * MIB])
@pytest.mark.parametrize("kind", ["upload", "download", "copy"])
def test_if_absent_never_replaces_what_comes_meanwhile(
    tidegate, embedded, embedded_bucket, knobs, tmp_path, kind, size
):
    """The target appears after the look at it: the store's own condition, or the disk's, keeps it."""
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"o" * size})
    on.put("s/a", b"o" * size)
    (tmp_path / "d").mkdir()
    words = {
        "upload": [root / "a", on.url("d/a")],
        "download": [on.url("s/a"), tmp_path / "d/a"],
        "copy": [on.url("s/a"), on.url("d/a")],
    }[kind]
    operations = ("PutObject", "GetObject", "CopyObject", "CompleteMultipartUpload")
    knobs(faults=[{"operation": name, "action": {"delay_ms": 1500}} for name in operations])
    embedded.control("DELETE", "counts")
    run = tidegate.start("cp", "--if-absent", "-v", "--part-size", "5MiB", *words, env=on.env)
    asked = lambda: embedded.control("GET", "counts")["requests"].keys() & {*operations, "CreateMultipartUpload"}
    until("the copy is under way", asked)
    if kind == "download":
        (tmp_path / "d/a").write_bytes(b"theirs")
    else:
        # Not by boto3, whose upload would wait as well.
        embedded.control("POST", "objects", {"bucket": on.name, "keys": ["d/a"]})
    result = run.wait()
    knobs()
    assert (tmp_path / "d/a").read_bytes() == b"theirs" if kind == "download" else on.get("d/a") == b""
    assert result.exit == 0 and result.text.startswith("skip "), result
    assert on.sessions("d/a") == []


def test_two_copies_at_once_replace_nothing(tidegate, on, tmp_path):
    """Each object is whole, and from one of the two; every other is skipped."""
    roots = [plant(tmp_path / name, {f"{n}": name.encode() * 1000 for n in range(20)}) for name in ("x", "y")]
    runs = []
    copy = lambda root: runs.append(tidegate("cp", "-r", "--if-absent", "-v", f"{root}/", on.url("t"), env=on.env))
    threads = [threading.Thread(target=copy, args=(root,)) for root in roots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [run.exit for run in runs] == [0, 0], [str(run) for run in runs]
    said = [line.split()[0] for run in runs for line in lines(run)]
    assert sorted(said) == ["copy"] * 20 + ["skip"] * 20, [str(run) for run in runs]
    assert set(stored(on, "t/").values()) <= {b"x" * 1000, b"y" * 1000} and len(on.keys()) == 20


def test_if_absent_in_a_tree_copies_what_is_missing(tidegate, on, tmp_path):
    files = {"a": b"1", "b/c": b"2", "d": b"3"}
    root = plant(tmp_path / "t", files)
    on.put("t/b/c", b"theirs")
    dry = tidegate("cp", "-r", "--if-absent", "--dry-run", f"{root}/", on.url("t"), env=on.env)
    run = tidegate("cp", "-r", "--if-absent", "-v", f"{root}/", on.url("t"), env=on.env)
    assert run.exit == 0 and lines(run) == lines(dry) and stored(on, "t/") == files | {"b/c": b"theirs"}, run
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").write_bytes(b"ours")
    (tmp_path / "d/d").symlink_to("nowhere")
    run = tidegate("cp", "-r", "--if-absent", "-v", on.url("t/"), tmp_path / "d", env=on.env)
    assert run.exit == 0 and below(tmp_path / "d") == {"a": b"ours", "b/c": b"theirs"}, run
    quiet = tidegate("cp", "-r", "--if-absent", "--quiet", on.url("t/"), tmp_path / "d", env=on.env)
    assert (quiet.exit, quiet.out, quiet.err) == (0, b"", ""), quiet
    assert tidegate("cp", "--if-absent", "--create-only", root / "a", on.url("x"), env=on.env).exit == 2


def test_a_dry_run_changes_nothing_and_finds_what_is_missing(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"1"})
    on.put("s/a", b"12")
    for source, target, line in [
        (root / "a", on.url("x"), f"copy {root}/a -> {on.url('x')} (1 byte)"),
        (root / "a", f"{tmp_path}/new/", f"copy {root}/a -> {tmp_path}/new/a (1 byte)"),
        (on.url("s/a"), tmp_path / "new", f"copy {on.url('s/a')} -> {tmp_path}/new (2 bytes)"),
        (on.url("s/a"), on.url("y/"), f"copy {on.url('s/a')} -> {on.url('y/a')} (2 bytes)"),
        ("-", on.url("x"), f"copy - -> {on.url('x')}"),
    ]:
        run = tidegate("cp", "--dry-run", source, target, env=on.env, stdin=b"")
        assert (run.exit, run.text) == (0, f"{line}\n"), run
    for source in (root / "none", on.url("none")):
        one_sentence(tidegate("cp", "--dry-run", source, on.url("x"), env=on.env), "none", exit=3)
    assert on.keys() == ["s/a"] and not (tmp_path / "new").exists() and below(root) == {"a": b"1"}


def test_a_dry_run_of_create_only_finds_what_is_there(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"1"})
    on.put("x", b"theirs")
    run = tidegate("cp", "--dry-run", "--create-only", root / "a", on.url("x"), env=on.env)
    assert run.exit == 1 and "exist" in run.err, run
