"""Distributed jobs: `commit --job`, `abandon --job`, and kills of their programs."""

import pytest

from harness.command import CommandLine
from harness.lines import one_sentence
from harness.s3 import Bucket, GoogleBucket
from job_kills import kills_of_jobs, program


@pytest.fixture(params=["minio", "google", "disk"])
def place(request, tmp_path):
    """The URL of an output directory, the environment to reach it with, and all keys below it."""
    if request.param == "disk":
        out = tmp_path / "out"
        files = lambda: sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())  # noqa: E731
        return str(out), {}, files
    if request.param == "google":
        bucket = GoogleBucket(request.getfixturevalue("embedded").endpoint, "http")
    else:
        bucket = Bucket(request.getfixturevalue(request.param).endpoint)
    return bucket.url("out"), bucket.env, lambda: sorted(key.removeprefix("out/") for key in bucket.keys())


@pytest.fixture
def job():
    run = CommandLine(program())
    yield run
    run.stop()


def test_jobs_are_completed_or_given_up_from_the_directory_alone(tidegate, job, place):
    out, env, keys = place
    for name in ("one", "two"):
        assert job("set-up", out, name, env=env).exit == 0
        run = job("task", out, name, "task", "attempt", "2", env=env)
        assert run.exit == 0, run
    before = keys()
    run = tidegate("commit", "--job", out, "--json", env=env)
    assert run.exit == 3 and [line["state"] for line in run.json] == ["not_begun"] * 2, run
    assert "one, two" in run.err and "abandon --job" in run.err, run
    assert keys() == before, "a job that is at work was changed"
    run = tidegate("abandon", "--job", out, "--id", "two", "--json", env=env)
    assert run.exit == 0 and (run.json[0]["state"], run.json[0]["abandoned"]) == ("abandoned", 2), run
    one_sentence(tidegate("abandon", "--job", out, "--id", "two", env=env), "two", "no such job", exit=3)
    one_sentence(tidegate("abandon", "--job", out, "--id", "a/b", env=env), "id of a job", exit=2)
    run = job("commit", out, "one", env=env)
    assert run.exit == 0 and run.text == "2 files\n", run
    assert keys() == ["_SUCCESS", "task-0.csv", "task-1.csv"]
    run = tidegate("commit", "--job", out, env=env)
    assert run.exit == 0 and "one" in run.err, run
    one_sentence(tidegate("abandon", "--job", out, env=env), "no job", exit=3)


def test_a_commit_fails_that_finds_a_job_that_was_given_up(tidegate, job, embedded_bucket):
    env, out = embedded_bucket.env, embedded_bucket.url("out")
    assert job("set-up", out, "one", env=env).exit == 0
    assert job("task", out, "one", "task", "attempt", "2", env=env).exit == 0
    # As an abort leaves it that dies.
    key = "out/__tidegate_one/job.json"
    settings = embedded_bucket.get(key)
    embedded_bucket.put(key, settings.replace(b'"open"', b'"being_aborted"'))
    assert embedded_bucket.get(key) != settings
    run = tidegate("commit", "--job", out, "--json", env=env)
    assert run.exit == 1 and (run.json[0]["state"], run.json[0]["abandoned"]) == ("abandoned", 2), run
    assert "job one was given up, and is not committed" in run.err, run
    assert embedded_bucket.keys() == []


def test_what_a_late_attempt_left_of_a_job_that_is_over_is_removed(tidegate, job, embedded_bucket):
    env, out = embedded_bucket.env, embedded_bucket.url("out")
    record, left = "out/__tidegate_one/attempts/task/late/0.json", None
    for name in ("one", "two"):
        assert job("set-up", out, name, env=env).exit == 0
        assert job("task", out, name, name, "attempt", "1", env=env).exit == 0
        if name == "one":
            [left] = [key for key in embedded_bucket.keys() if "/attempts/" in key]
            left = embedded_bucket.get(left)
        assert job("commit", out, name, env=env).exit == 0
    # The _SUCCESS of the first job is replaced.
    before = embedded_bucket.keys()
    for command in (("commit", "--job", out), ("abandon", "--job", out), ("abandon", "--job", out, "--id", "one")):
        embedded_bucket.put(record, left)
        run = tidegate(*command, "--json", env=env)
        assert run.exit == 0 and [(line["id"], line["state"]) for line in run.json] == [("one", "removed")], run
        assert embedded_bucket.keys() == before


def test_a_directory_without_jobs_is_an_error(tidegate, embedded_bucket):
    env = embedded_bucket.env
    embedded_bucket.put("out/_SUCCESS", b"")
    one_sentence(tidegate("commit", "--job", embedded_bucket.url("out"), env=env), "there is no job", exit=3)
    for wrong in (("commit", "--job", embedded_bucket.url("out"), "file.json"), ("abandon", "--id", "one")):
        run = tidegate(*wrong, env=env)
        assert run.exit == 2 and "--job" in run.err, run


@pytest.mark.parametrize("name", ["minio", "embedded"])
def test_kills_of_executors_and_drivers(request, name):
    endpoint, is_minio = request.getfixturevalue(name).endpoint, name == "minio"
    seen = kills_of_jobs(lambda: Bucket(endpoint), kills=30, seed=1, may_lose=is_minio)
    assert seen.executors > 0 and seen.drivers > 0 and seen.committed > 0, seen


@pytest.mark.parametrize(
    "words",
    [("rm", "-r", "OUT"), ("mv", "-r", "OUT", "TO"), ("cp", "-r", "OUT", "TO"), ("sync", "--delete", "FROM", "OUT")],
)
def test_no_command_on_trees_touches_the_work_path_of_a_job(tidegate, job, embedded_bucket, tmp_path, words):
    on, out = embedded_bucket, embedded_bucket.url("warehouse/out")
    assert job("set-up", out, "one", env=on.env).exit == 0
    assert job("task", out, "one", "task", "attempt", "2", env=on.env).exit == 0
    work = on.keys("warehouse/out/__tidegate_one/")
    for name in ("A", "z"):
        on.put(f"warehouse/out/{name}", b"older")
    (tmp_path / "from").mkdir()
    (tmp_path / "from/A").write_bytes(b"newer")
    # A tree above has the job, too.
    above = on.url("warehouse/") if words[0] != "sync" else f"{out}/"
    places = {"OUT": above, "TO": on.url("to/"), "FROM": f"{tmp_path}/from/"}
    run = tidegate(*[places.get(word, word) for word in words], env=on.env)
    assert run.exit == 0, run
    assert f"left out: the work path of a job that has not ended, in {out}: `tidegate commit --job`" in run.err, run
    assert on.keys("warehouse/out/__tidegate_one/") == work
    left = {"rm": [], "mv": [], "cp": ["A", "z"], "sync": ["A"]}[words[0]]
    files = lambda place: [key.removeprefix(place) for key in on.keys(place) if "__tidegate_" not in key]  # noqa: E731
    assert files("warehouse/out/") == left
    assert on.keys("to/") == (["to/out/A", "to/out/z"] if words[0] in ("mv", "cp") else [])
    # A plain listing shows the work path.
    shown = tidegate("ls", f"{out}/", env=on.env)
    assert "__tidegate_one/" in shown.out.decode(), shown
    assert job("commit", out, "one", env=on.env).exit == 0
    assert files("warehouse/out/") == sorted(["_SUCCESS", "task-0.csv", "task-1.csv", *left])


def test_a_directory_with_the_name_of_a_work_path_is_the_users(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    for key in ("t/__tidegate_notes/job.txt", "t/__tidegate_my notes/n", "t/x"):
        on.put(key, b"mine")
    for words in (("commit", "--job", on.url("t")), ("abandon", "--job", on.url("t"), "--id", "notes")):
        assert tidegate(*words, env=on.env).exit != 0
    assert tidegate("cp", "-r", on.url("t/"), f"{tmp_path}/down/", env=on.env).exit == 0
    below = {str(path.relative_to(tmp_path / "down")) for path in (tmp_path / "down").rglob("*") if path.is_file()}
    assert below == {"__tidegate_notes/job.txt", "__tidegate_my notes/n", "x"}
    assert tidegate("check", on.url("t/"), f"{tmp_path}/down/", env=on.env).exit == 0
    removed = tidegate("rm", "-r", on.url("t/"), env=on.env)
    assert removed.exit == 0 and "left out" not in removed.err, removed
    assert on.keys("t/") == []


def test_a_tree_with_nothing_but_a_job_says_so(tidegate, job, embedded_bucket):
    on, out = embedded_bucket, embedded_bucket.url("only/out")
    assert job("set-up", out, "one", env=on.env).exit == 0
    run = tidegate("rm", "-r", on.url("only/"), env=on.env)
    assert run.exit != 0 and "nothing but work paths of jobs that have not ended" in run.err, run
    assert on.keys("only/") == ["only/out/__tidegate_one/job.json"]
