"""What a command on trees leaves undone is said, by the dry run as well, and nothing else is removed before that is known."""

import os
import socket

import pytest

from harness.s3 import Bucket


def write(path, text="1"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def texts(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("key", ["a//b", "/a/b", "a/b//c"])
def test_a_key_that_spells_a_file_in_another_way_is_an_extra(tidegate, embedded_bucket, tmp_path, key):
    on = embedded_bucket
    write(tmp_path / "s/a/b")
    on.put(key, b"1")
    run = tidegate("sync", "--delete", tmp_path / "s", on.url(), env=on.env)
    assert run.exit == 0, run
    assert on.keys() == ["a/b"], run


@pytest.mark.parametrize("key", ["./a/b", "a/./b", "a/../a/b"])
def test_an_extra_whose_key_no_address_can_have_is_an_error(tidegate, embedded_bucket, tmp_path, key):
    on = embedded_bucket
    write(tmp_path / "s/a/b")
    on.put(key, b"1")
    run = tidegate("sync", "--delete", tmp_path / "s", on.url(), env=on.env)
    assert run.exit == 1 and key in run.err, run


@pytest.mark.parametrize("words", [("cp", "-r"), ("mv", "-r"), ("sync",), ("sync", "--delete")])
@pytest.mark.parametrize("key", ["a//b", "./x", "a/../../x", "n" * 256])
def test_a_dry_run_refuses_keys_that_no_file_can_have(tidegate, embedded_bucket, tmp_path, words, key):
    on = embedded_bucket
    on.put("good", b"1")
    on.put(key, b"1")
    (tmp_path / "t").mkdir()
    for dry in [("--dry-run",), ()]:
        run = tidegate(*words, *dry, on.url(), f"{tmp_path}/t/", env=on.env)
        assert run.exit == 1 and key[:50] in run.err, run
    assert on.exists(key)


@pytest.mark.parametrize("words", [("cp", "-r"), ("mv", "-r"), ("sync",), ("sync", "--delete")])
@pytest.mark.parametrize("links", [(), ("--links", "preserve")])
def test_a_dry_run_refuses_two_objects_of_one_name(tidegate, embedded_bucket, tmp_path, words, links):
    on = embedded_bucket
    first = "x.rclonelink" if links else "x"
    on.put(first, b"text")
    on.put("x/y", b"1")
    (tmp_path / "t").mkdir()
    for dry in [("--dry-run",), ()]:
        run = tidegate(*words, *dry, *links, on.url(), f"{tmp_path}/t/", env=on.env)
        # Links are made last.
        refused = first if links else on.url("x/y")
        assert run.exit == 1 and refused in run.err, run
    assert os.listdir(tmp_path / "t") == ["x"] and (tmp_path / "t/x").is_dir() == bool(links)
    assert on.exists(first if links else "x/y")


def test_a_list_with_two_objects_of_one_name_is_refused_in_both_orders(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    for key in ["x", "x/y"]:
        on.put(key, b"1")
    for number, names in enumerate(["x\nx/y\n", "x/y\nx\n"]):
        (tmp_path / "list").write_text(names)
        for dry in [("--dry-run",), ()]:
            words = ("cp", *dry, "--files-from", tmp_path / "list", on.url(), f"{tmp_path}/{number}/")
            run = tidegate(*words, env=on.env)
            assert run.exit == 1 and "not copied" in run.err, run


@pytest.mark.parametrize("words", [("sync", "--delete"), ("sync",), ("cp", "-r")])
def test_a_directory_that_the_source_needs_is_not_removed_for_an_object(tidegate, embedded_bucket, tmp_path, words):
    on = embedded_bucket
    for key in ["x", "x-", "x/y"]:
        on.put(key, b"new")
    write(tmp_path / "t/x/y", "older")
    write(tmp_path / "t/x/old", "extra")
    write(tmp_path / "t/other", "extra")
    for dry in [("--dry-run",), (), ()]:
        run = tidegate(*words, *dry, on.url(), f"{tmp_path}/t/", env=on.env)
        assert run.exit == 1 and "/x: " in run.err, run
    left = texts(tmp_path / "t")
    assert (left["x/old"], left["other"], left["x/y"], left["x-"]) == ("extra", "extra", "new", "new")


@pytest.mark.parametrize("kind", ["pipe", "excluded", "large", "link", "socket"])
def test_nothing_is_removed_if_a_directory_in_the_way_stays(tidegate, embedded_bucket, tmp_path, monkeypatch, kind):
    on = embedded_bucket
    on.put("d", b"file")
    on.put("f/x", b"file")
    folder = tmp_path / "t/d"
    write(folder / "extra")
    write(tmp_path / "t/f")
    write(tmp_path / "t/other")
    options = ()
    if kind == "pipe":
        os.mkfifo(folder / "stays")
    elif kind == "excluded":
        write(folder / "stays")
        options = ("--exclude", "stays")
    elif kind == "large":
        write(folder / "stays", "12345678")
        options = ("--max-size", "5")
    elif kind == "link":
        os.symlink("/", folder / "stays")
    else:
        monkeypatch.chdir(folder)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("stays")
    before = texts(tmp_path / "t")
    for dry in [("--dry-run",), (), ()]:
        run = tidegate("sync", "--delete", *options, *dry, on.url(), tmp_path / "t", env=on.env)
        assert run.exit == 1 and "d/stays" in run.err, run
        assert texts(tmp_path / "t") == before


def test_a_large_file_in_the_way_that_a_filter_keeps_is_refused_by_the_dry_run(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    on.put("a/b", b"1")
    write(tmp_path / "t/a", "12345678")
    write(tmp_path / "t/other")
    for dry in [("--dry-run",), ()]:
        words = ("sync", "--delete", "--max-size", "5", *dry, on.url(), tmp_path / "t")
        run = tidegate(*words, env=on.env)
        assert run.exit == 1 and "t/a is a file" in run.err, run
        assert texts(tmp_path / "t") == {"a": "12345678", "other": "1"}


@pytest.mark.parametrize(
    "words", [("cp", "-r"), ("cp", "-r", "--if-absent"), ("mv", "-r"), ("sync",), ("sync", "--delete")]
)
@pytest.mark.parametrize("key", ["p", "p/x"])
def test_a_pipe_in_the_way_is_refused_by_the_dry_run_too(tidegate, embedded_bucket, tmp_path, words, key):
    if key == "p" and "--if-absent" in words:
        pytest.skip("the name exists, so the object is skipped")
    on = embedded_bucket
    on.put(key, b"1")
    (tmp_path / "t").mkdir()
    os.mkfifo(tmp_path / "t/p")
    for dry in [("--dry-run",), ()]:
        run = tidegate(*words, *dry, on.url(), f"{tmp_path}/t/", env=on.env)
        assert run.exit == 1 and "t/p" in run.err, run
    assert on.exists(key)


def test_markers_are_told(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    for key in ["d/", "d/x", "e/"]:
        on.put(key, b"")
    down = tidegate("sync", on.url(), tmp_path / "t", env=on.env)
    assert down.exit == 0 and "2 names in the source are left out" in down.err, down
    dry = tidegate("sync", "--dry-run", on.url(), tmp_path / "t", env=on.env)
    assert dry.exit == 0 and "2 names in the source are left out" in dry.err, dry
    check = tidegate("check", on.url(), tmp_path / "t", env=on.env)
    assert check.exit == 0 and "2 names in the source" in check.err, check
    up = tidegate("sync", "--delete", tmp_path / "t", on.url(), env=on.env)
    assert up.exit == 0 and "2 names in the target" in up.err and "/d/" in up.err, up
    check = tidegate("check", tmp_path / "t", on.url(), env=on.env)
    assert check.exit == 0 and "2 names in the target" in check.err, check


def test_a_check_tells_what_the_target_has_that_is_no_object(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    on.put("x", b"1")
    tidegate("sync", on.url(), tmp_path / "t", env=on.env)
    os.mkfifo(tmp_path / "t/pipe")
    check = tidegate("check", on.url(), tmp_path / "t", env=on.env)
    assert check.exit == 0 and "1 name in the target" in check.err and "t/pipe" in check.err, check


@pytest.mark.parametrize("verb", ["cp", "mv"])
def test_skipped_objects_are_counted(tidegate, embedded_bucket, tmp_path, verb):
    on = embedded_bucket
    for name in ["a", "b", "c"]:
        write(tmp_path / "s" / name, "new")
    for key in ["a", "b"]:
        on.put(key, b"old")
    run = tidegate(verb, "-r", "--if-absent", f"{tmp_path}/s/", on.url(), env=on.env)
    assert run.exit == 0 and "2 objects skipped" in run.err, run
    assert sorted(texts(tmp_path / "s")) == (["a", "b"] if verb == "mv" else ["a", "b", "c"])


@pytest.mark.parametrize("verb", ["cp", "mv", "rm"])
def test_directories_that_match_a_pattern_without_r_are_told(tidegate, embedded_bucket, tmp_path, verb):
    on = embedded_bucket
    for key in ["d/x", "d/sub/y", "d/other/z"]:
        on.put(key, b"1")
        write(tmp_path / "s" / key)
    targets = () if verb == "rm" else (f"{tmp_path}/t/",)
    for source in [on.url("d/*"), f"{tmp_path}/s/d/*"]:
        run = tidegate(verb, source, *targets, env=on.env)
        assert run.exit == 0 and "2 directories that match" in run.err and "-r" in run.err, run


@pytest.mark.parametrize("words", [("sync",), ("cp", "-r")])
@pytest.mark.parametrize("links", ["files", "follow"])
def test_a_link_into_the_target_is_not_read_after_the_target_has_changed(tidegate, tmp_path, words, links):
    write(tmp_path / "s/f", "new")
    write(tmp_path / "t/f", "old, and needed")
    os.symlink("../t/f", tmp_path / "s/l")
    options = ("--links", "follow") if links == "follow" else ()
    for dry in [("--dry-run",), ()]:
        run = tidegate(*words, *dry, *options, f"{tmp_path}/s/", f"{tmp_path}/t/")
        assert run.exit == 1 and "s/l: not copied" in run.err, run
    assert not (tmp_path / "t/l").exists()


def test_a_name_in_the_target_that_is_no_key_does_not_stop_a_sync(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    for key in ["a", "z/b"]:
        on.put(key, b"1")
    (tmp_path / "t/z").mkdir(parents=True)
    for name in [b"m\xff", b"z/m\xff"]:
        with open(os.fsencode(tmp_path / "t") + b"/" + name, "w") as file:
            file.write("stays")
    write(tmp_path / "t/z/extra")
    run = tidegate("sync", "--delete", on.url(), tmp_path / "t", env=on.env)
    assert run.exit == 0 and "2 names in the target" in run.err, run
    assert len(os.listdir(tmp_path / "t")) == 3 and len(os.listdir(tmp_path / "t/z")) == 2
    check = tidegate("check", on.url(), tmp_path / "t", env=on.env)
    assert check.exit == 0 and "2 names in the target" in check.err, check
    up = tidegate("sync", tmp_path / "t", on.url("up/"), env=on.env)
    assert up.exit == 1 and "UTF-8" in up.err, up


@pytest.mark.parametrize("words", [("sync",), ("cp", "-r"), ("mv", "-r"), ("check",), ("rm", "-r")])
def test_a_mistyped_prefix_is_an_error_with_a_filter_too(tidegate, embedded_bucket, tmp_path, words):
    on = embedded_bucket
    on.put("right/x", b"1")
    targets = () if words[0] == "rm" else (f"{tmp_path}/t/",)
    wrong = tidegate(*words, "--exclude", "*.tmp", on.url("wrong/"), *targets, env=on.env)
    assert wrong.exit == 3 and "there is no object below it" in wrong.err, wrong
    right = tidegate(*words, "--exclude", "x", on.url("right/"), *targets, env=on.env)
    assert right.exit == 0, right


@pytest.mark.parametrize("words", [("sync",), ("sync", "--dry-run"), ("cp", "-r"), ("mv", "-r"), ("check",)])
def test_keys_that_are_kept_for_pending_uploads_are_told_of_a_directory(tidegate, embedded_bucket, tmp_path, words):
    on = embedded_bucket
    for name in [".tidegate/x", "a"]:
        write(tmp_path / "s" / name)
    if words == ("check",):
        on.put("a", b"1")
    run = tidegate(*words, f"{tmp_path}/s/", on.url(), env=on.env)
    assert run.exit == 0 and f"left out: {tmp_path}/s/.tidegate/" in run.err, run
    run = tidegate("sync", "--exclude", "/.tidegate", f"{tmp_path}/s/", on.url(), env=on.env)
    assert run.exit == 0 and ".tidegate" not in run.err, run
    assert (tmp_path / "s/.tidegate/x").exists() and on.keys() == ["a"]


@pytest.mark.parametrize("key", ["../x", "a/../../x"])
def test_no_directory_outside_the_target_is_removed_for_a_key_that_leads_there(
    tidegate, embedded_bucket, tmp_path, key
):
    on = embedded_bucket
    on.put(key, b"1")
    on.put(f"{tmp_path}/x", b"1")
    (tmp_path / "x/empty").mkdir(parents=True)
    write(tmp_path / "t/extra")
    for dry in [("--dry-run",), ()]:
        run = tidegate("sync", "--delete", *dry, on.url(), tmp_path / "t", env=on.env)
        assert run.exit == 1, run
        assert (tmp_path / "x/empty").is_dir() and (tmp_path / "t/extra").exists()


def test_no_directory_behind_a_link_of_the_target_is_removed_for_an_object(tidegate, tmp_path):
    write(tmp_path / "s/d")
    (tmp_path / "elsewhere/empty").mkdir(parents=True)
    (tmp_path / "t").mkdir()
    os.symlink("../elsewhere", tmp_path / "t/d")
    for dry in [("--dry-run",), ()]:
        run = tidegate("sync", "--delete", "--links", "follow", *dry, tmp_path / "s", tmp_path / "t")
        assert run.exit == 1 and "t/d" in run.err, run
        assert (tmp_path / "elsewhere/empty").is_dir()


@pytest.mark.parametrize("words", [("sync",), ("cp", "-r")])
def test_no_object_of_the_source_is_replaced_through_a_link_of_the_target(tidegate, tmp_path, words):
    write(tmp_path / "s/a", "A")
    write(tmp_path / "s/z", "needed")
    (tmp_path / "t").mkdir()
    os.symlink("../s/z", tmp_path / "t/a")
    for dry in [("--dry-run",), ()]:
        run = tidegate(*words, "--links", "follow", *dry, f"{tmp_path}/s/", f"{tmp_path}/t/")
        assert run.exit == 1 and "s/a: not copied" in run.err, run
        assert (tmp_path / "s/z").read_text() == "needed"


@pytest.mark.parametrize("links", ["files", "follow"])
def test_a_directory_is_copied_upwards_with_its_links(tidegate, tmp_path, links):
    write(tmp_path / "out/lib.so.1", "library")
    os.symlink("lib.so.1", tmp_path / "out/lib.so")
    run = tidegate("cp", "-r", "--links", links, f"{tmp_path}/out/", f"{tmp_path}/")
    assert run.exit == 0, run
    assert (tmp_path / "lib.so").read_text() == (tmp_path / "lib.so.1").read_text() == "library"


def test_a_check_reads_links_into_the_target(tidegate, tmp_path):
    write(tmp_path / "t/x", "same")
    write(tmp_path / "t/l", "same")
    write(tmp_path / "s/x", "same")
    os.symlink("../t/x", tmp_path / "s/l")
    for links in ["files", "follow"]:
        run = tidegate("check", "--links", links, "--checksum", tmp_path / "s", tmp_path / "t")
        assert run.exit == 0, run


@pytest.mark.parametrize("words", [("sync", "--delete"), ("cp", "-r")])
def test_a_followed_link_to_the_target_is_named(tidegate, tmp_path, words):
    write(tmp_path / "s/a", "A")
    for name in ["x", "y", "l/kept"]:
        write(tmp_path / "t" / name)
    os.symlink("../t", tmp_path / "s/l")
    for dry in [("--dry-run",), ()]:
        run = tidegate(*words, "--links", "follow", *dry, f"{tmp_path}/s/", f"{tmp_path}/t/", "--exclude", "x")
        assert run.exit == 0 and run.err.count("s/l") == 1 and "leads into the target" in run.err, run
    assert (tmp_path / "t/a").read_text() == "A" and (tmp_path / "t/l/kept").exists()


def test_a_link_is_refused_also_if_what_needs_its_directory_waits(tidegate, on, tmp_path):
    for key in ["s/x/y", "s/x.rclonelink"]:
        on.put(key, b"elsewhere")
    (tmp_path / "t").mkdir()
    os.symlink("nowhere", tmp_path / "t/x")
    for dry in [("--dry-run",), ()]:
        run = tidegate("sync", "--delete", "--links", "preserve", *dry, on.url("s/"), f"{tmp_path}/t/", env=on.env)
        assert run.exit == 1 and "x.rclonelink" in run.err, run
        assert os.readlink(tmp_path / "t/x") == "nowhere"


ALIKE = [".tidegate-x.part", ".tidegate-0123456789ABCDEF-k.part", ".tidegate-note-k.part"]


def test_files_with_names_like_unfinished_ones_are_files(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    for name in [*ALIKE, ".tidegate-0123456789abcdef-k.part"]:
        write(tmp_path / "s" / name)
    source = f"{tmp_path}/s/"
    for words in [("cp", "-r"), ("sync",)]:
        run = tidegate(*words, source, on.url(f"{words[0]}/"), env=on.env)
        assert run.exit == 0 and on.keys(f"{words[0]}/") == sorted(f"{words[0]}/{name}" for name in ALIKE), run
    check = tidegate("check", source, on.url("sync/"), env=on.env)
    assert check.exit == 0 and "3 objects compared, no difference" in check.err, check
    for words in [("cp", "-r"), ("sync",), ("mv", "-r")]:
        run = tidegate(*words, on.url("cp/"), f"{tmp_path}/{words[0]}/", env=on.env)
        assert run.exit == 0 and sorted(os.listdir(tmp_path / words[0])) == sorted(ALIKE), run
    on.put("no/.tidegate-0123456789abcdef-k.part", b"1")
    run = tidegate("cp", "-r", on.url("no/"), f"{tmp_path}/no/", env=on.env)
    assert run.exit == 1 and "kept for files that are not finished" in run.err, run
    run = tidegate("rm", "-r", source)
    assert run.exit == 0 and os.listdir(tmp_path / "s") == [".tidegate-0123456789abcdef-k.part"], run


def test_an_empty_object_whose_key_is_the_prefix_is_left_alone(tidegate, on):
    for key in ["t/", "t/x", "u/x", "v/old", "w/", "w/old"]:
        on.put(key, b"")
    for source, target in [("t", "v"), ("t", "w"), ("u", "w/")]:
        run = tidegate("sync", "--delete", on.url(source), on.url(target), env=on.env)
        assert run.exit == 0 and tidegate("check", on.url(source), on.url(target), env=on.env).exit == 0, run
    assert on.keys() == ["t/", "t/x", "u/x", "v/x", "w/", "w/x"]


def test_data_whose_key_is_the_prefix_is_synchronized_as_cp_copies_it(tidegate, embedded_bucket):
    on = embedded_bucket
    on.put("t/", b"data")
    on.put("v/x", b"old")
    trees = on.url("t"), on.url("v")
    check = tidegate("check", *trees, env=on.env)
    assert check.exit == 1 and f"missing   {on.url('t/')}\n" in check.text, check
    dry = tidegate("sync", "--delete", "--dry-run", *trees, env=on.env)
    assert dry.exit == 0 and f"copy {on.url('t/')} -> {on.url('v/')}" in dry.text, dry
    run = tidegate("sync", "--delete", *trees, env=on.env)
    assert run.exit == 0 and on.keys("v") == ["v/"] and on.get("v/") == b"data", run
    check = tidegate("check", *trees, env=on.env)
    assert check.exit == 0 and "1 object compared, no difference" in check.err, check
    on.put("t/", b"other")
    assert tidegate("sync", *trees, env=on.env).exit == 0 and on.get("v/") == b"other"
    on.put("w/x", b"new")
    run = tidegate("sync", on.url("w"), on.url("v"), env=on.env)
    assert run.exit == 0 and on.keys("v") == ["v/", "v/x"], run
    for dry in [("--dry-run",), ()]:
        run = tidegate("sync", "-v", "--delete", *dry, on.url("w"), on.url("v"), env=on.env)
        assert run.exit == 0 and f"remove {on.url('v/')}\n" in run.text, run
    assert on.keys("v") == ["v/x"]


def test_data_whose_key_is_the_prefix_has_no_name_in_a_bucket_or_directory(tidegate, embedded, tmp_path):
    on, other = Bucket(embedded.endpoint), Bucket(embedded.endpoint)
    on.put("t/", b"data")
    on.put("t/x", b"1")
    for target, says in [(other.url(), "an object needs a name"), (f"{tmp_path}/t", "an object needs a name")]:
        for dry in [("--dry-run",), ()]:
            run = tidegate("sync", *dry, on.url("t"), target, env=on.env)
            assert run.exit == 1 and f"{on.url('t/')}: " in run.err and says in run.err, run
    assert other.keys() == ["x"] and texts(tmp_path / "t") == {"x": "1"}
    # The other way round it is an extra.
    run = tidegate("sync", "--delete", other.url(), on.url("t"), env=on.env)
    assert run.exit == 0 and on.keys() == ["t/x"], run


def test_keys_to_remove_that_cannot_be_kept_are_told_with_the_directory(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    on.put("extra", b"1")
    write(tmp_path / "s/a")
    env = {**on.env, "TMPDIR": f"{tmp_path}/nowhere"}
    run = tidegate("sync", "--delete", tmp_path / "s", on.url(), env=env)
    assert run.exit == 1 and f"in a temporary file in {tmp_path}/nowhere: " in run.err, run
    assert run.err.endswith("; 1 object was copied\n") and on.keys() == ["a", "extra"], run
