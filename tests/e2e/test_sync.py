"""`sync` and `check`: what is new or changed is copied, what the source lacks is removed only when everything else went
well, and an unchanged tree costs its listings."""

import datetime
import json
import os
import random
import shutil
import subprocess

import pytest

from harness.s3 import Bucket
from test_gcs import Google
from trees import Folder, places, profiles, two_addresses

QUIET = ("--progress", "never")
LOCKED = {"error": {"status": 403, "code": "AccessDenied"}}
DENIED = {"error": {"status": 403, "code": "AccessDenied"}}
BROKEN = {"error": {"status": 500, "code": "InternalError"}}
OLD, NEW = 1_000_000_000, 4_000_000_000  # 2001 and 2096


@pytest.fixture
def tree(tmp_path):
    """`tree({path: bytes})` makes a directory of old files."""

    def make(files, name="tree", time=OLD):
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
            os.utime(root / path, (time, time))
        return root

    return make


def below(root):
    """The files below a directory, with their bytes."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def stored(bucket, prefix=""):
    return {key.removeprefix(prefix): bucket.get(key) for key in bucket.keys(prefix)}


FILES = {"a-b": b"1", "a/b": b"22", "a/c/d": b"333", "é": b"4", "z": b""}


def test_a_tree_goes_up_and_comes_down(tidegate, on, tree, tmp_path):
    root = tree(FILES)
    run = tidegate("sync", root, on.url("t"), env=on.env)
    assert run.exit == 0 and "5 objects" in run.err and "0 objects unchanged" in run.err, run
    assert stored(on, "t/") == FILES
    run = tidegate("sync", on.url("t/"), tmp_path / "down", env=on.env)
    assert run.exit == 0 and below(tmp_path / "down") == FILES, run
    for way in [(root, on.url("t")), (on.url("t"), tmp_path / "down"), (root, tmp_path / "down")]:
        run = tidegate("sync", "--delete", *way, env=on.env)
        assert run.exit == 0 and run.err == "5 objects unchanged, 0 removed\n", run
        run = tidegate("check", *way, env=on.env)
        assert (run.exit, run.out) == (0, b"") and "no difference" in run.err, run
    run = tidegate("sync", on.url("t"), on.url("u"), env=on.env)
    assert run.exit == 0 and stored(on, "u/") == FILES, run


def test_an_unchanged_tree_costs_its_listings(tidegate, embedded_bucket, counts, tree, tmp_path):
    on, root = embedded_bucket, tree(FILES)
    for way in [(root, on.url("t")), (on.url("t"), tmp_path / "down")]:
        assert tidegate("sync", *way, env=on.env).exit == 0
        before = counts()
        assert tidegate("sync", "--delete", *way, env=on.env).exit == 0
        after = counts()
        assert {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)} == {
            "ListObjectsV2": 1
        }


def test_downloaded_files_are_as_old_as_their_objects(tidegate, on, make_file, tmp_path):
    large, _ = make_file(3 << 20)
    on.put("t/large", large.read_bytes())
    on.put("t/small", b"x")
    assert tidegate("sync", on.url("t"), tmp_path / "down", env=on.env).exit == 0
    listed = tidegate("ls", "-r", "--json", on.url("t/"), env=on.env)
    for line in listed.text.splitlines():
        entry = json.loads(line)
        seconds = int((tmp_path / "down" / entry["url"].rsplit("/")[-1]).stat().st_mtime)
        assert entry["modified"].startswith(utc(seconds)), (entry, seconds)


def utc(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize(
    ("options", "copied"),
    [([], {"larger", "newer"}), (["--size-only"], {"larger"}), (["--checksum"], {"larger", "changed"})],
)
def test_what_counts_as_changed(tidegate, on, tree, options, copied):
    root = tree({"same": b"1", "larger": b"1", "newer": b"1", "changed": b"1"})
    assert tidegate("sync", root, on.url("t"), *QUIET, env=on.env).exit == 0
    tree({"newer": b"1"}, time=NEW)
    tree({"larger": b"22", "changed": b"2"}, time=OLD)
    dry = tidegate("sync", "--dry-run", "--json", *options, root, on.url("t"), env=on.env)
    planned = [json.loads(line) for line in dry.text.splitlines()]
    assert {line["target"].removeprefix(on.url("t/")) for line in planned} == copied, dry
    assert {line["type"] for line in planned} == {"copy"} and all(line["dry_run"] for line in planned)
    check = tidegate("check", *options, root, on.url("t"), env=on.env)
    assert check.exit == 1 and {line.split()[1] for line in check.text.splitlines()} == copied, check
    run = tidegate("sync", *options, "--json", root, on.url("t"), env=on.env)
    assert {json.loads(line)["target"].removeprefix(on.url("t/")) for line in run.text.splitlines()} == copied, run
    assert on.get("t/larger") == b"22" and on.get("t/changed") == (b"2" if "changed" in copied else b"1")


# Of the digits 1 to 9; versitygw computes each itself, and refuses another.
OTHER_CHECKSUMS = {
    "SHA256": "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
    "SHA512": "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ==",
    "XXHASH3": "ctyxi2ehff8=",
    "XXHASH64": "jLhB20DmroM=",
    "XXHASH128": "MxGUd+3l3NXpcWQnaB1YYA==",
}


@pytest.mark.parametrize("algorithm", OTHER_CHECKSUMS)
def test_checksums_that_other_programs_have_sent_are_compared(tidegate, versitygw, tmp_path, algorithm):
    bucket = Bucket(versitygw.endpoint)
    bucket.put("t/k", b"123456789", **{f"Checksum{algorithm}": OTHER_CHECKSUMS[algorithm]})
    root = tmp_path / "tree"
    root.mkdir()
    # A different MD5 alone would prove nothing.
    for content, said in [(b"123456789", ""), (b"12345678X", "checksum k")]:
        (root / "k").write_bytes(content)
        run = tidegate("check", "--checksum", root, bucket.url("t"), env=bucket.env)
        assert run.exit == (1 if said else 0) and " ".join(run.text.split()) == said, run


@pytest.mark.parametrize("over", ["http", "grpc"])
def test_google_lists_the_checksums(tidegate, embedded, embedded_bucket, counts, tree, over):
    google = Google(embedded, embedded_bucket, over)
    root = tree(FILES)
    args = ["--gcs-transport", over] if over == "grpc" else []
    assert tidegate("sync", *args, root, google.at("t"), env=google.env).exit == 0
    assert stored(embedded_bucket, "t/") == FILES
    before = counts()
    run = tidegate("sync", *args, "--checksum", root, google.at("t"), env=google.env)
    assert run.exit == 0 and run.err == "5 objects unchanged\n", run
    asked = {name for name, number in counts().items() if number != before.get(name, 0)}
    assert len(asked) == 1 and "list" in asked.pop().lower()


def test_what_the_source_lacks_is_removed_at_the_end(tidegate, on, tree, tmp_path):
    root = tree({"a": b"1", "b/c": b"2"})
    for key in ("t/a", "t/old", "t/b/old", "t-other", "u"):
        on.put(key, b"x")
    assert tidegate("sync", root, on.url("t"), env=on.env).exit == 0
    assert len(on.keys()) == 6, "nothing is removed unless asked for"
    dry = tidegate("sync", "--delete", "--dry-run", root, on.url("t"), env=on.env)
    assert dry.exit == 0 and dry.text.splitlines() == [f"remove {on.url(f't/{key}')}" for key in ("b/old", "old")], dry
    few = tidegate("sync", "--delete", "--max-delete", "1", root, on.url("t"), env=on.env)
    assert few.exit == 1 and "2 objects would be removed, and --max-delete is 1" in few.err, few
    assert len(on.keys()) == 6
    run = tidegate("sync", "--delete", "--max-delete", "2", root, on.url("t"), env=on.env)
    assert run.exit == 0 and "2 removed" in run.err, run
    assert on.keys() == ["t-other", "t/a", "t/b/c", "u"]
    down = tree({"a": b"1", "old/er": b"x"}, name="down")
    run = tidegate("sync", "--delete", on.url("t"), down, env=on.env)
    assert run.exit == 0 and set(below(down)) == {"a", "b/c"}, run


def replaced_within_a_second(bucket, key, content):
    """Replaces an object by one of the same size within the second of its time, and says whether that was done."""
    before = bucket.head(key)["LastModified"]
    bucket.put(key, content)
    return bucket.head(key)["LastModified"] == before


@pytest.mark.parametrize("target", ["store", "disk"])
def test_an_object_that_is_replaced_within_a_second_is_copied(tidegate, on, tmp_path, target):
    """The same size, and the same second: tags, fractions of a second and checksums tell."""
    to = on.url("u") if target == "store" else tmp_path / "down"
    for _ in range(10):
        on.put("t/k", b"+3 hours")
        first = tidegate("sync", on.url("t"), to, env=on.env)
        assert first.exit == 0, first
        replaced_at_once = replaced_within_a_second(on, "t/k", b"+2 hours")
        check = tidegate("check", on.url("t"), to, env=on.env)
        run = tidegate("sync", on.url("t"), to, env=on.env)
        got = on.get("u/k") if target == "store" else (tmp_path / "down/k").read_bytes()
        assert run.exit == 0 and got == b"+2 hours" and check.exit == 1, run
        again = tidegate("sync", on.url("t"), to, env=on.env)
        assert again.err == "1 object unchanged\n", again
        if replaced_at_once:
            return
    pytest.fail("no object was replaced within the second of its time")


def states(bits):
    """A tree in which each of four names is a file or a directory."""
    return {name if bit == "f" else f"{name}/x/y": bit.encode() for name, bit in zip("abcd", bits, strict=True)}


@pytest.mark.parametrize("target", ["embedded", "disk"])
@pytest.mark.parametrize("source", ["disk", "embedded"])
def test_a_file_becomes_a_directory_and_a_directory_a_file(tidegate, request, tmp_path, source, target):
    place = places(request, tmp_path)
    source, target = place(source), place(target)
    env = source.env | target.env
    roots = [place.root for place in (source, target) if isinstance(place, Folder)]

    def fill(files):
        if isinstance(source, Folder):
            shutil.rmtree(source.root)
        else:
            for key in source.keys():
                source.bucket.client.delete_object(Bucket=source.bucket.name, Key=source.prefix + key)
        for name, content in files.items():
            source.put(name, content)

    fill(states("ffdd") | {"old": b"1"})
    assert tidegate("sync", source.url(), target.url(), env=env).exit == 0
    wanted = states("dfdf") | {"new": b"1"}
    fill(wanted)
    sync = ("sync", "--delete", "-v", source.url(), target.url())
    few = tidegate(*sync, "--max-delete", "1", env=env)
    assert few.exit == 1 and "--max-delete is 1" in few.err and {"old", "a"} <= set(target.keys()), few
    without = tidegate("sync", source.url(), target.url(), env=env)
    assert {"old", "a", "d/x/y"} <= set(target.keys()), without
    assert without.exit == (1 if isinstance(target, Folder) else 0), without
    planned = tidegate(*sync, "--dry-run", env=env)
    run = tidegate(*sync, env=env)
    assert run.exit == planned.exit == 0 and target.held() == wanted, run
    assert "changed since" not in run.err and "3 removed" in run.err, run
    steps = lambda run: sorted(line.split(" (")[0] for line in run.text.splitlines())
    assert steps(planned) == steps(run), (planned, run)
    again = tidegate("sync", "--delete", source.url(), target.url(), env=env)
    assert again.exit == 0 and again.err == "5 objects unchanged, 0 removed\n", again
    for root in roots:
        assert not list(root.rglob(".tidegate-*"))


def test_what_is_no_object_is_not_removed_to_make_way(tidegate, embedded_bucket, tree, tmp_path):
    """A directory that holds a pipe, a link or what the filter leaves out stays, and so does everything else."""
    on = embedded_bucket
    on.put("t/a", b"file")
    on.put("t/b", b"file")
    for what in ("pipe", "link", "left out"):
        down = tree({"a/x": b"1", "extra": b"1"}, name=f"down-{what}")
        options = []
        if what == "pipe":
            os.mkfifo(down / "a/pipe")
        elif what == "link":
            (down / "a/link").symlink_to(tmp_path)
        else:
            (down / "a/kept").write_bytes(b"1")
            options = ["--exclude", "kept"]
        run = tidegate("sync", "--delete", *options, on.url("t"), down, env=on.env)
        assert run.exit == 1 and f"{down}/a" in run.err and "removed" in run.err, run
        assert (down / "a").is_dir() and (down / "extra").exists() and (down / "b").read_bytes() == b"file", run


def test_nothing_makes_way_after_a_failure(tidegate, embedded_bucket, knobs, tree):
    on, down = embedded_bucket, tree({"a": b"1", "extra": b"1"})
    on.put("t/a/x", b"file")
    on.put("t/b", b"file")
    knobs(faults=[{"operation": "GetObject", "key_prefix": "t/b", "action": LOCKED}])
    run = tidegate("sync", "--delete", on.url("t"), down, "--attempts", "1", env=on.env)
    assert run.exit == 1 and below(down) == {"a": b"1", "extra": b"1"}, run
    assert "1 object not copied" in run.err and "nothing removed" in run.err, run
    knobs(faults=[])
    run = tidegate("sync", "--delete", on.url("t"), down, env=on.env)
    assert run.exit == 0 and below(down) == {"a/x": b"file", "b": b"file"}, run


def test_a_link_becomes_a_file_or_a_directory_and_the_other_way_round(tidegate, embedded_bucket, tree, tmp_path):
    on, down = embedded_bucket, tree({"file": b"1", "directory/x": b"1", "kept": b"1"}, name="down")
    (down / "to-file").symlink_to("kept")
    (down / "to-directory").symlink_to("/")
    new = {"file.rclonelink": b"kept", "directory.rclonelink": b"/", "kept": b"1", "to-file": b"22"}
    for key, content in (new | {"to-directory/x": b"3"}).items():
        on.put(f"t/{key}", content)
    sync = ("sync", "--delete", "--links", "preserve", on.url("t"), down)
    run = tidegate(*sync, env=on.env)
    assert run.exit == 0 and "changed since" not in run.err, run
    assert (os.readlink(down / "file"), os.readlink(down / "directory")) == ("kept", "/"), run
    assert (down / "to-file").read_bytes() == b"22" and not (down / "to-file").is_symlink()
    assert (down / "to-directory/x").read_bytes() == b"3" and not (down / "to-directory").is_symlink()
    run = tidegate(*sync, env=on.env)
    assert run.exit == 0 and run.err == "5 objects unchanged, 0 removed\n", run


@pytest.mark.parametrize(
    ("source", "target"),
    [("src/", ""), ("", "dst/"), ("src/", "src"), ("src/in/", "src/")],
    ids=str,
)
def test_by_two_addresses_no_sync_removes_its_source(tidegate, on, tmp_path, source, target):
    objects = {"src/one": b"1", "src/in/two": b"2", "other/three": b"3", "dst/four": b"4"}
    for key, content in objects.items():
        on.put(key, content)
    env = two_addresses(on, tmp_path)
    url = lambda profile, key: f"s3://{profile}@{on.name}/{key}"
    refused = tidegate("sync", "--delete", url("a", source), url("a", target), env=env)
    assert refused.exit == 2 and "overlap" in refused.err, refused
    for options in (["--dry-run"], []):
        run = tidegate("sync", "--delete", *options, url("a", source), url("b", target), env=env)
        assert objects.items() <= stored(on).items(), run
        if not source:
            assert run.exit == 2 and "--assume-distinct" in run.err and stored(on) == objects, run
        elif source != "src/" or target != "src":
            assert run.exit == 1 and "--assume-distinct" in run.err and "nothing removed" in run.err, run


def test_two_protocols_of_one_bucket_are_two_addresses(tidegate, embedded, embedded_bucket):
    on = embedded_bucket
    for key in ("src/one", "other"):
        on.put(key, key.encode())
    env = on.env | {"STORAGE_EMULATOR_HOST": on.env["AWS_ENDPOINT_URL"]}
    for way in [(on.url("src/"), f"gs://{on.name}/"), (f"gs://{on.name}/src/", on.url(""))]:
        run = tidegate("sync", "--delete", *way, env=env)
        assert run.exit == 1 and "--assume-distinct" in run.err and {"src/one", "other"} <= set(on.keys()), run


def test_two_servers_with_one_bucket_name_are_told_apart(tidegate, bucket, embedded, tmp_path):
    """What the source's server does not have proves it, and so does another time."""
    other = Bucket(embedded.endpoint, name=bucket.name)
    bucket.put("src/a", b"22")
    for key in ("a", "old", "src/old"):
        other.put(key, b"x")
    words = ("sync", "--delete", f"s3://a@{bucket.name}/src/", f"s3://b@{bucket.name}/")
    run = tidegate(*words, env=profiles(tmp_path, a=bucket.endpoint, b=other.endpoint))
    assert run.exit == 0 and stored(other) == {"a": b"22"} and stored(bucket) == {"src/a": b"22"}, run


def test_a_directory_by_a_bind_mount_is_one_place(tidegate, tree, tmp_path):
    files = {"src/a": b"1", "src/dst/b": b"2", "extra": b"3", "src/src/a": b"4", "src/dst/a": b"5"}
    mount, root = tmp_path / "mount", tmp_path / "root"
    mount.mkdir()
    for what, source, target in [
        (root, root / "src", mount),
        (root, mount, root / "src/dst"),
        (root, mount / "src", root),
        (root / "src", mount, root),
        (root / "src/dst", root / "src", mount),
    ]:
        for command in (["sync", "--delete"], ["mv", "-r"]):
            shutil.rmtree(root, ignore_errors=True)
            tree(files, name="root")
            if subprocess.run(["mount", "--bind", what, mount], capture_output=True, timeout=10).returncode:
                pytest.skip("this user may not mount")
            try:
                run = tidegate(*command, f"{source}/", target)
                assert set(files.values()) <= set(below(root).values()), run
                assert run.exit != 0 and ("is in" in run.err or "overlap" in run.err), run
            finally:
                subprocess.run(["umount", mount], check=True, timeout=10)


@pytest.mark.parametrize("way", [("src", "dst"), ("dst", "src")], ids=str)
def test_a_bind_mount_within_a_tree_that_leads_into_the_other_is_refused(tidegate, tree, tmp_path, way):
    root = tree({"src/sub/x": b"1", "src/a": b"2", "dst/b": b"3"}, name="root")
    (root / "dst/m").mkdir()
    if subprocess.run(
        ["mount", "--bind", root / "src/sub", root / "dst/m"], capture_output=True, timeout=10
    ).returncode:
        pytest.skip("this user may not mount")
    try:
        source, target = (root / name for name in way)
        for command in (["sync", "--delete"], ["mv", "-r"], ["cp", "-r"]):
            run = tidegate(*command, f"{source}/", f"{target}/")
            assert run.exit == 2 and "overlap" in run.err, run
    finally:
        subprocess.run(["umount", root / "dst/m"], check=True, timeout=10)
    assert below(root) == {"src/sub/x": b"1", "src/a": b"2", "dst/b": b"3"}


def test_a_link_that_is_followed_into_the_other_tree_is_refused(tidegate, tree):
    root = tree({"src/sub/x": b"1", "dst/b": b"3"}, name="root")
    (root / "dst/m").symlink_to(root / "src/sub")
    run = tidegate("sync", "--delete", "--links", "follow", f"{root}/src/", f"{root}/dst/")
    assert run.exit != 0 and "overlap" in run.err and (root / "src/sub/x").exists(), run.err


def test_an_empty_source_removes_nothing_unless_that_is_meant(tidegate, on, tree):
    root = tree({})
    on.put("t/a", b"x")
    run = tidegate("sync", "--delete", root, on.url("t"), env=on.env)
    assert run.exit == 1 and "add --delete-all" in run.err and on.keys() == ["t/a"], run
    run = tidegate("sync", "--delete", on.url("typo"), on.url("t"), env=on.env)
    assert run.exit == 3 and on.keys() == ["t/a"], run
    run = tidegate("sync", "--delete", "--delete-all", root, on.url("t"), env=on.env)
    assert run.exit == 0 and on.keys() == [], run


@pytest.mark.parametrize("action", [LOCKED, BROKEN], ids=str)
@pytest.mark.parametrize("operation", ["PutObject", "GetObject"])
def test_nothing_is_removed_after_a_failure(tidegate, embedded_bucket, knobs, tree, operation, action):
    on = embedded_bucket
    root = tree({"a": b"1", "b": b"2"} if operation == "PutObject" else {"old": b"x"})
    for key in ("old",) if operation == "PutObject" else ("a", "b"):
        on.put(f"t/{key}", b"x")
    way = (root, on.url("t")) if operation == "PutObject" else (on.url("t"), root)
    knobs(faults=[{"operation": operation, "key_prefix": "t/b", "action": action}])
    run = tidegate("sync", "--delete", *way, "--attempts", "1", env=on.env)
    knobs(faults=[])
    assert run.exit == 1 and "nothing removed" in run.err, run
    assert {"a", "old"} <= set(stored(on, "t/") if operation == "PutObject" else below(root))


def test_a_source_that_is_listed_in_part_removes_nothing(tidegate, embedded, embedded_bucket, knobs, tree):
    """The second page of the source fails: the keys that it would have named are not gone."""
    on, down = embedded_bucket, tree({"t2999": b"kept"}, name="down")
    embedded.control("POST", "objects", {"bucket": on.name, "keys": [f"s/t{number:04}" for number in range(1100)]})
    knobs(faults=[{"operation": "ListObjectsV2", "skip": 1, "action": BROKEN}])
    run = tidegate("sync", "--delete", on.url("s"), down, "--attempts", "1", env=on.env)
    assert run.exit == 1 and (down / "t2999").read_bytes() == b"kept", run


@pytest.mark.parametrize("page", [0, 1])
def test_a_target_that_is_listed_in_part_is_not_overwritten(tidegate, embedded, embedded_bucket, knobs, tree, page):
    """A page of the target fails: the keys that it would have named are not missing there."""
    on, keys = embedded_bucket, [f"t{number:04}" for number in range(1100)]
    root = tree({key: b"older" for key in keys[-3:]}, name="source")
    embedded.control("POST", "objects", {"bucket": on.name, "keys": [f"t/{key}" for key in keys]})
    before = stored(on, "t/")
    for command in (["sync", "--attempts", "1"], ["sync", "--dry-run", "--attempts", "1"], ["check"]):
        knobs(faults=[{"operation": "ListObjectsV2", "skip": page, "action": DENIED}])
        run = tidegate(*command, root, on.url("t"), env=on.env)
        knobs(faults=[])
        assert run.exit in (1, 4) and "AccessDenied" in run.err, run
        assert not any(word in run.text for word in ("copy", "missing")), run
        assert stored(on, "t/") == before, run


def test_a_name_that_is_no_key_removes_nothing(tidegate, on, tree):
    root = tree({"a": b"1"})
    (root / os.fsdecode(b"m\xff")).write_bytes(b"x")
    on.put("t/old", b"x")
    run = tidegate("sync", "--delete", root, on.url("t"), env=on.env)
    assert run.exit == 1 and "nothing removed" in run.err and on.keys() == ["t/a", "t/old"], run


def test_a_bad_name_that_is_left_out_is_no_failure(tidegate, on, tree, tmp_path):
    root = tree({"a": b"1", "cache/b": b"2"})
    (root / "cache" / os.fsdecode(b"x\xff")).write_bytes(b"x")
    on.put("t/old", b"x")
    out = ("--exclude", "cache")
    for command in (("sync", "--delete"), ("cp", "-r"), ("check",)):
        run = tidegate(*command, *out, f"{root}/", on.url("t/"), env=on.env)
        assert run.exit == 0 and on.keys() == ["t/a"], run
    # In the target.
    run = tidegate("sync", "--delete", *out, on.url("t/"), f"{root}/", env=on.env)
    assert run.exit == 0 and len(os.listdir(root / "cache")) == 2, run
    # What may be taken from the directory is missing.
    run = tidegate("sync", *out, "--include", "cache/c", f"{root}/", on.url("t/"), env=on.env)
    assert run.exit == 1 and "not UTF-8" in run.err, run


def test_check_says_nothing_of_what_the_source_could_not_list(tidegate, on, tree):
    root = tree({"a": b"1"})
    (root / os.fsdecode(b"d\xff")).mkdir()
    for key in ("t/a", "t/d\N{REPLACEMENT CHARACTER}/k", "t/dd"):
        on.put(key, b"1")
    run = tidegate("check", "--json", "--size-only", root, on.url("t"), env=on.env)
    lines = [json.loads(line) for line in run.text.splitlines()]
    assert [line["key"] for line in lines if line["type"] == "difference"] == ["dd"], run
    assert run.exit != 0 and "not UTF-8" in run.text + run.err, run


def test_a_bad_name_does_not_stop_the_others(tidegate, on, tree):
    root = tree({f"f{number:03}": b"x" for number in range(200)})
    (root / os.fsdecode(b"a\xff")).write_bytes(b"x")
    run = tidegate("sync", root, on.url("t"), env=on.env)
    assert run.exit == 1 and len(on.keys()) == 200, run


def test_what_the_source_left_out_is_not_missing(tidegate, on, tree, tmp_path):
    """A link to a directory is not entered, and what the target has below its name stays."""
    root, elsewhere = tree({"a": b"1"}), tree({"x": b"1"}, name="elsewhere")
    (root / "albums").symlink_to(elsewhere)
    os.mkfifo(root / "pipe")
    for key in ("t/albums/x", "t/albums-old", "t/pipe"):
        on.put(key, b"x")
    for options in (["--dry-run"], []):
        run = tidegate("sync", "--delete", *options, root, on.url("t"), env=on.env)
        assert run.exit == 0 and run.err.count("left out") == 2, run
    assert on.keys() == ["t/a", "t/albums/x", "t/pipe"], run


def test_a_file_that_has_the_name_of_a_way_back_is_not_missing(tidegate, on, tree):
    """With followed links: the source has the name, as a link to a directory above it. The file sorts before the keys that
    would be below the link."""
    root, down = tree({"a": b"1", "x-": b"2"}), tree({"x": b"the only copy"}, name="down")
    (root / "x").symlink_to(".")
    words = ["sync", "--delete", "--links", "follow", root]
    for options in (["--dry-run"], []):
        run = tidegate(*words, *options, down, env=on.env)
        assert run.exit == 0 and "x is a way back" in run.err and "1 removed" not in run.err, run
    assert below(down) == {"a": b"1", "x": b"the only copy", "x-": b"2"}
    on.put("t/x", b"the only copy")
    run = tidegate(*words, on.url("t"), env=on.env)
    assert run.exit == 0 and on.keys() == ["t/a", "t/x", "t/x-"], run


def test_a_link_in_the_target_that_leads_nowhere_is_passed_over(tidegate, on, tree):
    on.put("t/a", b"1")
    down = tree({"old": b"x"}, name="down")
    (down / "broken").symlink_to("nowhere")
    for _ in range(2):
        run = tidegate("sync", "--delete", on.url("t"), down, env=on.env)
        assert run.exit == 0 and below(down) == {"a": b"1"} and (down / "broken").is_symlink(), run
        assert f"1 name in the target is no object and stays: {down}/broken: this is a symbolic link" in run.err, run


def test_a_thousand_removals_are_few_requests(tidegate, embedded, embedded_bucket, counts, tree):
    on, root = embedded_bucket, tree({"a": b"1"})
    embedded.control("POST", "objects", {"bucket": on.name, "keys": [f"t/o{number:04}" for number in range(1500)]})
    run = tidegate("sync", "--delete", root, on.url("t"), env=on.env)
    assert run.exit == 0 and on.keys() == ["t/a"], run
    assert counts()["DeleteObjects"] + counts().get("DeleteObject", 0) <= 4


def test_folder_objects_are_left_alone(tidegate, on, tree, tmp_path):
    for key in ("t/", "t/folder/", "t/a"):
        on.put(key, b"")
    down = tmp_path / "down"
    for _ in range(2):
        run = tidegate("sync", "--delete", on.url("t"), down, env=on.env)
        assert run.exit == 0 and below(down) == {"a": b""}, run
    run = tidegate("sync", "--delete", down, on.url("t"), env=on.env)
    assert run.exit == 0 and on.keys() == ["t/", "t/a", "t/folder/"], run


def test_what_makes_no_sense_is_refused(tidegate, on, tree):
    root = tree({"a": b"1", "in/b": b"1"})
    (root.parent / "link").symlink_to(root)
    on.put("t/x", b"x")
    for source, target, code, said in [
        (root, root / "in", 2, "overlap"),
        (root / "in", root, 2, "overlap"),
        (root, root / "new/er", 2, "overlap"),
        (root, root / "../link/new", 2, "overlap"),
        (on.url("t"), on.url("t/u"), 2, "overlap"),
        (on.url(""), on.url("t"), 2, "overlap"),
        (root / "a", on.url("t"), 2, "tidegate cp"),
        (root, root / "a", 2, "no directory"),
        ("-", on.url("t"), 2, "no tree"),
        (root / "missing", on.url("t"), 3, "missing"),
        (on.url("t"), "s3://no-such-bucket-here/", 3, "no-such-bucket-here"),
    ]:
        run = tidegate("sync", "--delete", source, target, env=on.env)
        assert run.exit == code and said in run.err, run
    for option in (["--max-delete", "1"], ["--delete-all"], ["--size-only", "--checksum"]):
        assert tidegate("sync", *option, root, on.url("t"), env=on.env).exit == 2
    assert on.keys() == ["t/x"] and below(root) == {"a": b"1", "in/b": b"1"}


def test_the_embedded_servers_own_files_stay(tidegate, tree, tmp_path):
    """`dev://` keeps its objects below the working directory."""
    root = tree({"a": b"1"})
    run = tidegate("sync", root, "dev://demo/t", cwd=tmp_path)
    assert run.exit == 0, run
    (tmp_path / "old").write_bytes(b"x")
    run = tidegate("sync", "--delete", "--dry-run", "dev://demo/t", ".", cwd=tmp_path)
    assert run.exit == 0 and ".tidegate-dev" not in run.text and "old" in run.text, run


def changed(tree, draw):
    """The tree after some random changes."""
    tree = dict(tree)
    for _ in range(draw.randrange(6)):
        key = "/".join(
            draw.choice(["a", "a-b", "b", "c.d", "é"]) + draw.choice("xyz") for _ in range(draw.randint(1, 3))
        )
        # A file can't be where another has its directory.
        clash = any(other.startswith(f"{key}/") or key.startswith(f"{other}/") for other in tree if other != key)
        if key in tree and draw.random() < 0.4:
            del tree[key]
        elif not clash:
            tree[key] = draw.randbytes(draw.choice([0, 1, 3, 3, 3, 70_000]))
    return tree


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("store", ["s3", "gs", "disk"])
def test_random_changes_arrive_whatever_fails(tidegate, embedded, embedded_bucket, knobs, tmp_path, store, seed):
    """`sync --checksum --delete` up and down after random changes, with faults and cut connections in between: in the end
    names and bytes are the same, and no object was ever removed that the source had."""
    draw = random.Random(seed)
    on, google = embedded_bucket, Google(embedded, embedded_bucket, "http")
    url, env = {
        "s3": (on.url("t"), on.env),
        "gs": (google.at("t"), google.env),
        "disk": (tmp_path / "store", {}),
    }[store]

    def held():
        return below(url) if store == "disk" else stored(on, "t/")

    up, down = tmp_path / "up", tmp_path / "down"
    up.mkdir()
    files = {}
    for _ in range(5):
        before, files = files, changed(files, draw)
        for path in set(before) - set(files):
            (up / path).unlink()
        for folder in sorted((path for path in up.rglob("*") if path.is_dir()), reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()
        for path, content in files.items():
            (up / path).parent.mkdir(parents=True, exist_ok=True)
            (up / path).write_bytes(content)
            os.utime(up / path, (OLD, OLD))
        options = ["--checksum", "--delete", "--delete-all", "--attempts", "1", *QUIET]
        action = draw.choice([BROKEN, LOCKED, {"reset_response": {"after_bytes": 0}}])
        names = ["PutObject", "GetObject", "HeadObject", "ListObjectsV2"]
        names += [f"storage.objects.{name}" for name in ("insert", "get", "download", "list")]
        knobs(faults=[{"operation": name, "probability": 0.3, "action": action} for name in names])
        kept = set(before) & set(files)
        for way in [(up, url), (url, down)]:
            tidegate("sync", *options, *way, env=env)
        knobs(faults=[])
        assert kept <= set(held()), "an object was removed that the source has"
        for way in [(up, url), (url, down)]:
            run = tidegate("sync", *options, *way, env=env)
            assert run.exit == 0 or not files, run
        assert held() == files and below(down) == files
