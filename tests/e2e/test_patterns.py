"""Patterns in URLs and the options that choose among objects, of every command that walks."""

import datetime
import json
import os

import pytest

from harness.lines import one_sentence
from trees import OLD, below, lines, plant, stored

KEYS = ["2026-a.gz", "2026-b.gz", "2026-b.txt", "2026-d/a.gz", "2026-d/e/a.gz", "other", "z/2026-a.gz"]
ODD = ["a?b", "a[1]", "{x,y}", "s p ", "new\nline", "é", "*", "**", "-x", "a*b", "+%20", "dir/"]

# What each pattern takes, and what with -r.
MATCHES = [
    ("2026-*.gz", [0, 1], [0, 1]),
    ("2026-*", [0, 1, 2], [0, 1, 2, 3, 4]),
    ("*", [0, 1, 2, 5], [0, 1, 2, 3, 4, 5, 6]),
    ("**", [0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]),
    ("**.gz", [0, 1, 3, 4, 6], [0, 1, 3, 4, 6]),
    ("2026-*/a.gz", [3], [3]),
    ("2026-*/**/a.gz", [3, 4], [3, 4]),
    ("*/2026-a.gz", [6], [6]),
    ("2026-?.gz", None, None),
    ("2026-[ab].gz", None, None),
]


@pytest.fixture
def filled(embedded, embedded_bucket):
    embedded.control("POST", "objects", {"bucket": embedded_bucket.name, "keys": [f"t/{key}" for key in KEYS]})
    return embedded_bucket


@pytest.mark.parametrize(("pattern", "taken", "with_r"), MATCHES)
def test_a_pattern_means_the_same_for_every_command(tidegate, filled, tmp_path, pattern, taken, with_r):
    on, root = filled, plant(tmp_path / "t", {key: b"" for key in KEYS})
    if "*" not in pattern:
        assert tidegate("rm", on.url(f"t/{pattern}"), env=on.env).exit == 3
        assert len(on.keys()) == len(KEYS), "these characters stand for themselves"
        return
    for option, expected in (([], taken), (["-r"], with_r)):
        names = sorted(KEYS[number] for number in expected)
        for source in (on.url("t/"), f"{root}/"):
            for words, line in [
                (
                    ["cp", "--dry-run", *option, source + pattern, "s3://bucket/d/"],
                    "copy {s}{k} -> s3://bucket/d/{k} (0 bytes)",
                ),
                (["rm", "--dry-run", *option, source + pattern], "remove {s}{k}"),
            ]:
                run = tidegate(*words, env=on.env)
                assert run.exit == 0 and lines(run) == sorted(line.format(s=source, k=key) for key in names), run
        run = tidegate("ls", "--json", *option, on.url(f"t/{pattern}"), env=on.env)
        assert [entry["url"] for entry in run.json] == [on.url(f"t/{key}") for key in names], run
    run = tidegate("du", "--json", on.url(f"t/{pattern}"), env=on.env)
    assert run.json[0]["objects"] == len(taken), run


def test_a_shell_less_pattern_of_the_working_directory(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a.gz": b"1", "b.txt": b"2", "d/a.gz": b"3"})
    run = tidegate("cp", "*.gz", on.url("t/"), env=on.env, cwd=root)
    assert run.exit == 0 and stored(on) == {"t/a.gz": b"1"}, run
    run = tidegate("cp", "**.gz", on.url("u"), env=on.env, cwd=root)
    assert run.exit == 0 and stored(on, "u/") == {"a.gz": b"1", "d/a.gz": b"3"}, run


def test_every_character_but_the_star_is_itself(tidegate, on, tmp_path):
    # versitygw makes no copies of a folder's object.
    odd = {key: key.encode() for key in ODD if key != "dir/" or on.endpoint.access_key != "versitygw"}
    for key, body in odd.items():
        on.put(f"t/{key}", body)
    run = tidegate("cp", "-r", on.url("t/"), on.url("all/"), env=on.env)
    assert run.exit == 0 and stored(on, "all/") == odd, run
    for key, body in odd.items():
        one = tidegate("cat", "--literal", on.url(f"t/{key}"), env=on.env)
        assert (one.exit, one.out) == (0, body), one
    removed = odd.keys() & {"*", "a*b", "dir/"}
    for key in removed:
        run = tidegate("rm", "--literal", on.url(f"t/{key}"), env=on.env)
        assert run.exit == 0 and not on.exists(f"t/{key}") and on.exists("t/é"), run
    assert len(on.keys("t/")) == len(odd) - len(removed)
    down = tmp_path / "down"
    run = tidegate("cp", on.url("all/*"), down, env=on.env)
    assert run.exit == 0 and below(down) == {key: body for key, body in odd.items() if key != "dir/"}, run


def test_a_local_name_with_a_star_is_a_file_if_it_is_there(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a*": b"star", "ab": b"2", "d*/f": b"3", "dd/f": b"4"})
    run = tidegate("cp", root / "a*", on.url("x/"), env=on.env)
    assert run.exit == 0 and stored(on, "x/") == {"a*": b"star"}, run
    run = tidegate("cp", "-r", root / "d*", on.url("y/"), env=on.env)
    assert run.exit == 0 and stored(on, "y/") == {"d*/f": b"3"}, run
    run = tidegate("rm", root / "a*")
    assert run.exit == 0 and set(below(root)) == {"ab", "d*/f", "dd/f"}, run
    # Now the name is a pattern, which matches what it would for a store.
    run = tidegate("rm", root / "a*")
    assert run.exit == 0 and set(below(root)) == {"d*/f", "dd/f"}, run
    run = tidegate("rm", "--literal", root / "d*f")
    one_sentence(run, "d*f", exit=3)


def test_a_pattern_that_matches_nothing_does_nothing(tidegate, filled, tmp_path):
    on, target = filled, tmp_path / "down"
    for pattern in ("none*", "2026-*.zip", "*/none", "none/**"):
        for words in (
            ["cp", "{}", target],
            ["cp", "-r", "{}", target],
            ["mv", "{}", target],
            ["mv", "--dry-run", "{}", target],
        ):
            one_sentence(tidegate(*(str(w).format(on.url(f"t/{pattern}")) for w in words), env=on.env), pattern, exit=3)
        for words in (
            ["rm", "{}"],
            ["rm", "-r", "{}"],
            ["rm", "--dry-run", "{}"],
            ["ls", "{}"],
            ["du", "{}"],
            ["cat", "{}"],
        ):
            one_sentence(tidegate(*(w.format(on.url(f"t/{pattern}")) for w in words), env=on.env), pattern, exit=3)
    assert len(on.keys()) == len(KEYS) and not target.exists()
    for words in (["rm"], ["ls"], ["du"], ["cat"]):
        one_sentence(tidegate(*words, "s3://buck*/k", env=on.env), "bucket's name", exit=2)


def test_one_pattern_of_several_that_matches_nothing_is_a_failure(tidegate, filled, tmp_path):
    on = filled
    run = tidegate("cp", on.url("t/none*"), on.url("t/oth*"), tmp_path, env=on.env)
    assert run.exit == 1 and "none*" in run.err and below(tmp_path) == {"other": b""}, run
    run = tidegate("rm", on.url("t/none*"), on.url("t/oth*"), env=on.env)
    assert run.exit == 1 and "none*" in run.err and not on.exists("t/other"), run


@pytest.mark.parametrize("command", ["ls", "du", "rm", "cp", "mv", "cat"])
def test_a_shallow_pattern_lists_one_level(tidegate, embedded, embedded_bucket, counts, tmp_path, command):
    on = embedded_bucket
    deep = [f"t/d/{number:04}" for number in range(2500)]
    embedded.control("POST", "objects", {"bucket": on.name, "keys": [*deep, "t/a.gz", "t/b.gz"]})
    target = {"cp": [tmp_path / "x"], "mv": [tmp_path / "x"]}.get(command, [])
    counts.reset()
    run = tidegate(command, on.url("t/*.gz"), *target, env=on.env)
    assert run.exit == 0 and counts()["ListObjectsV2"] == 1, run
    counts.reset()
    run = tidegate("ls", on.url("t/d/00*"), env=on.env)
    assert run.exit == 0 and counts() == {"ListObjectsV2": 1} and len(lines(run)) == 100, "the beginning is asked for"


@pytest.mark.parametrize("words", [["cp", "-r", "{}"], ["cp", "{}**"], ["mv", "-r", "{}"]], ids=str)
def test_a_dry_run_costs_its_listing(tidegate, filled, counts, tmp_path, words):
    counts.reset()
    run = tidegate(*(word.format(filled.url("t/")) for word in words), "--dry-run", tmp_path / "x", env=filled.env)
    assert run.exit == 0 and len(lines(run)) >= len(KEYS) and counts() == {"ListObjectsV2": 1}, (run, counts())


SIZES = {"big": b"x" * 3000, "mid": b"x" * 2000, "d/small": b"x", "d/x.txt": b"x" * 2000, "tmp/big": b"x" * 3000}
FILTERS = [
    (["--min-size", "2000"], ["big", "mid", "d/x.txt", "tmp/big"]),
    (["--max-size", "2KB"], ["mid", "d/small", "d/x.txt"]),
    (["--min-size", "1K", "--max-size", "2K"], ["mid", "d/x.txt"]),
    (["--include", "*.txt"], ["d/x.txt"]),
    (["--include", "/big"], ["big"]),
    (["--include", "big", "--exclude", "tmp"], ["big"]),
    (["--exclude", "tmp/", "--exclude", "d"], ["big", "mid"]),
    (["--exclude", "*", "--include", "d/*"], ["d/small", "d/x.txt"]),
    (["--exclude", "**/big"], ["mid", "d/small", "d/x.txt"]),
    (["--include", "**small"], ["d/small"]),
    (["--newer-than", "2001-09-09", "--exclude", "tmp"], ["big", "mid", "d/small", "d/x.txt"]),
    (["--older-than", "2001-09-09"], []),
    (["--newer-than", "1h", "--min-size", "1G"], []),
]


@pytest.mark.parametrize(("options", "taken"), FILTERS, ids=str)
def test_filters_mean_the_same_for_every_command(tidegate, embedded_bucket, tmp_path, options, taken):
    on, root = embedded_bucket, plant(tmp_path / "t", SIZES)
    run = tidegate("cp", "-r", *options, root, on.url("up"), env=on.env)
    assert run.exit == 0 and set(on.keys("up/")) == {f"up/{key}" for key in taken}, run
    for key, body in SIZES.items():
        on.put(f"t/{key}", body)
    for words, line in [
        (["cp", "-r", "--dry-run", on.url("t/"), "x/"], "x/{}"),
        (["mv", "-r", "--dry-run", on.url("t/"), "x/"], "x/{}"),
        (["rm", "-r", "--dry-run", on.url("t/")], on.url("t/{}")),
        (["rm", "--dry-run", on.url("t/**")], on.url("t/{}"))
        if taken
        else (["rm", "-r", "--dry-run", on.url("t/")], ""),
        (["ls", "-r", on.url("t/")], on.url("t/{}")),
        *[(["sync", "--dry-run", on.url("t/"), tmp_path / "none"], f"{tmp_path}/none/{{}}")] * bool(taken),
    ]:
        run = tidegate(*words, *options, "--json", env=on.env)
        shown = {
            entry.get("target", entry.get("url")) for entry in run.json if entry["type"] != "remove" or words[0] == "rm"
        }
        assert run.exit == 0 and shown == {line.format(key) for key in taken}, run
    run = tidegate("du", "--json", *options, on.url("t/"), env=on.env)
    assert run.json[0]["bytes"] == sum(len(SIZES[key]) for key in taken), run
    assert len(on.keys("t/")) == len(SIZES) and below(root) == SIZES


@pytest.mark.parametrize(
    "words",
    [
        ["cp", "-r", "{url}", "{path}"],
        ["mv", "-r", "{url}", "{path}"],
        ["rm", "-r", "{url}"],
        ["ls", "{url}"],
        ["du", "{url}"],
        ["check", "{url}", "{path}"],
        ["sync", "{url}", "{path}"],
        ["sync", "--dry-run", "{url}", "{path}"],
        ["cp", "{url}*", "{path}"],
        ["rm", "{url}*"],
        ["ls", "{url}*"],
    ],
    ids=str,
)
def test_filters_that_choose_nothing_are_no_failure(tidegate, filled, tmp_path, words):
    words = [word.format(url=filled.url("t/"), path=tmp_path) for word in words]
    run = tidegate(*words, "--min-size", "1G", env=filled.env)
    assert len(filled.keys()) == len(KEYS) and below(tmp_path) == {}
    assert run.exit == 0, run


def test_filters_of_a_single_object_are_refused(tidegate, filled, tmp_path):
    for words in (["cp", "{}", tmp_path / "x"], ["mv", "{}", tmp_path / "x"], ["rm", "{}"]):
        words = [str(word).format(filled.url("t/other")) for word in words]
        one_sentence(tidegate(*words, "--exclude", "x", env=filled.env), "--exclude", exit=2)
    for option, value in [("--newer-than", "soon"), ("--min-size", "big"), ("--include", "")]:
        run = tidegate("rm", "-r", filled.url("t/"), option, value, env=filled.env)
        assert run.exit == 2 and option in run.err, run
    assert len(filled.keys()) == len(KEYS)


NAMING = [
    # A pattern's matches keep their path below the directory of the first name with a star, whatever the target is.
    (["t/2026-*/a.gz", "d"], ["d/2026-d/a.gz"]),
    (["t/2026-d/*", "d"], ["d/a.gz"]),
    (["t/2026-d/*", "d/"], ["d/a.gz"]),
    (["t/2026-d/**", "d/"], ["d/a.gz", "d/e/a.gz"]),
    (["-r", "t/2026-d*", "d/"], ["d/2026-d/a.gz", "d/2026-d/e/a.gz"]),
    (["t/2026-d/*", "t/z/*", "d/"], ["d/a.gz", "d/2026-a.gz"]),
    (["t/2026-d/*", "t/other", "d/"], ["d/a.gz", "d/other"]),
    (["-r", "t/2026-d", "t/oth*", "d/"], ["d/2026-d/a.gz", "d/2026-d/e/a.gz", "d/other"]),
]


@pytest.mark.parametrize(("words", "expected"), NAMING, ids=str)
def test_how_targets_are_named(tidegate, filled, tmp_path, words, expected):
    on = filled
    sources = [word if word == "-r" else on.url(word) for word in words[:-1]]
    run = tidegate("cp", *sources, on.url(words[-1]), env=on.env)
    assert run.exit == 0 and set(on.keys("d")) == set(expected), run
    run = tidegate("cp", *sources, f"{tmp_path}/{words[-1]}" if len(sources) == 1 else f"{tmp_path}/d/", env=on.env)
    assert run.exit == 0 and set(below(tmp_path)) == set(expected), run


def test_keys_that_no_file_can_have_are_named_and_the_others_copied(tidegate, embedded_bucket, tmp_path):
    on, objects = embedded_bucket, {"a//b": b"two slashes", "dir/": b"", "dir/f": b"1", "full/": b"bytes"}
    for key, body in objects.items():
        on.put(f"t/{key}", body)
    for command in ("cp", "mv"):
        run = tidegate(command, on.url("t/**"), tmp_path / command, env=on.env)
        assert run.exit == 1 and below(tmp_path / command) == {"dir/f": b"1"}, run
        for key in ("a//b", "dir/", "full/"):
            assert on.url(f"t/{key}") in run.err or key == "a//b" and key in run.err, run
    assert "t/dir/f" not in on.keys() and len(on.keys()) == 3, "what could not be moved stays"
    run = tidegate("mv", on.url("t/**"), on.url("u/"), env=on.env)
    del objects["dir/f"]
    assert run.exit == 0 and stored(on, "u/") == objects and not on.keys("t/"), run


def test_cat_writes_matches_in_the_order_of_the_keys(tidegate, on, tmp_path):
    for key in ("t/c", "t/a", "t/b", "t/d/x"):
        on.put(key, key.encode())
    run = tidegate("cat", on.url("t/*"), on.url("t/d/*"), env=on.env)
    assert (run.exit, run.out) == (0, b"t/at/bt/ct/d/x"), run
    run = tidegate("cat", on.url("t/**"), "--range", "2-2", env=on.env)
    assert (run.exit, run.out) == (0, b"abcd"), run
    plant(tmp_path, {"z": b"z", "a": b"a", "m/b": b"b"})
    assert tidegate("cat", f"{tmp_path}/**").out == b"abz"


def test_rm_removes_what_matches_and_nothing_else(tidegate, on):
    for key in KEYS:
        on.put(f"t/{key}", b"x")
    planned = tidegate("rm", "--dry-run", on.url("t/2026-*"), env=on.env)
    run = tidegate("rm", "-v", on.url("t/2026-*"), env=on.env)
    assert run.exit == 0 and lines(run) == lines(planned) and "3 objects" in run.err, run
    assert on.keys() == [f"t/{key}" for key in KEYS[3:]]
    run = tidegate("rm", "-r", on.url("t/2026-*"), "--exclude", "e", env=on.env)
    assert run.exit == 0 and on.keys() == ["t/2026-d/e/a.gz", "t/other", "t/z/2026-a.gz"], run


@pytest.mark.parametrize("words", [["-r", "{}"], ["{}/*"]], ids=str)
@pytest.mark.parametrize("option", [["--older-than", "30d"], ["--min-size", "1K"]], ids=str)
def test_rm_leaves_what_has_no_time_or_size_that_decides(tidegate, tmp_path, words, option):
    root = plant(tmp_path / "t", {"a": b"1"}, time=datetime.datetime.now().timestamp())
    (root / "broken").symlink_to("nowhere")
    (root / "directory").symlink_to(plant(tmp_path / "elsewhere", {}))
    os.mkfifo(root / "pipe")
    run = tidegate("rm", *(word.format(root) for word in words), *option)
    assert sorted(path.name for path in root.iterdir()) == ["a", "broken", "directory", "pipe"], run


@pytest.mark.parametrize("target", ["store", "disk"])
def test_sync_leaves_alone_what_the_filters_leave_out(tidegate, embedded_bucket, tmp_path, target):
    """Even with --delete: what would not be copied is not removed."""
    on, root = embedded_bucket, plant(tmp_path / "t", {"a.txt": b"1", "b.log": b"2", "tmp/x.txt": b"3"})
    url = on.url("t") if target == "store" else tmp_path / "u"

    def fill():
        files = {"old.txt": b"x", "old.log": b"x", "tmp/old.txt": b"x" * 5000, "a.txt": b"other"}
        if target == "disk":
            plant(url, files)
        else:
            for key, body in files.items():
                on.put(f"t/{key}", body)

    def held():
        return set(below(url) if target == "disk" else stored(on, "t/"))

    for options, removed in [
        (["--exclude", "*.log", "--exclude", "tmp"], {"old.txt"}),
        (["--include", "*.log"], {"old.log"}),
        (["--include", "/*.txt"], {"old.txt"}),
        (["--max-size", "1K"], {"old.txt", "old.log"}),
        (["--min-size", "1M"], set()),
        (["--older-than", "1990-01-01"], set()),
        (["--newer-than", "2090-01-01"], set()),
        ([], {"old.txt", "old.log", "tmp/old.txt"}),
    ]:
        fill()
        before = held()
        dry = tidegate("sync", "--size-only", "--delete", "--dry-run", *options, root, url, env=on.env)
        assert held() == before, dry
        run = tidegate("sync", "--size-only", "--delete", "--delete-all", "-v", *options, root, url, env=on.env)
        assert run.exit == 0 and before - held() == removed, run
        if "Nothing" not in dry.err and dry.exit == 0:
            assert lines(run) == lines(dry)
        check = tidegate("check", "--size-only", *options, root, url, env=on.env)
        assert check.exit == 0 and check.out == b"", check


def test_with_include_what_the_source_left_out_is_not_missing(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a.jpg": b"1"})
    (root / "albums").symlink_to(plant(tmp_path / "elsewhere", {"x.jpg": b"2"}))
    on.put("t/albums/old.jpg", b"2")
    run = tidegate("sync", "--delete", "--include", "*.jpg", root, on.url("t"), env=on.env)
    assert run.exit == 0 and on.keys() == ["t/a.jpg", "t/albums/old.jpg"], run


def test_check_looks_only_at_what_the_filters_take(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"a.txt": b"1", "b.log": b"2"})
    on.put("t/a.txt", b"1")
    on.put("t/c.tmp", b"")
    for options, differences in [
        ([], {("missing", "b.log"), ("extra", "c.tmp")}),
        (["--include", "*.txt"], set()),
        (["--exclude", "*.tmp"], {("missing", "b.log")}),
        (["--min-size", "1"], {("missing", "b.log")}),
    ]:
        run = tidegate("check", "--json", *options, root, on.url("t"), env=on.env)
        found = {(entry["difference"], entry["key"]) for entry in run.json}
        assert (run.exit, found) == (1 if differences else 0, differences), run


def test_times_are_ages_and_moments(tidegate, tmp_path):
    now = datetime.datetime.now(datetime.UTC)
    root = plant(tmp_path / "t", {"old": b"1"}, time=OLD)
    plant(root, {"yesterday": b"1"}, time=(now - datetime.timedelta(hours=20)).timestamp())
    plant(root, {"now": b"1"}, time=now.timestamp())
    for options, taken in [
        (["--newer-than", "1d"], {"yesterday", "now"}),
        (["--newer-than", "60min"], {"now"}),
        (["--older-than", "1h"], {"old", "yesterday"}),
        (["--older-than", "1h", "--newer-than", "30d"], {"yesterday"}),
        (["--older-than", "2001-09-10"], {"old"}),
        (["--older-than", "2001-09-09T01:46:40Z"], set()),
        (["--newer-than", "2001-09-09T01:46:39Z"], {"old", "yesterday", "now"}),
    ]:
        run = tidegate("ls", "--json", *options, f"{root}/")
        assert {json.loads(line)["url"].rsplit("/")[-1] for line in run.text.splitlines()} == taken, run
