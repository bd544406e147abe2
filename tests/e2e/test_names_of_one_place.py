"""Several names of one place: no command writes over what it names as a source, or over what only the target has."""

import os

import pytest

from harness.lines import one_sentence
from harness.s3 import Bucket


def text_of(path):
    return path.read_text() if path.exists() and not path.is_symlink() else None


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("verb", ["cp", "mv"])
@pytest.mark.parametrize("spelling", ["alias/f", "././sub/f", "sub/../sub/f"])
def test_a_list_destroys_no_object_that_it_names_by_another_way(tidegate, tmp_path, verb, spelling):
    root = tmp_path / "c"
    write(root / "f", "one")
    write(root / "sub/f", "precious")
    os.symlink("sub", root / "alias")
    (tmp_path / "list").write_text(f"f\n{spelling}\n")
    run = tidegate(verb, "--files-from", tmp_path / "list", root, f"{root}/sub/")
    assert run.exit == 1 and "f: not" in run.err, run
    assert (text_of(root / "f"), text_of(root / "sub/f")) == ("one", "precious"), run


def test_a_list_destroys_no_object_behind_a_link_out_of_its_tree(tidegate, tmp_path):
    write(tmp_path / "src/f", "one")
    write(tmp_path / "dst/f", "precious")
    os.symlink("../dst", tmp_path / "src/al")
    (tmp_path / "list").write_text("f\nal/f\n")
    run = tidegate("cp", "--files-from", tmp_path / "list", tmp_path / "src", f"{tmp_path}/dst/")
    assert run.exit == 1 and "it would replace al/f" in run.err, run
    assert text_of(tmp_path / "dst/f") == "precious"


@pytest.mark.parametrize("words", [("cp",), ("cp", "-r"), ("mv", "-r"), ("sync",), ("sync", "--dry-run")])
def test_a_file_with_the_name_of_a_link_makes_none_on_this_machine(tidegate, tmp_path, words):
    write(tmp_path / "w/y.rclonelink", "hello")
    write(tmp_path / "w2/y", "precious")
    source = tmp_path / "w/y.rclonelink" if words == ("cp",) else f"{tmp_path}/w/"
    run = tidegate(*words, "--links", "preserve", source, f"{tmp_path}/w2/")
    assert run.exit == 1 and "y.rclonelink: not copied: it is a file" in run.err, run
    assert text_of(tmp_path / "w2/y") == "precious" and text_of(tmp_path / "w/y.rclonelink") == "hello"


def test_a_link_replaces_a_file_of_the_target_only_with_delete(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    on.put("l.rclonelink", b"nowhere")
    for options, is_kept in [((), True), (("--delete", "--exclude", "/l"), True), (("--delete",), False)]:
        target = tmp_path / f"p{len(options)}{is_kept}"
        write(target / "l", "precious")
        for dry in ([] if not is_kept else [("--dry-run",)]) + [()]:
            run = tidegate("sync", "--links", "preserve", *options, *dry, on.url(), target, env=on.env)
            assert run.exit == int(is_kept), run
            assert not is_kept or "a symbolic link would replace it" in run.err, run
        assert (text_of(target / "l") == "precious") == is_kept
    assert os.readlink(target / "l") == "nowhere"


def test_two_names_of_one_file_in_the_target_take_one_object(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    on.put("d/f", b"AAAA")
    on.put("e/f", b"BBBB")
    for command in [("sync",), ("cp", "-r")]:
        target = tmp_path / command[0]
        (target / "d").mkdir(parents=True)
        os.symlink("d", target / "e")
        words = (*command, "--links", "follow", on.url(), f"{target}/")
        run = tidegate(*words, env=on.env)
        assert run.exit == 1 and "another object of this command goes there" in run.err, run
        assert text_of(target / "d/f") == "AAAA"
    check = tidegate("check", "--links", "follow", on.url(), tmp_path / "sync", env=on.env)
    assert check.exit == 1, check


def test_a_bucket_whose_name_begins_with_that_of_another_is_another(tidegate, embedded_bucket):
    one = embedded_bucket
    other = Bucket(one.endpoint, f"{one.name}-backup")
    one.put("a", b"1")
    for command, source, target in [("sync", one, other), ("check", one, other), ("sync", other, one)]:
        run = tidegate(command, source.url(), target.url(), env=one.env)
        assert run.exit == 0, run


def test_a_check_of_a_prefix_that_is_mistyped_fails(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    on.put("right/a", b"1")
    run = tidegate("check", on.url("wrong"), tmp_path / "none", env=on.env)
    assert run.exit == 3 and "there is no object below it" in run.err, run


IN_THE_WAY = [
    ("ObjectParentIsFile", 409),
    ("ExistingObjectIsFile", 409),
    ("ExistingObjectIsDirectory", 409),
    ("XMinioParentIsObject", 400),
    ("XMinioObjectExistsAsDirectory", 409),
]


@pytest.mark.parametrize(("code", "status"), IN_THE_WAY)
def test_a_refusal_for_an_object_in_the_way_is_told_at_once(
    tidegate, embedded_bucket, knobs, counts, tmp_path, code, status
):
    on = embedded_bucket
    write(tmp_path / "f", "1")
    knobs(faults=[{"operation": "PutObject", "action": {"error": {"status": status, "code": code}}}])
    counts.reset()
    run = tidegate("cp", tmp_path / "f", on.url("x/y"), env=on.env)
    one_sentence(run, on.url("x/y"), "in the way: this server keeps keys as paths", code, exit=1)
    assert counts()["PutObject"] == 1 and "check the endpoint" not in run.err, run


def test_a_key_below_an_object_is_refused_where_objects_are_files(tidegate, versitygw, tmp_path):
    on = Bucket(versitygw.endpoint)
    write(tmp_path / "f", "1")
    on.put("x", b"1")
    on.put("d/y", b"1")
    for key, says in [("x/y", "one above this key is an object"), ("d", "there are objects below this key")]:
        one_sentence(tidegate("cp", tmp_path / "f", on.url(key), env=on.env), on.url(key), says, exit=1)
    assert on.keys() == ["d/y", "x"]


@pytest.mark.parametrize("command", [("cp", "-r"), ("mv", "-r"), ("sync",)])
@pytest.mark.parametrize("held", [[], ["Telling"]])
def test_names_that_a_disk_tells_apart_are_two_files(tidegate, embedded_bucket, tmp_path, command, held):
    on, target = embedded_bucket, tmp_path / "new/t"
    for name in held:
        write(target / name, name)
    names = ["README", "readme", "d/\u00e9", "d/e\u0301"]
    for name in names:
        on.put(name, name.encode())
    for _ in range(2):
        run = tidegate(*command, on.url(), f"{target}/", env=on.env)
        assert run.exit == 0, run
        files = {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()}
        assert files == {name: name for name in names + held}
    assert os.listdir(tmp_path) == ["new"] and os.listdir(tmp_path / "new") == ["t"]
