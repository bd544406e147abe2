"""The exit codes, as docs/ERRORS.md and `--help` have them: 0 done, 1 failed or failed in part, 2 usage, 3 not found, 4 denied,
5 unreachable, 130 and 143 interrupted."""

import os
import signal

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.lines import one_sentence
from harness.process import free_port, until

QUIET = ("--progress", "never")
ONCE = ("--attempts", "1")
DENIED = {"error": {"status": 403, "code": "AccessDenied"}}


@pytest.fixture
def on(embedded_bucket):
    embedded_bucket.put("t/a", b"a")
    embedded_bucket.put("t/b", b"b")
    return embedded_bucket


def test_each_code_is_in_the_help(tidegate):
    run = tidegate("--help")
    codes = run.text[run.text.index("Exit codes:") :]
    assert [line.split()[0] for line in codes.splitlines()[1:]] == ["0", "1", "2", "3", "4", "5", "130", "129,"], run


MISSING = [
    ("cat", "{url}missing"),
    ("stat", "{url}missing"),
    ("cp", "{url}missing", "{out}"),
    ("rm", "{url}missing"),
    ("rm", "{url}t/"),
    ("rm", "-r", "{url}missing"),
    ("rm", "-r", "{url}t/a/"),
    ("rm", "-r", "--dry-run", "{url}missing/"),
    ("rm", "--dry-run", "{url}missing"),
    ("ls", "{url}missing"),
    ("ls", "-r", "{url}t/missing/"),
    ("cp", "-r", "{url}missing/", "{out}/"),
    ("cp", "{out}", "{url}up"),
    ("cp", "-r", "{out}", "{url}up"),
    ("ls", "{out}/"),
    ("rm", "{out}"),
    ("rm", "-r", "{out}"),
    ("stat", "{out}"),
    ("sessions", "abort", "{url}missing"),
    ("sessions", "ls", "{out}"),
    ("sweep", "{out}"),
    ("sweep", "--json", "{out}"),
    ("journal", "ls", "{out}"),
    ("journal", "verify", "{out}"),
    ("journal", "show", "{out}", "nosuch"),
    ("journal", "show", "{here}", "nosuch"),
    ("journal", "resume", "{out}"),
    ("journal", "abort", "{here}", "nosuch"),
]


@pytest.mark.parametrize("words", MISSING, ids=" ".join)
def test_3_for_what_is_not_there(tidegate, on, tmp_path, words):
    words = [word.format(url=on.url(), out=tmp_path / "nowhere", here=tmp_path) for word in words]
    one_sentence(tidegate(*words, env=on.env), exit=3)
    assert on.keys() == ["t/a", "t/b"] and os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "words, said",
    [
        (("rm", "--literal", "{url}t/*"), "here, `*` is a character of the key"),
        (("stat", "{url}t/?"), "only `*` and `**` make a pattern"),
        (("cp", "{url}t/[ab]", "{out}"), "only `*` and `**` make a pattern"),
        (("ls", "--literal", "{url}t/*"), "here, `*` is a character of the key"),
        (("ls", "{url}t/z*"), "no object matches this pattern"),
    ],
)
def test_3_for_a_pattern_which_matches_nothing(tidegate, on, tmp_path, words, said):
    words = [word.format(url=on.url(), out=tmp_path / "out") for word in words]
    one_sentence(tidegate(*words, env=on.env), said, exit=3)
    assert on.keys() == ["t/a", "t/b"]


def test_0_for_an_empty_bucket_and_directory(tidegate, embedded_bucket, tmp_path):
    url, empty = embedded_bucket.url(), tmp_path / "empty"
    empty.mkdir()
    for words in [("ls", url), ("ls", "-r", url), ("rm", "-r", url), ("rm", "-r", "--dry-run", url)]:
        assert tidegate(*words, env=embedded_bucket.env).exit == 0, words
    for words in [("ls", f"{empty}/"), ("ls", empty), ("rm", "-r", empty), ("cp", "-r", empty, f"{url}x/")]:
        assert tidegate(*words, env=embedded_bucket.env).exit == 0, words
    assert tidegate("cp", "-r", url, f"{tmp_path}/out/", env=embedded_bucket.env).exit == 0


EACH = [("cat", "{url}t/a"), ("stat", "{url}t/a"), ("rm", "{url}t/a"), ("rm", "-r", "{url}t/"), ("ls", "{url}t/")]
EACH += [("cp", "{url}t/a", "{out}"), ("cp", "-r", "{url}t/", "{out}/")]


@pytest.mark.parametrize("words", [*EACH, ("cp", "-r", "{folder}/", "{url}up/")], ids=" ".join)
def test_4_for_wrong_credentials(tidegate, on, tmp_path, words):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_bytes(b"x")
    env = {**on.env, "AWS_SECRET_ACCESS_KEY": "not-the-secret"}
    words = [word.format(url=on.url(), out=tmp_path / "out", folder=folder) for word in words]
    run = tidegate(*words, env=env)
    assert run.exit == 4 and "error: " in run.err and run.out == b"", run
    assert on.keys() == ["t/a", "t/b"] and not (tmp_path / "out").is_file()


def test_4_for_what_is_denied(tidegate, on, knobs, tmp_path):
    knobs(faults=[{"operation": "GetObject|DeleteObject|ListObjectsV2", "action": DENIED}])
    for words in [("cat", on.url("t/a")), ("rm", on.url("t/a")), ("rm", "-r", on.url("t/")), ("ls", on.url())]:
        one_sentence(tidegate(*words, env=on.env), exit=4)


def test_rm_needs_no_right_to_read(tidegate, on, knobs):
    knobs(faults=[{"operation": "HeadObject", "action": DENIED}])
    assert tidegate("rm", on.url("t/a"), env=on.env).exit == 0
    assert on.keys() == ["t/b"]


@pytest.mark.parametrize("place", ["refused", "unknown"])
def test_5_for_a_store_that_is_not_reached(tidegate, on, make_file, place):
    path, _ = make_file(10)
    where = {"refused": f"http://127.0.0.1:{free_port()}", "unknown": "http://no-such-host.invalid"}[place]
    env = {**on.env, "AWS_ENDPOINT_URL": where}
    one_sentence(tidegate("cp", path, on.url("k"), *QUIET, *ONCE, env=env), on.url("k"), exit=5)
    one_sentence(tidegate("cp", on.url("t/a"), f"{path}.out", *QUIET, *ONCE, env=env), on.url("t/a"), exit=5)
    one_sentence(tidegate("cp", "-r", on.url("t/"), f"{path}.d/", *QUIET, *ONCE, env=env), exit=5)


def test_5_for_a_directory_whose_store_is_not_reached(tidegate, on, tmp_path):
    """Each file would fail for the same cause: it is named, and not all of them are tried."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(600):
        (folder / f"{number}").write_bytes(b"x")
    env = {**on.env, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}
    run = tidegate("cp", "-r", f"{folder}/", on.url("up/"), *QUIET, *ONCE, env=env, timeout=60)
    assert run.exit == 5 and "connection refused" in run.err, run
    assert len(run.err.splitlines()) <= 12, run


def test_1_for_a_part_of_several(tidegate, on):
    run = tidegate("rm", on.url("t/missing"), on.url("t/a"), on.url("also-missing"), env=on.env)
    assert run.exit == 1, run
    assert run.err.count("there is no such object") == 2 and "removed 1 of 3 objects" in run.err, run
    assert on.keys() == ["t/b"]


def test_3_where_none_of_several_is_there(tidegate, on):
    run = tidegate("rm", on.url("t/missing"), on.url("also-missing"), env=on.env)
    assert run.exit == 3 and len(run.err.splitlines()) == 2, run


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_130_and_143_for_what_is_interrupted(tidegate, on, sent, code):
    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", on.url("k"), "--part-size", "5MiB", *QUIET, stdin=pipe.stdin, env=on.env)
        pipe.started()
        pipe.send(b"x" * (15 * MIB))
        until("a part is stored", lambda: on.parts("k") >= 1)
        os.kill(run.pid, sent)
        one_sentence(run.wait(20), "interrupted", exit=code)
    on.assert_untouched("k")


NEAR = ["s3:/{name}/k", "s3:{name}/k", "S3:/{name}/k", "gs:/b/k", "minio:{name}/k", "az:x", "file:/x", "s3a:/b/k"]
NEAR += [
    "s3//{name}/k",
    "s3 ://{name}/k",
    "s3;//{name}/k",
    "s3\uff1a//{name}/k",
    "my_minio:{name}/k",
    "h:{name}/k",
    "backup:{name}",
]
NEAR += ["localhost:9000/{name}/k", "127.0.0.1:9000/{name}/k", "user@host:{name}/k"]


@pytest.mark.parametrize("near", NEAR)
def test_2_for_what_is_nearly_a_url(tidegate, on, tmp_path, near):
    (tmp_path / "f").write_bytes(b"x")
    near = near.format(name=on.name)
    for words in [("cp", "f", near), ("cp", "-", near), ("ls", near), ("rm", near), ("stat", near), ("cat", near)]:
        run = tidegate(*words, env=on.env, cwd=tmp_path)
        one_sentence(run, near, "did you mean", "://", exit=2)
    assert os.listdir(tmp_path) == ["f"]


def test_rm_r_removes_a_file(tidegate, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    assert tidegate("rm", "-r", "f", cwd=tmp_path).exit == 0
    assert os.listdir(tmp_path) == []


def test_a_local_path_that_looks_like_a_url_is_written_with_its_directory(tidegate, on, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    run = tidegate("cp", "f", "./s3:b", *QUIET, env=on.env, cwd=tmp_path)
    assert run.exit == 0 and (tmp_path / "s3:b").read_bytes() == b"x", run
