"""--links: what becomes of symbolic links below a directory, and that no bucket can write outside of the target."""

import os
import subprocess

import pytest

from harness import TOOLS
from harness.process import until
from harness.s3 import REGION
from trees import Folder, below, lines, places, plant

QUIET = ("--progress", "never")
BACK = "is a way back to a directory above it"


@pytest.fixture
def tree(tmp_path):
    """Files, and links: to a file, to a directory elsewhere, to one above."""
    root, out = tmp_path / "tree", tmp_path / "out"
    for path in [root / "a-b", root / "d/f", out / "deep/g"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
        os.utime(path, (10**9, 10**9))
    (root / "a").symlink_to("../out")
    (root / "file").symlink_to("d/f")
    (root / "d/up").symlink_to("..")
    return root


def names(root):
    """All names below a directory; links with what they lead to."""
    found = (path for path in root.rglob("*") if path.is_symlink() or path.is_file())
    return sorted(
        f"{path.relative_to(root)} -> {os.readlink(path)}" if path.is_symlink() else str(path.relative_to(root))
        for path in found
    )


LINKS = ["a -> ../out", "a-b", "d/f", "d/up -> ..", "file -> d/f"]


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_the_policies(tidegate, embedded_bucket, tree, command):
    on = embedded_bucket
    command = [command, "-r"] if command == "cp" else [command]
    for how, keys, said in [
        (
            "files",
            ["a-b", "d/f", "file"],
            {f"warning: left out: {tree}/{name} is a symbolic link to a directory" for name in ("a", "d/up")},
        ),
        ("skip", ["a-b", "d/f"], {"3 symbolic links left out"}),
        ("follow", ["a-b", "a/deep/g", "d/f", "file"], {f"warning: left out: {tree}/d/up {BACK}"}),
    ]:
        run = tidegate(*command, "--links", how, f"{tree}/", on.url(f"{how}/"), *QUIET, env=on.env)
        assert run.exit == 0 and set(run.err.splitlines()) == said, run
        assert on.keys(f"{how}/") == [f"{how}/{key}" for key in keys]
    run = tidegate(*command, f"{tree}/", on.url("default/"), *QUIET, env=on.env)
    assert on.keys("default/") == ["default/a-b", "default/d/f", "default/file"], run


def test_skipped_links_are_counted_by_check_and_a_dry_run(tidegate, embedded_bucket, tree):
    on = embedded_bucket
    assert tidegate("sync", "--links", "skip", tree, on.url("t"), *QUIET, env=on.env).exit == 0
    run = tidegate("check", "--links", "skip", tree, on.url("t"), env=on.env)
    assert run.exit == 0 and run.err.splitlines() == [
        "3 symbolic links left out",
        "2 objects compared, no difference",
    ], run
    run = tidegate("sync", "--dry-run", "--links", "skip", tree, on.url("t"), env=on.env)
    assert run.exit == 0 and run.out == b"" and "3 symbolic links left out" in run.err, run
    # What the target has in place of a skipped link may be of an earlier command.
    on.put("t/file", b"1")
    run = tidegate("sync", "--delete", "--links", "skip", tree, on.url("t"), env=on.env)
    assert run.exit == 0 and on.exists("t/file"), run


def test_a_target_behind_a_link_is_not_copied_into_itself(tidegate, tree, tmp_path):
    target = tmp_path / "out/copy"
    for _ in range(2):
        run = tidegate("cp", "-r", "--links", "follow", f"{tree}/", f"{target}/", *QUIET)
        assert run.exit == 0 and names(target) == ["a-b", "a/deep/g", "d/f", "file"], run
    run = tidegate("sync", "--links", "follow", tree, target, *QUIET)
    assert run.exit == 0 and names(target) == ["a-b", "a/deep/g", "d/f", "file"], run


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_links_are_kept(tidegate, on, tree, tmp_path, command):
    command = [command, "--links", "preserve", *QUIET, *(["-r"] if command == "cp" else [])]
    (tree / "broken").symlink_to("no/where")
    run = tidegate(*command, f"{tree}/", on.url("t/"), env=on.env)
    assert run.exit == 0 and run.err == "", run
    keys = ["a-b", "a.rclonelink", "broken.rclonelink", "d/f", "d/up.rclonelink", "file.rclonelink"]
    assert on.keys("t/") == [f"t/{key}" for key in keys]
    assert on.get("t/a.rclonelink") == b"../out"
    for _ in range(2):
        run = tidegate(*command, on.url("t/"), f"{tmp_path}/down/", env=on.env)
        assert run.exit == 0 and run.err == "", run
        assert names(tmp_path / "down") == ["a -> ../out", "a-b", "broken -> no/where", *LINKS[2:]]
    assert not list((tmp_path / "down").rglob(".tidegate-*"))
    run = tidegate(*command, f"{tree}/", f"{tmp_path}/copy/")
    assert run.exit == 0 and names(tmp_path / "copy") == names(tree), run


def test_changed_links_are_synchronized(tidegate, embedded_bucket, tree, tmp_path):
    on, down = embedded_bucket, tmp_path / "down"
    sync = ("sync", "--delete", "--links", "preserve")
    for way in [(tree, on.url("t")), (on.url("t"), down)]:
        assert tidegate(*sync, *way, *QUIET, env=on.env).exit == 0
        run = tidegate(*sync, *way, env=on.env)
        assert run.err == "5 objects unchanged, 0 removed\n", run
        run = tidegate("check", "--checksum", "--links", "preserve", *way, env=on.env)
        assert run.exit == 0, run
    (tree / "file").unlink()
    (tree / "file").symlink_to("d/../a-b")
    (tree / "a").unlink()
    for way in [(tree, on.url("t")), (on.url("t"), down)]:
        run = tidegate("check", "--checksum", "--links", "preserve", *way, env=on.env)
        assert run.exit == 1 and sorted(run.text.split()) == ["a.rclonelink", "extra", "file.rclonelink", "size"], run
        run = tidegate(*sync, *way, env=on.env)
        assert run.exit == 0 and "3 objects unchanged, 1 removed" in run.err, run
    assert names(down) == ["a-b", "d/f", "d/up -> ..", "file -> d/../a-b"]


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_a_hostile_bucket_writes_nothing_outside(tidegate, embedded_bucket, tmp_path, command):
    on, down, etc = embedded_bucket, tmp_path / "down", tmp_path / "etc"
    etc.mkdir()
    (etc / "passwd").write_text("root")
    command = [command, "--links", "preserve", *QUIET, *(["-r"] if command == "cp" else [])]

    def get():
        return tidegate(*command, on.url("t/"), f"{down}/", env=on.env)

    # In one run: the directory is there before the link is made, so the link can't be.
    on.put("t/d.rclonelink", str(etc).encode())
    on.put("t/d/passwd", b"hostile")
    on.put("t/e.rclonelink", str(etc).encode())
    on.put("t/e/new/link.rclonelink", b"anywhere")
    on.put("t/passwd.rclonelink", str(etc / "passwd").encode())
    run = get()
    assert run.exit == 1 and f"{down}/d" in run.err, run
    assert (down / "d/passwd").read_bytes() == b"hostile"
    assert names(etc) == ["passwd"] and (etc / "passwd").read_text() == "root"
    # In two runs: the links are there, and files come behind them.
    on.put("t/e/passwd", b"hostile")
    on.put("t/passwd", b"hostile")
    run = get()
    assert run.exit == 1 and run.err.count("is a symbolic link, and nothing is written through links") >= 1, run
    on.client.delete_object(Bucket=on.name, Key="t/e.rclonelink")
    on.client.delete_object(Bucket=on.name, Key="t/e/new/link.rclonelink")
    if not (down / "e").is_symlink():
        (down / "e").rename(tmp_path / "aside")
        (down / "e").symlink_to(etc)
    run = get()
    assert (
        run.exit == 1 and f"{down}/e is a symbolic link" in run.err and f"{down}/passwd is a symbolic link" in run.err
    ), run
    assert names(etc) == ["passwd"] and (etc / "passwd").read_text() == "root"


REFUSED = "is a symbolic link, and nothing is written through links"


@pytest.fixture
def elsewhere(tmp_path):
    """A directory outside of every target: what is written there was written through a link."""
    return plant(tmp_path / "elsewhere", {"x": b"newer edits", "file": b"kept"})


@pytest.mark.parametrize("links", [[], ["--links", "skip"], ["--links", "preserve"]], ids=str)
@pytest.mark.parametrize("command", ["cp", "sync", "mv", "pattern", "list"])
@pytest.mark.parametrize("source", ["embedded", "disk"])
def test_nothing_is_written_through_a_link_below_the_target(
    tidegate, request, tmp_path, elsewhere, source, command, links
):
    source = places(request, tmp_path)(source)
    files = {"a": b"1", "d/x": b"theirs", "d/new/y": b"2", "e/deep/w": b"3", "file": b"4", "z": b"5"}
    for name, content in files.items():
        source.put(name, content)
    down = plant(tmp_path / "down", {})
    (down / "d").symlink_to(elsewhere)
    (down / "e").mkdir()
    (down / "e/deep").symlink_to("../../elsewhere")
    (down / "file").symlink_to(elsewhere / "file")
    words, stdin = {
        "cp": (["cp", "-r", source.url(), f"{down}/"], None),
        "mv": (["mv", "-r", source.url(), f"{down}/"], None),
        "sync": (["sync", source.url(), down], None),
        "pattern": (["cp", source.url("**"), f"{down}/"], None),
        "list": (["cp", "--files-from", "-", source.url(), f"{down}/"], "\n".join(files).encode()),
    }[command]
    for _ in range(2):
        run = tidegate(*words, *links, *QUIET, env=source.env, stdin=stdin)
        if command == "mv":
            assert set(source.held()) == set(files) - {"a", "z"}, run
        assert run.exit == 1, run
        assert below(elsewhere) == {"x": b"newer edits", "file": b"kept"}, run
        refused = {down / "d", down / "e/deep", down / "file"}
        assert {line for line in refused if f"{line} {REFUSED}" in run.err} == refused, run
        assert {name: (down / name).read_bytes() for name in "az"} == {"a": b"1", "z": b"5"}, run
        assert (down / "d").is_symlink() and (down / "file").is_symlink()


@pytest.mark.parametrize("command", ["cp", "mv", "several", "dry run"])
@pytest.mark.parametrize("source", ["embedded", "disk"])
def test_a_tree_is_not_copied_through_a_link_of_its_name(tidegate, request, tmp_path, elsewhere, source, command):
    """The user names `down/`, and the tree's name is that of a link in it."""
    source = places(request, tmp_path)(source)
    for name in ("d/x", "d/new", "e/y"):
        source.put(name, b"theirs")
    down = plant(tmp_path / "down", {})
    (down / "d").symlink_to(elsewhere)
    words = {
        "cp": ["cp", "-r", source.url("d"), f"{down}/"],
        "mv": ["mv", "-r", source.url("d"), f"{down}/"],
        "several": ["mv", "-r", source.url("e"), source.url("d"), f"{down}/"],
        "dry run": ["cp", "-r", "--dry-run", source.url("d"), f"{down}/"],
    }[command]
    run = tidegate(*words, *QUIET, env=source.env)
    assert run.exit == 1 and f"{down}/d {REFUSED}" in run.err, run
    assert below(elsewhere) == {"x": b"newer edits", "file": b"kept"}, run
    assert set(source.held()) == {"d/x", "d/new"} | (set() if command == "several" else {"e/y"}), run
    if command == "cp":
        run = tidegate(*words, "--links", "follow", *QUIET, env=source.env)
        assert run.exit == 0 and below(elsewhere) == {"x": b"theirs", "new": b"theirs", "file": b"kept"}, run


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_links_below_the_target_are_followed_if_that_is_asked_for(
    tidegate, embedded_bucket, tmp_path, elsewhere, command
):
    """What is written there is listed there, too: the second run has nothing to do, and newer edits stay."""
    on, down = embedded_bucket, plant(tmp_path / "down", {})
    (down / "d").symlink_to(elsewhere)
    for name in ("a", "d/y", "d/x"):
        on.put(f"t/{name}", b"from afar")
    words = {"cp": ["cp", "-r", on.url("t/"), f"{down}/"], "sync": ["sync", "--delete", on.url("t/"), down]}[command]
    run = tidegate(*words, "--links", "follow", *QUIET, env=on.env)
    assert run.exit == 0 and below(elsewhere) == {"x": b"from afar", "y": b"from afar", "file": b"kept"}, run
    assert (down / "d").is_symlink()
    if command == "sync":
        assert "not removed" in run.err and f"{down}/d/file" in run.err, run
        (elsewhere / "x").write_bytes(b"new edits")
        run = tidegate(*words, "--links", "follow", *QUIET, env=on.env)
        assert run.exit == 0 and (elsewhere / "x").read_bytes() == b"new edits", run


@pytest.mark.parametrize("command", ["cp", "sync", "mv", "one"])
def test_a_link_of_an_earlier_run_leads_nowhere_for_the_next(tidegate, embedded_bucket, tmp_path, elsewhere, command):
    """A bucket makes the link in one run (--links preserve), and would write through it in the next, without."""
    on, down = embedded_bucket, tmp_path / "down"
    on.put("t/d.rclonelink", str(elsewhere).encode())
    on.put("t/file.rclonelink", str(elsewhere / "file").encode())
    run = tidegate("cp", "-r", "--links", "preserve", on.url("t/"), f"{down}/", *QUIET, env=on.env)
    assert run.exit == 0 and names(down) == [f"d -> {elsewhere}", f"file -> {elsewhere}/file"], run
    on.put("u/d/x", b"hostile")
    on.put("u/file", b"hostile")
    words = {
        "cp": ["cp", "-r", on.url("u/"), f"{down}/"],
        "mv": ["mv", "-r", on.url("u/"), f"{down}/"],
        "sync": ["sync", on.url("u/"), down],
        "one": ["cp", on.url("u/file"), f"{down}/"],
    }[command]
    run = tidegate(*words, *QUIET, env=on.env)
    assert run.exit != 0 and REFUSED in run.err, run
    assert below(elsewhere) == {"x": b"newer edits", "file": b"kept"} and len(on.keys("u/")) == 2, run


def test_a_link_that_the_user_names_is_written_through(tidegate, embedded_bucket, tmp_path, elsewhere):
    on = embedded_bucket
    on.put("t/x", b"1")
    (tmp_path / "link").symlink_to(elsewhere)
    (tmp_path / "file").symlink_to(elsewhere / "file")
    run = tidegate("cp", "-r", on.url("t/"), tmp_path / "link/", *QUIET, env=on.env)
    assert run.exit == 0 and (elsewhere / "x").read_bytes() == b"1", run
    run = tidegate("cp", on.url("t/x"), tmp_path / "file", *QUIET, env=on.env)
    assert run.exit == 0 and (elsewhere / "file").read_bytes() == b"1", run


def test_a_dry_run_says_what_lies_behind_links(tidegate, embedded_bucket, tmp_path, elsewhere):
    on, down = embedded_bucket, plant(tmp_path / "down", {})
    (down / "d").symlink_to(elsewhere)
    on.put("t/a", b"1")
    on.put("t/d/x", b"2")
    for words in (["cp", "-r", on.url("t/"), f"{down}/"], ["sync", on.url("t/"), down]):
        planned = tidegate(*words, "--dry-run", env=on.env)
        run = tidegate(*words, "-v", *QUIET, env=on.env)
        assert planned.exit == run.exit == 1 and f"{down}/d {REFUSED}" in planned.err, planned
        assert [line.split(" (")[0] for line in lines(planned)] == [line.split(" (")[0] for line in lines(run)], planned
        (down / "a").unlink()


@pytest.mark.parametrize("command", ["cp", "mv", "sync", "list"])
def test_a_file_and_a_link_of_one_name_are_not_both_made(tidegate, embedded_bucket, tmp_path, command):
    """The object `f` and the object `f.rclonelink` are one name on a disk: the second is refused, and stays."""
    on, down = embedded_bucket, tmp_path / "down"
    objects = {"f": b"the only copy", "f!": b"between", "f.rclonelink": b"nowhere", "g": b"2", "l.rclonelink": b"f"}
    for name, content in objects.items():
        on.put(f"q/{name}", content)
    words = {
        "cp": ["cp", "-r", on.url("q/"), f"{down}/"],
        "mv": ["mv", "-r", on.url("q/"), f"{down}/"],
        "sync": ["sync", "--delete", on.url("q/"), down],
        "list": ["mv", "--files-from", "-", on.url("q/"), f"{down}/"],
    }[command]
    runs = 2 if command in ("cp", "sync") else 1
    for _ in range(runs):
        if command != "list":
            planned = tidegate(*words, "--links", "preserve", "--dry-run", env=on.env)
            assert planned.exit == 1 and "q/f.rclonelink" not in planned.text, planned
        stdin = "\n".join(objects).encode() if command == "list" else None
        run = tidegate(*words, "--links", "preserve", *QUIET, env=on.env, stdin=stdin)
        assert run.exit == 1 and "another object of this command goes there" in run.err, run
        assert "q/f.rclonelink" in run.err
        assert names(down) == ["f", "f!", "g", "l -> f"] and (down / "f").read_bytes() == b"the only copy", run
    left = ["q/f.rclonelink"] if "mv" in words else [f"q/{name}" for name in objects]
    assert on.keys("q/") == left


@pytest.mark.parametrize("named", ["below", "whole"])
@pytest.mark.parametrize("command", ["cp", "mv"])
def test_a_list_takes_links_as_a_tree_does(tidegate, embedded_bucket, tree, tmp_path, command, named):
    on = embedded_bucket
    (tree / "broken").symlink_to("no/where")
    listed = ["a", "a-b", "broken", "d/f", "file", "d/up"]
    before = names(tree)

    def run(how):
        text = "".join(f"{tree}/{name}\n" if named == "whole" else f"{name}\n" for name in listed)
        words = [f"{tree}/"] if named == "below" else []
        return tidegate(
            command,
            "--links",
            how,
            "--files-from",
            "-",
            *words,
            on.url(f"{how}/"),
            *QUIET,
            env=on.env,
            stdin=text.encode(),
        )

    def keys(how):
        key = lambda name: f"{how}/{name.rsplit('/')[-1] if named == 'whole' else name}"
        return sorted(
            map(key, ["a.rclonelink", "a-b", "broken.rclonelink", "d/f", "file.rclonelink", "d/up.rclonelink"])
        )

    done = run("preserve")
    assert done.exit == 0 and on.keys("preserve/") == keys("preserve"), done
    assert names(tree) == ([] if command == "mv" else before), done
    assert on.get("preserve/a.rclonelink") == b"../out" and on.get("preserve/broken.rclonelink") == b"no/where"
    if command == "cp":
        done = run("skip")
        assert done.exit == 0 and "4 symbolic links left out" in done.err, done
        assert on.keys("skip/") == (["skip/a-b", "skip/d/f"] if named == "below" else ["skip/a-b", "skip/f"])
    # And down again.
    down = tmp_path / "down"
    words = [on.url("preserve/")] if named == "below" else []
    text = "".join(
        f"{on.url(key) if named == 'whole' else key.removeprefix('preserve/')}\n" for key in keys("preserve")
    )
    words = [command, "--links", "preserve", "--files-from", "-", *words, f"{down}/"]
    done = tidegate(*words, *QUIET, env=on.env, stdin=text.encode())
    assert done.exit == 0 and (down / "a").is_symlink() and os.readlink(down / "broken") == "no/where", done
    assert on.keys("preserve/") == ([] if command == "mv" else keys("preserve"))


def test_a_list_moves_no_link_to_a_file_that_it_moves_too(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a": b"1"})
    (root / "link").symlink_to("a")
    run = tidegate("mv", "--files-from", "-", root, on.url("t/"), *QUIET, env=on.env, stdin=b"a\nlink\n")
    assert run.exit == 1 and "link: not moved" in run.err and (root / "link").is_symlink(), run
    assert on.keys("t/") == ["t/a"]


def test_what_is_no_text_of_a_link(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    for key, content in {"long": b"x" * 4097, "empty": b"", "nul": b"a\0b", "good": b"x" * 4000}.items():
        on.put(f"t/{key}.rclonelink", content)
    run = tidegate("cp", "-r", "--links", "preserve", on.url("t/"), f"{tmp_path}/down/", *QUIET, env=on.env)
    assert run.exit == 1, run
    for key, why in [("long", "it has 4097 bytes"), ("empty", "is no text"), ("nul", "is no text")]:
        assert any(f"t/{key}.rclonelink" in line and why in line for line in run.err.splitlines()), run
    assert names(tmp_path / "down") == ["good -> " + "x" * 4000]


def test_a_link_and_a_file_of_one_key(tidegate, embedded_bucket, tree):
    on = embedded_bucket
    (tree / "a.rclonelink").write_text("a file")
    run = tidegate("sync", "--links", "preserve", tree, on.url("t"), *QUIET, env=on.env)
    assert run.exit == 1 and "a.rclonelink: a file has this name, and a symbolic link has it as an object" in run.err, (
        run
    )


@pytest.mark.parametrize("command", ["cp", "mv"])
@pytest.mark.parametrize("target", ["embedded", "disk"])
def test_a_link_that_is_named_is_copied_as_one(tidegate, request, tmp_path, target, command):
    target, tree = places(request, tmp_path)(target), plant(tmp_path / "tree", {"file": b"1", "d/f": b"2"})
    (tree / "link").symlink_to("file")
    (tree / "up").symlink_to("d")
    (tree / "broken").symlink_to("no/where")
    run = tidegate(command, "--links", "preserve", tree / "link", target.url("one/"), *QUIET, env=target.env)
    assert run.exit == 0, run
    several = [tree / "up", tree / "broken"]
    run = tidegate(command, "--links", "preserve", *several, target.url("all/"), *QUIET, env=target.env)
    assert run.exit == 0, run
    if isinstance(target, Folder):
        made = {name: os.readlink(target.root / name) for name in ("one/link", "all/up", "all/broken")}
    else:
        made = {name.removesuffix(".rclonelink"): text.decode() for name, text in target.held().items()}
    assert made == {"one/link": "file", "all/up": "d", "all/broken": "no/where"}, run
    left = [] if command == "mv" else ["broken -> no/where", "link -> file", "up -> d"]
    assert [name for name in names(tree) if " -> " in name] == left and (tree / "file").exists()


@pytest.mark.parametrize("how", ["one", "several", "list"])
def test_a_name_that_a_file_and_a_link_have_is_refused(tidegate, tmp_path, how):
    tree, down = plant(tmp_path / "tree", {"x.rclonelink": b"the only copy", "y": b"2"}), tmp_path / "down"
    (tree / "x").symlink_to("nowhere")
    words, stdin = {
        "one": ([tree / "x.rclonelink"], None),
        "several": ([tree / "x.rclonelink", tree / "y"], None),
        "list": (["--files-from", "-", f"{tree}/"], b"x.rclonelink\n"),
    }[how]
    run = tidegate("mv", "--links", "preserve", *words, f"{down}/", *QUIET, stdin=stdin)
    assert run.exit == 1 and "x.rclonelink: a file has this name, and a symbolic link has it as an object" in run.err, (
        run
    )
    assert (tree / "x.rclonelink").read_bytes() == b"the only copy" and (tree / "x").is_symlink(), run


def test_a_name_of_a_list_is_a_path_first(tidegate, tmp_path):
    """A link whose name ends as those of the objects of links: the path names it, and not the other link."""
    tree, down = plant(tmp_path / "tree", {}), plant(tmp_path / "down", {})
    (tree / "x").symlink_to("nowhere")
    (tree / "x.rclonelink").symlink_to("there")
    words = ["mv", "--links", "preserve", "--files-from", "-", f"{tree}/", f"{down}/"]
    run = tidegate(*words, *QUIET, stdin=b"x.rclonelink\n")
    assert run.exit == 0 and names(down) == ["x.rclonelink -> there"] and names(tree) == ["x -> nowhere"], run


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_a_file_in_a_directory_of_an_objects_name_is_not_replaced_by_a_link(
    tidegate, embedded_bucket, tmp_path, command
):
    """`d` and `d/f` can't both be files: the directory stays, and what is in it is compared as elsewhere."""
    on, down = embedded_bucket, plant(tmp_path / "down", {"d/f": b"old"})
    for name, content in {"d": b"1", "d/f": b"new!", "d/f.rclonelink": b"nowhere"}.items():
        on.put(f"q/{name}", content)
    words = {"cp": ["cp", "-r", on.url("q/"), f"{down}/"], "sync": ["sync", on.url("q/"), down]}[command]
    run = tidegate(*words, "--links", "preserve", *QUIET, env=on.env)
    assert run.exit == 1 and "q/d/f.rclonelink" in run.err and f"{down}/d" in run.err, run
    assert names(down) == ["d/f"] and (down / "d/f").read_bytes() == b"new!", run


def test_links_keep_their_time(tidegate, embedded_bucket, tree, tmp_path):
    on = embedded_bucket
    os.utime(tree / "file", ns=(1, 1_000_000_000_500_000_000), follow_symlinks=False)
    for way in [(f"{tree}/", on.url("t/")), (on.url("t/"), f"{tmp_path}/down/")]:
        run = tidegate("cp", "-r", "--preserve", "--links", "preserve", *way, *QUIET, env=on.env)
        assert run.exit == 0, run
    assert (tmp_path / "down/file").lstat().st_mtime_ns == 1_000_000_000_500_000_000
    run = tidegate("sync", "--preserve", "--links", "preserve", on.url("t"), tmp_path / "down", env=on.env)
    assert run.err == "5 objects unchanged\n", run


def test_rclone_makes_the_same_links(tidegate, bucket, minio, tree, tmp_path):
    config, endpoint = tmp_path / "rclone.conf", minio.endpoint
    config.write_text(
        f"[s3]\ntype = s3\nprovider = Minio\naccess_key_id = {endpoint.access_key}\n"
        f"secret_access_key = {endpoint.secret_key}\nregion = {REGION}\nendpoint = {endpoint.url}\n"
    )

    def rclone(*args):
        command = [TOOLS / "rclone", "--config", config, "copy", "--links", *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr

    rclone(tree, f"s3:{bucket.name}/theirs")
    args = ("cp", "-r", "--links", "preserve", *QUIET)
    assert tidegate(*args, bucket.url("theirs/"), f"{tmp_path}/ours/", env=bucket.env).exit == 0
    assert names(tmp_path / "ours") == LINKS
    assert tidegate(*args, f"{tree}/", bucket.url("u/"), env=bucket.env).exit == 0
    rclone(f"s3:{bucket.name}/u", tmp_path / "back")
    assert names(tmp_path / "back") == LINKS


@pytest.mark.parametrize("command", [("cp", "-r"), ("mv", "-r"), ("sync",), ("cp", "-r", "--journal", "journal")])
def test_a_directory_that_becomes_a_link_is_not_entered(tidegate, embedded_bucket, counts, knobs, tmp_path, command):
    on = embedded_bucket
    names = [f"d/e/{number:03}" for number in range(400)]
    (tmp_path / "journal").mkdir()
    root = plant(tmp_path / "tree", dict.fromkeys(names, b"inside"))
    plant(tmp_path / "other", {name.removeprefix("d/e/"): b"outside" for name in names})
    knobs(faults=[{"operation": "PutObject|CreateMultipartUpload", "action": {"delay_ms": 300}}])
    counts.reset()
    run = tidegate.start(*command, f"{root}/", on.url("t/"), *QUIET, env=on.env, cwd=tmp_path)
    until("files are sent", lambda: any(counts().get(name) for name in ("PutObject", "CreateMultipartUpload")))
    (root / "d/e").rename(tmp_path / "moved")
    (root / "d/e").symlink_to("../../other")
    result = run.wait()
    assert result.exit == 1, result
    held = {key: on.get(key) for key in on.keys("t/")}
    assert len(held) < 400 and set(held.values()) <= {b"inside"}
    said = [line for line in result.err.splitlines() if "since it was listed" in line]
    assert said and all(f"{root}/d/e became a symbolic link" in line for line in said), result.err[-2000:]
    assert f"{root}/d/e/399: " in result.err
    assert len(below(tmp_path / "other")) == 400 and len(below(tmp_path / "moved")) == 400


@pytest.mark.parametrize("link", [("notes", "real"), ("d", "e")])
def test_a_file_that_an_object_is_by_a_link_is_no_extra(tidegate, tmp_path, link):
    """The second run, too, keeps what the first has written through the link."""
    (name, to), source, target = link, tmp_path / "s", tmp_path / "t"
    for tree, content in [(source, "data"), (target, "old")]:
        file = tree / (name if tree == source else to) / ("x" if name == "d" else "")
        file.parent.mkdir(parents=True)
        file.write_text(content)
    (target / "extra").write_text("extra")
    os.symlink(to, target / name)
    written = target / name / ("x" if name == "d" else "")
    for _ in range(2):
        words = ("sync", "--links", "follow", "--delete", f"{source}/", f"{target}/")
        dry = tidegate(*words, "--dry-run")
        run = tidegate(*words)
        assert run.exit == 0 and written.read_text() == "data" and not (target / "extra").exists(), run
        for each in (dry, run):
            assert each.err.count("is this file by another name") == 1, each
