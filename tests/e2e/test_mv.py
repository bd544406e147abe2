"""`mv`: every object is at its source, at its target, or at both, whatever happens in between; nothing is lost."""

import os
import shutil
import subprocess
import threading
import time
from collections import Counter

import pytest

from harness import MIB
from harness.command import binary, clean_env
from harness.lines import one_sentence
from harness.process import until
from harness.s3 import Bucket
from trees import below, lines, places, plant, profiles, stored, two_addresses

DENIED = {"error": {"status": 403, "code": "AccessDenied"}}
FILES = {"a": b"1", "b/c": b"22", "b/é d?[x]": b"333", "big": b"x" * (6 * MIB)}


@pytest.fixture
def place(request, tmp_path):
    return places(request, tmp_path)


WAYS = [
    ("disk", "minio"),
    ("minio", "disk"),
    ("disk", "disk"),
    ("minio", "minio"),
    ("minio", "minio2"),
    ("versitygw", "versitygw"),
    ("minio", "google"),
    ("google", "minio"),
]


@pytest.mark.parametrize(("source", "target"), WAYS, ids=str)
def test_objects_trees_and_matches_move(tidegate, place, source, target):
    source, target = place(source), place(target)
    env = source.env | target.env
    for key, body in FILES.items():
        source.put(f"t/{key}", body)
    options = ("--part-size", "5MiB", "--progress", "never")
    moved, left = {}, {f"t/{key}": body for key, body in FILES.items()}

    def move(words, names):
        for options_here in (["--dry-run"], ["-v"]):
            run = tidegate("mv", *options, *options_here, *words, env=env)
            assert run.exit == 0, run
            if "--dry-run" in options_here:
                assert (source.keys(), target.keys()) == (set(left), set(moved)), "a dry run changes nothing"
                planned = run
        assert lines(run) == lines(planned), "the dry run says what happens"
        assert len(lines(run)) == 2 * len(names), run
        for old, new in names.items():
            moved[new] = left.pop(old)
        assert (source.keys(), target.keys()) == (set(left), set(moved)), run

    move([source.url("t/a"), target.url("one")], {"t/a": "one"})
    move([source.url("t/b/*"), target.url("two/")], {"t/b/c": "two/c", "t/b/é d?[x]": "two/é d?[x]"})
    move(["-r", source.url("t/"), target.url("three/")], {"t/big": "three/big"})
    assert target.held() == moved


@pytest.mark.parametrize(
    "spelling",
    [
        "{d}/a",
        "{d}/./a",
        "{d}/b/../a",
        "{d}/",
        "file://{d}/a",
    ],
)
def test_a_file_is_not_moved_onto_itself(tidegate, tmp_path, spelling):
    root = plant(tmp_path / "t", {"a": b"data", "b/c": b""})
    (root / "soft").symlink_to("a")
    for source, target in [("{d}/a", spelling), (spelling.removesuffix("/") + "/a" * spelling.endswith("/"), "{d}/a")]:
        run = tidegate("mv", source.format(d=root), target.format(d=root))
        one_sentence(run, "same", exit=2)
    assert below(root) == {"a": b"data", "b/c": b"", "soft": b"data"}


def test_a_file_is_not_moved_onto_a_link_to_it(tidegate, tmp_path):
    root = plant(tmp_path / "t", {"a": b"data"})
    (root / "soft").symlink_to("a")
    one_sentence(tidegate("mv", root / "a", root / "soft"), "same", exit=2)
    assert below(root) == {"a": b"data", "soft": b"data"}


def test_a_link_that_is_moved_onto_its_file_is_no_failure(tidegate, tmp_path):
    """It is refused, or only the link goes."""
    root = plant(tmp_path / "t", {"a": b"data"})
    (root / "soft").symlink_to("a")
    run = tidegate("mv", root / "soft", root / "a")
    assert (root / "a").read_bytes() == b"data"
    assert run.exit == (2 if (root / "soft").is_symlink() else 0), run


def test_a_hard_link_to_itself_keeps_the_bytes(tidegate, tmp_path):
    root = plant(tmp_path / "t", {"a": b"data"})
    os.link(root / "a", root / "hard")
    tidegate("mv", root / "a", root / "hard")
    assert below(root)["hard"] == b"data"


def test_through_a_link_to_a_directory_it_is_the_same_file(tidegate, tmp_path):
    root = plant(tmp_path / "t", {"a": b"data"})
    (tmp_path / "l").symlink_to(root)
    for words in [(root / "a", tmp_path / "l/a"), (tmp_path / "l/a", root / "a"), (root / "a", f"{tmp_path}/l/")]:
        one_sentence(tidegate("mv", *words), "same", exit=2)
    run = tidegate("mv", f"{root}/*", f"{tmp_path}/l/")
    assert run.exit != 0 and "same" in run.err and below(root) == {"a": b"data"}, run


def test_an_object_is_not_moved_onto_itself(tidegate, on):
    on.put("t/a", b"data")
    for words in [("t/a", "t/a"), ("t/a", "t/"), ("t/*", "t/"), ("t/*", "t")]:
        run = tidegate("mv", *map(on.url, words), env=on.env)
        assert run.exit != 0 and "same" in run.err, run
    assert stored(on) == {"t/a": b"data"}


@pytest.mark.parametrize("source", ["k", "*"])
def test_a_move_by_two_addresses_of_one_server_removes_nothing(tidegate, on, source):
    """Equal names behind two endpoints are two objects, or one: the copy itself tells."""
    on.put("k", b"1")
    here = on.env["AWS_ENDPOINT_URL"]
    there = here.replace("127.0.0.1", "localhost")
    assert here != there
    ends = (on.url(source), on.url("k" if source == "k" else ""))
    run = tidegate("mv", *ends, "--endpoint-url", here, "--source-endpoint-url", there, env=on.env)
    assert run.exit == 1 and "source and target are the same object" in run.err, run
    assert stored(on, "") == {"k": b"1"}, run


@pytest.mark.parametrize(("source", "target"), [("src/", ""), ("", "src/"), ("", "")])
def test_a_tree_moved_by_two_addresses_replaces_no_object_of_its_own(tidegate, on, tmp_path, source, target):
    """Each object could take the place of one that is still to be moved."""
    objects = {"src/" * depth + "x": f"{depth}".encode() for depth in range(4)}
    for key, content in objects.items():
        on.put(key, content)
    env, words = two_addresses(on, tmp_path), (f"s3://a@{on.name}/{source}", f"s3://b@{on.name}/{target}")
    planned = tidegate("mv", "-r", "--dry-run", *words, env=env)
    run = tidegate("mv", "-r", *words, env=env)
    assert set(stored(on).values()) == set(objects.values()), run
    # A target in its source would be listed again: nothing is begun.
    code = 2 if target and not source else 1
    for ended in (planned, run):
        assert ended.exit == code and "--assume-distinct" in ended.err, ended


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_a_copy_by_two_addresses_replaces_no_object_that_is_still_to_be_copied(tidegate, on, tmp_path, command):
    objects = {"p/k": b"1", "p/p/k": b"2", "p/p/p/k": b"3"}
    for key, content in objects.items():
        on.put(key, content)
    source, target = f"s3://a@{on.name}/p/", f"s3://b@{on.name}/"
    words = ("sync", source, target) if command == "sync" else ("cp", "--files-from", "-", source, target)
    env = two_addresses(on, tmp_path)
    names = "".join(f"{key.removeprefix('p/')}\n" for key in objects).encode()
    run = tidegate(*words, env=env, stdin=names)
    assert run.exit == 1 and "--assume-distinct" in run.err, run
    assert stored(on) == objects | {"k": b"1"}, run


def test_a_move_between_two_servers_with_one_bucket_name(tidegate, bucket, embedded, tmp_path):
    other = Bucket(embedded.endpoint, name=bucket.name)
    for key in ("a", "d/b"):
        bucket.put(key, key.encode())
    env = profiles(tmp_path, a=bucket.endpoint, b=other.endpoint)
    run = tidegate("mv", "-r", f"s3://a@{bucket.name}/", f"s3://b@{bucket.name}/", env=env)
    assert run.exit == 0 and stored(other) == {"a": b"a", "d/b": b"d/b"} and stored(bucket) == {}, run


def test_trees_that_overlap_are_refused(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    root = plant(tmp_path / "t", {"a": b"1", "in/b": b"2"})
    (tmp_path / "l").symlink_to(root)
    for key in ("t/a", "t/in/b"):
        on.put(key, b"x")
    for source, target in [
        (root, root / "in"),
        (root, root / "new/er"),
        (root, tmp_path / "l/new"),
        (f"{root}/", root),
        (f"{root}/in/", root),
        (f"{root}/**", root / "in"),
        (on.url("t/"), on.url("t/in/")),
        (on.url("t/"), on.url("t/")),
        (on.url("t/in/"), on.url("t/")),
        (on.url("t/**"), on.url("t/new/")),
        (on.url(""), on.url("u/")),
    ]:
        for options in ((), ("--dry-run",)):
            run = tidegate("mv", "-r", *options, source, target, env=on.env)
            said = next(words for words in ("this is in", " is in ", "are the same") if words in run.err)
            one_sentence(run, said, exit=2)
    assert below(root) == {"a": b"1", "in/b": b"2"} and len(on.keys()) == 2


@pytest.mark.parametrize("options", [["--create-only"], ["--if-absent"]], ids=str)
@pytest.mark.parametrize(
    ("source", "target"),
    [("disk", "embedded"), ("embedded", "disk"), ("disk", "disk"), ("embedded", "embedded"), ("minio", "minio")],
)
def test_a_target_that_is_there_stays_with_its_source(tidegate, place, source, target, options):
    source, target = place(source), place(target)
    source.put("t/a", b"ours")
    source.put("t/new", b"new")
    target.put("a", b"theirs")
    skips = "--if-absent" in options
    for words in ([source.url("t/a"), target.url("a")], [source.url("t/a"), target.url("")]):
        run = tidegate("mv", *options, "-v", *words, env=source.env | target.env)
        assert run.exit == (0 if skips else 1) and run.text.startswith("skip ") == skips, run
    assert (source.held(), target.held()) == ({"t/a": b"ours", "t/new": b"new"}, {"a": b"theirs"})
    run = tidegate("mv", "-r", *options, source.url("t/"), target.url(""), env=source.env | target.env)
    assert run.exit == (0 if skips else 1), run
    assert (source.held(), target.held()) == ({"t/a": b"ours"}, {"a": b"theirs", "new": b"new"})


@pytest.mark.parametrize("target", ["disk", "embedded", "minio"])
@pytest.mark.parametrize("operation", ["HeadObject", "GetObject", "CopyObject", "DeleteObject"])
def test_an_object_that_another_writer_replaces_is_not_lost(tidegate, place, knobs, operation, target):
    """Whenever the other writer comes, its object is at the source or has been moved as well."""
    source, target = place("embedded"), place(target)
    if target.env not in ({}, source.env):
        target = place("google")
    for skip in range(3):
        source.put("a", b"first")
        knobs(
            faults=[
                {"operation": operation, "key_prefix": source.prefix, "action": "replace", "skip": skip, "times": 1}
            ]
        )
        run = tidegate("mv", source.url("a"), target.url("a"), "--attempts", "2", env=source.env | target.env)
        knobs()
        left, there = source.held(), target.held()
        assert left or "a" in there, "nothing is left"
        if run.exit:
            assert left == {"a": b""} and run.err.count("\n") == 1, run
        else:
            assert not left and there["a"] in (b"first", b""), (run, there)


@pytest.mark.parametrize(
    ("target", "each"),
    [
        ("disk", {"GetObject": 1, "HeadObject": 1, "DeleteObject": 1}),
        # The source, its copy, and the source again before its removal.
        ("embedded", {"CopyObject": 1, "HeadObject": 3, "DeleteObject": 1}),
    ],
)
def test_an_object_that_was_just_written_is_moved_with_as_few_requests(tidegate, place, counts, target, each):
    """Its listing has a time that another write of its second may have, and no token; what the copy reads has."""
    source, target = place("embedded"), place(target)
    requests = []
    for objects, age in ((1, 0), (4, 0), (4, 3.5)):
        for number in range(objects):
            source.put(f"x/{number}", b"1")
        time.sleep(age)
        counts.reset()
        run = tidegate("mv", "-r", source.url("x/"), target.url("y/"), env=source.env | target.env)
        assert run.exit == 0 and source.held() == {}, run
        requests.append(Counter(counts()))
    assert requests[1] == requests[2]
    assert requests[1] - requests[0] == Counter({name: 3 * count for name, count in each.items()})


def test_directories_that_are_emptied_stay_but_for_those_of_a_move(tidegate, bucket, tmp_path):
    for words, is_left in (
        (["rm", "-r", "HERE"], True),
        (["sync", "--delete", "--delete-all", bucket.url("none/"), "HERE"], True),
        (["mv", "-r", "HERE", bucket.url("moved/")], False),
    ):
        root = plant(tmp_path / words[0], {"d/e/a": b"1"})
        run = tidegate(*[str(root) + "/" if word == "HERE" else word for word in words], env=bucket.env)
        assert run.exit == 0 and not (root / "d/e/a").exists(), run
        assert (root / "d/e").exists() == is_left, run


@pytest.fixture
def late(embedded, embedded_bucket, proxy_to):
    """A bucket whose answers come late, after what was asked for is done; and the environment that reaches it so."""
    proxy = proxy_to(embedded.address)
    proxy.toxic("latency", "downstream", latency=1500)
    return embedded_bucket, embedded.endpoint.at(proxy.url).env


def test_a_file_that_changes_before_its_removal_stays(tidegate, late, tmp_path):
    (on, env), root = late, plant(tmp_path / "t", {"a": b"first"})
    run = tidegate.start("mv", root / "a", on.url("a"), env=env)
    until("it is published", lambda: on.keys() == ["a"])
    (root / "a").write_bytes(b"second")
    one_sentence(run.wait(), root / "a", "copied, but not removed", "changed", exit=1)
    assert (below(root), on.get("a")) == ({"a": b"second"}, b"first")


def test_a_file_that_comes_meanwhile_stays_with_its_directory(tidegate, late, tmp_path):
    (on, env), root = late, plant(tmp_path / "t", {"sub/a": b"1", "other/b": b"2"})
    run = tidegate.start("mv", "-r", root, on.url("t"), env=env)
    until("both are published", lambda: len(on.keys()) == 2)
    (root / "sub/late").write_bytes(b"late")
    result = run.wait()
    assert result.exit == 0 and below(root) == {"sub/late": b"late"}, result
    assert not (root / "other").exists(), "empty directories are removed"


@pytest.mark.parametrize("source", ["disk", "embedded"])
def test_a_target_that_refuses_leaves_the_source(tidegate, place, knobs, source):
    source, target = place(source), place("embedded")
    for key in ("a", "b/c"):
        source.put(key, b"data")
    before, nowhere = source.held(), "s3://no-such-bucket-here/"
    knobs(
        faults=[
            {"operation": f"{name}", "key_prefix": target.prefix, "action": DENIED}
            for name in ("PutObject", "CopyObject")
        ]
    )
    for url, codes in ((nowhere, (3,)), (target.url(), (1, 4))):
        for words in ([source.url("a"), f"{url}x"], ["-r", source.url(), url], [source.url("**"), url]):
            run = tidegate("mv", *words, env=target.env)
            assert run.exit in codes and source.held() == before, run
    knobs()
    assert target.held() == {}


def test_a_disk_that_refuses_leaves_the_source(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    on.put("t/a", b"1")
    on.put("t/a/b", b"2")
    (tmp_path / "file").write_bytes(b"")
    run = tidegate("mv", on.url("t/a"), tmp_path / "file/x", env=on.env)
    assert run.exit != 0 and len(on.keys()) == 2, run
    # A directory can't have a file's name: one of the two stays.
    run = tidegate("mv", "-r", on.url("t/"), tmp_path / "down", env=on.env)
    assert run.exit == 1 and len(on.keys()) == 1, run
    left, there = stored(on, "t/"), below(tmp_path / "down")
    assert left | there == {"a": b"1", "a/b": b"2"}, run


def test_a_source_that_cannot_be_removed_is_named(tidegate, place, knobs):
    source, target = place("embedded"), place("embedded")
    source.put("a", b"data")
    knobs(faults=[{"operation": "DeleteObject", "key_prefix": source.prefix, "action": DENIED}])
    run = tidegate("mv", source.url("a"), target.url("a"), env=source.env)
    one_sentence(run, source.url("a"), "copied, but not removed", exit=(1, 4))
    assert source.held() == target.held() == {"a": b"data"}


def test_what_is_copied_and_not_removed_counts_as_not_moved(tidegate, place, knobs):
    source, target = place("embedded"), place("embedded")
    for key in "abc":
        source.put(f"t/{key}", b"data")
    knobs(faults=[{"operation": "DeleteObject", "key_prefix": f"{source.prefix}t/b", "action": DENIED}])
    run = tidegate("mv", "-r", source.url("t/"), target.url(), env=source.env)
    assert run.exit == 1 and run.err.endswith("error: 1 of 3 objects could not be moved\n"), run
    assert (source.held(), sorted(target.held())) == ({"t/b": b"data"}, ["a", "b", "c"]), run


@pytest.mark.parametrize("end", ["interrupt", "killed"])
@pytest.mark.parametrize(("source", "target"), [("disk", "embedded"), ("embedded", "disk"), ("embedded", "embedded")])
def test_interrupted_nothing_is_lost(tidegate, place, knobs, counts, source, target, end):
    source, target = place(source), place(target)
    files = {f"{number:03}": f"{number}".encode() * 1000 for number in range(30)}
    for key, body in files.items():
        source.put(key, body)
    knobs(latency={"uniform_ms": [50, 900]})
    move = ("mv", "-r", source.url(), target.url())
    run = tidegate.start(*move, env=source.env | target.env)
    until(
        "some are moved", lambda: len(source.keys()) < 27 if source.env == {} else counts().get("DeleteObject", 0) > 3
    )
    if end == "interrupt":
        run.interrupt()
        assert run.wait(20).exit == 130
    else:
        run.killed()
    knobs()
    left, there = source.held(), target.held()
    there = {key: body for key, body in there.items() if key in files}
    assert left, "it was interrupted in the middle"
    assert left | there == files and there.items() <= files.items(), "each is whole, at one end or at both"
    run = tidegate(*move, env=source.env | target.env)
    assert run.exit == 0 and {key: body for key, body in target.held().items() if key in files} == files, run
    assert source.held() == {}


@pytest.mark.parametrize(
    ("source", "target", "operations"),
    [
        ("disk", "embedded", ["PutObject"]),
        ("embedded", "disk", ["GetObject", "DeleteObject"]),
        ("embedded", "embedded", ["CopyObject", "DeleteObject", "HeadObject"]),
    ],
)
@pytest.mark.parametrize("options", [[], ["--create-only"], ["--if-absent"]], ids=str)
def test_lost_answers_lose_no_object(tidegate, place, knobs, source, target, operations, options):
    source, target = place(source), place(target)
    for number, operation in enumerate(operations):
        source.put(f"{number}", b"data")
        knobs(faults=[{"operation": operation, "action": "lose_answer", "times": 1}])
        run = tidegate("mv", *options, source.url(f"{number}"), target.url(), env=source.env | target.env)
        knobs()
        assert run.exit == 0 and target.held()[f"{number}"] == b"data" and source.held() == {}, (operation, run)


def test_a_move_of_what_is_missing(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    for words in [
        (on.url("none"), on.url("x")),
        (on.url("none*"), on.url("x/")),
        ("-r", on.url("none/"), on.url("x/")),
        (tmp_path / "none", on.url("x")),
        ("-r", tmp_path / "none", on.url("x")),
        (f"{tmp_path}/none*", on.url("x/")),
    ]:
        for options in ((), ("--dry-run",)):
            run = tidegate("mv", *options, *words, env=on.env)
            one_sentence(run, "none", exit=3)
    assert on.keys() == []


def test_what_cannot_be_moved_is_refused(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"1", "b": b"2"})
    os.mkfifo(tmp_path / "pipe")
    for words in [
        ("-", on.url("x")),
        (root / "a", "-"),
        (root, on.url("x")),
        (root / "a", root / "b", on.url("x")),
        (root / "a", "/dev/null"),
        (root / "a", tmp_path / "pipe"),
        (tmp_path / "pipe", on.url("x")),
        ("s3://*/a", on.url("x")),
    ]:
        one_sentence(tidegate("mv", *words, env=on.env, stdin=b""), exit=2)
    assert below(root) == {"a": b"1", "b": b"2"} and on.keys() == []


def test_a_link_is_moved_as_the_file_that_it_leads_to(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"1"})
    outside = plant(tmp_path / "elsewhere", {"x": b"2"})
    (root / "link").symlink_to(outside / "x")
    (root / "directory").symlink_to(outside)
    run = tidegate("mv", "-r", f"{root}/", on.url("t"), env=on.env)
    assert run.exit == 0 and "left out" in run.err and stored(on, "t/") == {"a": b"1", "link": b"2"}, run
    assert below(outside) == {"x": b"2"}, "what a link leads to stays"
    assert [path.name for path in root.iterdir()] == ["directory"]


@pytest.mark.parametrize("how", ["objects", "trees", "list", "patterns"])
@pytest.mark.parametrize("target", ["embedded", "disk"])
def test_of_two_sources_with_one_target_none_is_lost(tidegate, place, tmp_path, how, target):
    source, target = place("embedded"), place(target)
    source.put("x/a", b"one")
    source.put("y/a", b"two")
    (tmp_path / "list").write_text("".join(f"{source.url(key)}\n" for key in ("x/a", "y/a")))
    words = {
        "objects": [source.url("x/a"), source.url("y/a")],
        "trees": ["-r", source.url("x/"), source.url("y/")],
        "patterns": [source.url("x/*"), source.url("y/*")],
        "list": ["--files-from", tmp_path / "list"],
    }[how]
    tidegate("mv", *words, target.url(), env=source.env)
    kept = set(source.held().values()) | set(target.held().values())
    assert kept == {b"one", b"two"}


@pytest.mark.parametrize("command", ["mv", "cp"])
@pytest.mark.parametrize("how", ["objects", "patterns", "list", "list the other way"])
@pytest.mark.parametrize("kind", ["embedded", "disk"])
def test_a_target_that_is_a_source_itself_is_not_lost(tidegate, place, how, kind, command):
    place = place(kind)
    place.put("x/a", b"one")
    place.put("y/a", b"two")
    words = ["x/a", "y/a"] if how == "objects" else ["x/*", "y/*"]
    words, stdin = list(map(place.url, words)), None
    if how.startswith("list"):
        urls = [place.url("x/a"), place.url("y/a")][:: 1 if how == "list" else -1]
        words, stdin = ["--files-from", "-"], "".join(f"{url}\n" for url in urls).encode()
    planned = tidegate(command, "--dry-run", *words, place.url("y/"), env=place.env, stdin=stdin)
    run = tidegate(command, *words, place.url("y/"), env=place.env, stdin=stdin)
    assert set(place.held().values()) == {b"one", b"two"}
    if how != "patterns":
        for ended in (planned, run):
            assert ended.exit == 1 and "that is another source of this command" in ended.err, ended
        assert f"-> {place.url('y/a')}" not in "".join(line for line in lines(planned) if "x/a" in line), planned


@pytest.mark.parametrize("kind", ["embedded", "disk"])
def test_a_copy_replaces_nothing_that_it_still_has_to_read(tidegate, place, kind):
    """The target holds the source: `in/in/x` would replace `in/x`, which is to be copied too."""
    place = place(kind)
    for key in ("in/in/x", "in/x", "in/y"):
        place.put(key, key.encode())
    names = b"in/x\nx\ny\n"
    for words, stdin in [(["-r", place.url("in/")], None), (["--files-from", "-", place.url("in/")], names)]:
        run = tidegate("cp", *words, place.url(), env=place.env, stdin=stdin)
        assert run.exit == 1 and "not copied" in run.err, run
        held = place.held()
        assert held["in/x"] == b"in/x" and held["x"] == b"in/x" and held["y"] == b"in/y", run


@pytest.mark.parametrize("kind", ["embedded", "disk"])
def test_a_list_whose_target_is_below_its_source(tidegate, place, kind):
    """Each name's target is the next one's source."""
    place = place(kind)
    names = ["b/" * depth + "a" for depth in range(6)]
    for name in names:
        place.put(name, name.encode())
    words = ("mv", "--files-from", "-", place.url(), place.url("b/"))
    run = tidegate(*words, env=place.env, stdin="\n".join(names).encode())
    assert run.exit != 0 and "while it was copied" not in run.err and "copied, but" not in run.err, run
    assert set(place.held().values()) == {name.encode() for name in names}, run


@pytest.mark.parametrize(
    "words",
    [["{d}/a*"], ["{d}/", "--include", "*.txt"], ["{d}/", "--exclude", "keep"], ["{d}/", "--if-absent"]],
    ids=str,
)
def test_only_directories_that_the_move_has_emptied_are_removed(tidegate, embedded_bucket, tmp_path, words):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a/b/c.txt": b"1"})
    (root / "keep/empty").mkdir(parents=True)
    source, *options = (word.format(d=root) for word in words)
    run = tidegate("mv", "-r", *options, source, on.url("t/"), env=on.env)
    assert run.exit == 0 and len(on.keys()) == 1, run
    assert (root / "keep/empty").is_dir() and not (root / "a/b").exists()


@pytest.mark.parametrize("source", [".", "./", "../link", "../link/", "f*"])
def test_a_directory_that_stays_is_no_failure(tidegate, embedded_bucket, tmp_path, source):
    on, root = embedded_bucket, plant(tmp_path / "t", {"f/a": b"1"})
    (tmp_path / "link").symlink_to(root)
    run = tidegate("mv", "-r", source, on.url("t/"), env=on.env, cwd=root)
    assert stored(on)["t/link/f/a" if source == "../link" else "t/f/a"] == b"1" and below(root) == {}, run
    assert run.exit == 0, run


def test_a_link_into_the_tree_that_is_moved_stays(tidegate, embedded_bucket, tmp_path):
    """Its file may be moved before the link is read: whether it could be moved would be chance."""
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"1"})
    plant(tmp_path, {"outside": b"2"})
    (root / "link").symlink_to("a")
    (root / "far").symlink_to(tmp_path / "outside")
    run = tidegate("mv", "-r", "-v", root, on.url("t"), env=on.env)
    assert run.exit == 1 and stored(on, "t/") == {"a": b"1", "far": b"2"}, run
    assert "link: not moved" in run.err and "--links preserve" in run.err, run
    assert (root / "link").is_symlink() and not (root / "far").is_symlink(), run
    assert (tmp_path / "outside").read_bytes() == b"2"


@pytest.mark.skipif(not shutil.which("strace"), reason="there is no strace to see the system calls")
def test_a_file_is_on_the_disk_before_its_source_is_removed(tidegate, embedded_bucket, tmp_path):
    """A loss of power after the removal would lose both."""
    embedded_bucket.put("a", b"1")
    command = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", "-o", tmp_path / "calls"]
    words = ["mv", embedded_bucket.url("a"), tmp_path / "a"]
    subprocess.run([*command, binary(), *words], env=clean_env(embedded_bucket.env), timeout=60, check=True)
    assert (tmp_path / "a").read_bytes() == b"1"
    before, renamed, _ = (tmp_path / "calls").read_text().partition("rename")
    assert renamed and "sync(" in before


def test_two_moves_at_once_lose_nothing(tidegate, place):
    source, target = place("minio"), place("minio")
    files = {f"{number:02}": b"x" * (number + 1) for number in range(40)}
    for key, body in files.items():
        source.put(key, body)
    runs = []
    threads = [
        threading.Thread(target=lambda: runs.append(tidegate("mv", "-r", source.url(), target.url(), env=source.env)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.held() == files and source.held() == {}, [str(run) for run in runs]


def test_what_an_object_carries_moves_with_it(tidegate, on):
    other = Bucket(on.endpoint)
    on.put("a", b"1", ContentType="text/x", CacheControl="max-age=5", Metadata={"owner": "me"})
    run = tidegate("mv", on.url("a"), other.url("b"), env=on.env)
    head = other.head("b")
    assert run.exit == 0 and not on.keys(), run
    assert (head["ContentType"], head["CacheControl"], head["Metadata"]["owner"]) == ("text/x", "max-age=5", "me")


def test_json_has_a_line_for_the_copy_and_one_for_the_removal(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"12"})
    for options, dry in ((["--dry-run"], True), ([], False)):
        run = tidegate("mv", "--json", *options, root / "a", on.url("a"), env=on.env)
        copy, remove = run.json
        assert run.exit == 0 and (copy["type"], remove["type"]) == ("copy", "remove"), run
        assert (copy["source"], copy["target"], copy["bytes"]) == (str(root / "a"), on.url("a"), 2), run
        assert remove["url"] == str(root / "a"), run
        assert copy.get("dry_run", False) == remove.get("dry_run", False) == dry, run


@pytest.mark.parametrize("target", ["one", "two"])
def test_another_source_by_another_profile_is_not_lost(tidegate, bucket, tmp_path, target):
    """`one` is the same endpoint, `two` another address of its server."""
    bucket.put("x/k", b"one")
    bucket.put("y/k", b"two")
    there = bucket.endpoint.at(bucket.endpoint.url.replace("127.0.0.1", "localhost"))
    env = bucket.env | profiles(tmp_path, one=bucket.endpoint, two=there)
    run = tidegate("mv", bucket.url("x/k"), bucket.url("y/k"), f"s3://{target}@{bucket.name}/y/", env=env)
    assert run.exit == 1 and stored(bucket) == {"x/k": b"one", "y/k": b"two"}, run


def test_a_filter_holds_for_objects_that_are_named_one_by_one(tidegate, on, tmp_path):
    for key in ("a.log", "b.jpg", "c.jpg"):
        on.put(f"t/{key}", key.encode())
    urls = [on.url(f"t/{key}") for key in ("a.log", "b.jpg")]
    run = tidegate("mv", *urls, on.url("u/"), "--include", "*.jpg", env=on.env)
    assert run.exit == 0 and sorted(on.keys()) == ["t/a.log", "t/c.jpg", "u/b.jpg"], run
    root = plant(tmp_path / "files", {"a.log": b"1", "b.jpg": b"22", "old": b"3"})
    for name, times in (("a.log", None), ("b.jpg", None), ("old", (1_000_000_000, 1_000_000_000))):
        os.utime(root / name, times)
    run = tidegate("mv", "-r", *root.iterdir(), on.url("v/"), "--exclude", "*.log", "--min-size", "2", env=on.env)
    assert run.exit == 0 and sorted(below(root)) == ["a.log", "old"], run
    run = tidegate("rm", "-r", *root.iterdir(), "--older-than", "7d")
    assert run.exit == 0 and sorted(below(root)) == ["a.log"], run
