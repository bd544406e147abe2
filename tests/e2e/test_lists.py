"""`--files-from`: the objects of cp, mv and rm from a file, a pipe, or a producer that is not done yet."""

import pytest

from harness.feed import open_pipe
from harness.lines import one_sentence
from harness.process import until
from trees import Folder, Prefix, below, lines, plant, stored

FILES = {"a": b"1", "b c ": b"2", "d/e": b"3", "é": b"4", "*": b"5", "-x": b"6"}

FORMS = [
    ([], "\n".join(FILES)),
    ([], "".join(f"{name}\n" for name in FILES)),
    ([], "".join(f"{name}\r\n" for name in FILES)),
    ([], "\n\n".join(["", *FILES, "", ""])),
    ([], "".join(f"./{name}\n" for name in FILES)),
    (["-0"], "\0".join(FILES)),
    (["--null"], "".join(f"{name}\0" for name in FILES)),
]


@pytest.fixture(params=["store", "disk"])
def source(request, embedded_bucket, tmp_path):
    place = Prefix(embedded_bucket, "s/") if request.param == "store" else Folder(tmp_path / "s")
    for name, body in FILES.items():
        place.put(name, body)
    return place


@pytest.mark.parametrize("through", ["file", "stdin"])
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_each_form_of_a_list(tidegate, source, embedded_bucket, tmp_path, form, through):
    on, (options, content) = embedded_bucket, FORMS[form]
    (tmp_path / "list").write_bytes(content.encode())
    source.put("unlisted", b"stays")
    given = {"file": tmp_path / "list", "stdin": "-"}[through]
    options = [*options, "--files-from", given, "-v"]
    stdin = content.encode() if through == "stdin" else None
    run = tidegate("cp", *options, source.url().rstrip("/"), on.url("t"), env=on.env, stdin=stdin)
    assert run.exit == 0 and stored(on, "t/") == FILES and len(lines(run)) == len(FILES), run
    if form == 0:
        run = tidegate("mv", *options, source.url(), on.url("m/"), env=on.env, stdin=stdin)
        assert run.exit == 0 and stored(on, "m/") == FILES, run
    else:
        run = tidegate("rm", *options, source.url(), env=on.env, stdin=stdin)
        assert run.exit == 0 and len(lines(run)) == len(FILES), run
    assert source.held() == {"unlisted": b"stays"}


def test_names_with_newlines_end_with_nul(tidegate, source, embedded_bucket):
    on = embedded_bucket
    source.put("new\nline", b"1")
    source.put("cr\r", b"2")
    words = ("--files-from", "-", "-0", source.url(), on.url("t"))
    run = tidegate("cp", *words, env=on.env, stdin=b"new\nline\0cr\r\0")
    assert run.exit == 0 and stored(on, "t/") == {"new\nline": b"1", "cr\r": b"2"}, run


@pytest.mark.parametrize("content", ["", "\n\n\r\n"])
def test_an_empty_list_is_no_failure(tidegate, source, embedded_bucket, content):
    on, before = embedded_bucket, source.held()
    for words in (["cp", source.url(), on.url("t")], ["mv", source.url(), on.url("t")], ["rm", source.url()], ["rm"]):
        run = tidegate(*words, "--files-from", "-", env=on.env, stdin=content.encode())
        assert run.exit == 0, run
    assert source.held() == before and not on.keys("t")


def test_missing_names_fail_and_the_others_are_done(tidegate, source, embedded_bucket):
    on, content = embedded_bucket, b"a\nnone\nd/none\nd/e\nd\n"
    for command in ("cp", "mv"):
        run = tidegate(command, "--files-from", "-", source.url(), on.url(command), env=on.env, stdin=content)
        assert run.exit == 1 and stored(on, f"{command}/") == {"a": b"1", "d/e": b"3"}, run
        # A directory on disk is left out, as `find` names it too; in a store, there is no object of its name.
        is_left_out = "d is a directory" in run.err
        assert run.err.count("error:") == 4 - is_left_out, run
        assert f"{3 - is_left_out} of {5 - is_left_out} objects" in run.err, run
    source.put("a", b"1")
    run = tidegate("rm", "--files-from", "-", source.url(), env=on.env, stdin=content)
    # A file that is not there is a failure; a store is not asked, and says so of no object.
    is_disk = isinstance(source, Folder)
    assert (run.exit, "1 of 5" in run.err) == (int(is_disk), is_disk) and "a" not in source.held(), run
    for words in (["cp", source.url(), on.url("x")], ["rm", source.url()]):
        run = tidegate(*words, "--files-from", "/no/such/list", env=on.env)
        one_sentence(run, "/no/such/list", exit=3)


def test_a_name_that_is_no_key_does_not_stop_the_others(tidegate, source, embedded_bucket):
    on = embedded_bucket
    run = tidegate("cp", "--files-from", "-", source.url(), on.url("t"), env=on.env, stdin=b"a\nm\xff\nd/e\n")
    assert run.exit == 1 and "name 2 is not UTF-8" in run.err and set(on.keys("t/")) == {"t/a", "t/d/e"}, run


@pytest.mark.parametrize("command", ["cp", "mv", "rm"])
@pytest.mark.parametrize("name", ["../out", "{d}/out", "x/../../out", "./../out", "..", "/", "."])
def test_no_name_leads_out_of_the_source_or_the_target(tidegate, embedded_bucket, tmp_path, name, command):
    on, root = embedded_bucket, plant(tmp_path / "in/src", {"a": b"1"})
    plant(tmp_path / "in", {"out": b"secret"})
    on.put("s/a", b"1")
    content = f"{name.format(d=tmp_path / 'in')}\na\n".encode()
    for source, target in [(root, on.url("t")), (root, tmp_path / "in/down"), (on.url("s"), tmp_path / "in/down2")]:
        words = [source] if command == "rm" else [source, target]
        run = tidegate(command, "--files-from", "-", *words, env=on.env, stdin=content)
        # Such a name may be that of a key; if no object has it, nothing is to be removed.
        is_key = command == "rm" and source == on.url("s") and name in ("/", "{d}/out")
        assert (run.exit, "error:" in run.err) == (int(not is_key), not is_key), run
        plant(root, {"a": b"1"})
    assert (tmp_path / "in/out").read_bytes() == b"secret"
    left = set(below(tmp_path))
    assert left <= {"in/out", "in/src/a", "in/down/a", "in/down2/a"} and set(on.keys()) <= {"s/a", "t/a"}, left


def test_whole_urls_and_paths(tidegate, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"x/f": b"file", "g*": b"star"})
    on.put("s/a", b"1")
    on.put("s/b*", b"2")
    on.put("s/bb", b"3")
    urls = [on.url("s/a"), on.url("s/b*"), f"{root}/x/f", f"file://{root}/g*"]
    content = "\n".join(urls).encode()
    run = tidegate("cp", "-v", "--files-from", "-", on.url("t/"), env=on.env, stdin=content)
    assert run.exit == 0 and stored(on, "t/") == {"a": b"1", "b*": b"2", "f": b"file", "g*": b"star"}, run
    run = tidegate("rm", "--files-from", "-", env=on.env, stdin=content)
    assert run.exit == 0 and on.keys("s/") == ["s/bb"] and below(root) == {}, run
    run = tidegate("rm", "--files-from", "-", env=on.env, stdin=f"{on.url('s/bb')}\ns3://\nnone\n{root}\n".encode())
    assert run.exit == 1 and run.err.count("error:") == 4 and not on.keys("s/"), run
    one_sentence(tidegate("cp", "--files-from", "-", on.url("t"), env=on.env, stdin=content), "slash", exit=2)


def test_what_goes_with_a_list_and_what_does_not(tidegate, source, embedded_bucket):
    on, before = embedded_bucket, source.held()
    for words in [
        ("cp", "-r", source.url(), on.url("t")),
        ("cp", source.url(), source.url(), on.url("t/")),
        ("cp", "--exclude", "x", source.url(), on.url("t")),
        ("mv", "--min-size", "1", source.url(), on.url("t")),
        ("rm", "-r", source.url()),
        ("rm", source.url(), source.url()),
        ("rm", on.url("s/*")),
        ("rm", "--exclude", "x", source.url()),
    ]:
        run = tidegate(*words, "--files-from", "-", env=on.env, stdin=b"a\n")
        assert run.exit == 2, run
    for command in ("cp", "mv", "rm"):
        assert tidegate(command, "-0", source.url(), on.url("t"), env=on.env).exit == 2
    assert source.held() == before and not on.keys("t")


def test_a_dry_run_of_a_list_says_what_happens(tidegate, source, embedded_bucket):
    on, content = embedded_bucket, "\n".join(FILES).encode()
    for words in (["cp", source.url(), on.url("c")], ["mv", source.url(), on.url("m")]):
        words = [*words, "--files-from", "-"]
        planned = tidegate(*words, "--dry-run", env=on.env, stdin=content)
        assert planned.exit == 0 and not on.keys(words[0][0]), planned
        run = tidegate(*words, "-v", env=on.env, stdin=content)
        assert run.exit == 0 and lines(run) == lines(planned), run


@pytest.mark.parametrize("command", ["cp", "mv"])
def test_a_pattern_does_not_go_with_a_list(tidegate, source, embedded_bucket, command):
    on, before = embedded_bucket, source.held()
    run = tidegate(command, source.url("none*"), on.url("t"), "--files-from", "-", env=on.env, stdin=b"a\n")
    assert run.exit == 2 and source.held() == before and not on.keys("t"), run


def test_standard_output_takes_no_list(tidegate, source, embedded_bucket):
    run = tidegate("cp", "--files-from", "-", source.url("a"), "-", env=embedded_bucket.env, stdin=b"x\n")
    one_sentence(run, exit=2)


def test_five_thousand_names_take_bounded_time(tidegate, tmp_path):
    names = [f"{number % 10}/{number:04}" for number in range(5000)]
    plant(tmp_path / "s", dict.fromkeys(names, b""))
    content = "\n".join(names).encode()
    planned = tidegate("mv", "--dry-run", "--files-from", "-", tmp_path / "s", tmp_path / "t", stdin=content)
    assert planned.exit == 0 and len(lines(planned)) == 10_000 and not (tmp_path / "t").exists()
    run = tidegate("rm", "-v", "--files-from", "-", tmp_path / "s", stdin=content)
    assert run.exit == 0 and len(lines(run)) == 5000 and below(tmp_path / "s") == {}, run


@pytest.mark.parametrize("through", ["file", "stdin"])
@pytest.mark.parametrize("whole", [False, True], ids=["below a URL", "whole URLs"])
def test_a_thousand_names_are_removed_by_one_request(tidegate, embedded, embedded_bucket, tmp_path, through, whole):
    on, names = embedded_bucket, [f"{'long' * 40}/{number:04}" for number in range(1000)]
    embedded.control("POST", "objects", {"bucket": on.name, "keys": [f"s/{name}" for name in [*names, "kept"]]})
    content = "\n".join(on.url(f"s/{name}") if whole else name for name in names).encode()
    (tmp_path / "list").write_bytes(content)
    words = [] if whole else [on.url("s")]
    listed = tmp_path / "list" if through == "file" else "-"
    stdin = content if through == "stdin" else None
    planned = tidegate("rm", "--dry-run", "--files-from", listed, *words, env=on.env, stdin=stdin)
    assert planned.exit == 0 and len(lines(planned)) == 1000, planned
    embedded.control("DELETE", "counts")
    run = tidegate("rm", "-v", "--files-from", listed, *words, env=on.env, stdin=stdin)
    assert run.exit == 0 and sorted(lines(run)) == sorted(lines(planned)), run
    assert embedded.control("GET", "counts")["requests"] == {"DeleteObjects": 1}
    assert on.keys() == ["s/kept"]


def test_a_list_may_name_several_buckets_and_files(tidegate, embedded, embedded_bucket, tmp_path):
    on, root = embedded_bucket, plant(tmp_path / "t", {"f": b"1"})
    names = ["a", "b", "c"]
    embedded.control("POST", "objects", {"bucket": on.name, "keys": names})
    embedded.control("POST", "objects", {"bucket": on.name, "keys": [f"p/{name}" for name in names]})
    places = [f"{root}/f", *(on.url(name) for name in names), f"{root}/none", *(on.url(f"p/{name}") for name in names)]
    run = tidegate("rm", "--files-from", "-", env=on.env, stdin="\n".join(places).encode())
    assert run.exit == 1 and "7 of 8" in run.err and below(root) == {} and not on.keys(), run


def test_a_long_list_of_objects(tidegate, embedded, embedded_bucket):
    on, names = embedded_bucket, [f"{number:04}" for number in range(1200)]
    embedded.control("POST", "objects", {"bucket": on.name, "keys": [f"s/{name}" for name in [*names, "kept"]]})
    run = tidegate("rm", "--files-from", "-", on.url("s"), env=on.env, stdin="\n".join(names).encode())
    assert run.exit == 0 and on.keys() == ["s/kept"], run


@pytest.mark.parametrize("command", ["cp", "mv", "rm"])
def test_a_producer_that_stays_open_is_not_waited_for(tidegate, source, embedded_bucket, command):
    """Each name is taken when it comes; Ctrl-C ends the wait for more."""
    on = embedded_bucket
    words = [source.url()] if command == "rm" else [source.url(), on.url("t")]
    with open_pipe() as pipe:
        run = tidegate.start(command, "--files-from", "-", *words, env=on.env, stdin=pipe.stdin)
        pipe.started()
        for name in ("a", "d/e"):
            pipe.send(f"{name}\n".encode())
            done = lambda: on.exists(f"t/{name}") if command == "cp" else name not in source.keys()
            until(f"{name} is done", done)
        pipe.send(b"half a na")
        pipe.join()
        assert not run.ended
        run.interrupt()
        assert run.wait(10).exit == 130
