"""`run`: many commands at once, from a file or a pipe, with one budget, one set of errors and one end."""

import json
import os
import shlex

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.process import until
from harness.s3 import Bucket


@pytest.fixture
def listed(tmp_path):
    """`listed(lines)` is a file with these lines."""

    def make(lines, name="list.txt"):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return make


@pytest.fixture
def small(tmp_path):
    """A directory of 200 small files, some with names that need quotes."""
    folder = tmp_path / "small files"
    folder.mkdir()
    odd = {0: "it's", 1: 'a "quoted" name', 2: "back\\slash", 3: "#no comment", 4: "two  blanks", 5: "größe"}
    files = {odd.get(number, f"file-{number}"): os.urandom(number) for number in range(200)}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder, files


def uploads(folder, files, bucket):
    return [f"cp {shlex.quote(str(folder / name))} {shlex.quote(bucket.url(name))}" for name in files]


def stored(bucket):
    return {key: bucket.get(key) for key in bucket.keys()}


@pytest.mark.parametrize("by", ["file", "pipe"])
def test_two_hundred_uploads(tidegate, on, small, listed, by):
    folder, files = small
    lines = ["# all of them", "", *uploads(folder, files, on)]
    if by == "file":
        run = tidegate("run", listed(lines), env=on.env)
    else:
        run = tidegate("run", "-", env=on.env, stdin="\n".join(lines).encode())
    assert run.exit == 0 and stored(on) == files, run
    # Each command says what it did, with the number of its line. A line "waiting: ..." has no number: a busy server may
    # ask for fewer requests.
    name = "list.txt" if by == "file" else "-"
    told = [line for line in run.err.splitlines() if not line.startswith("waiting: ")]
    said = {line.split(": ")[0].rsplit("/")[-1] for line in told}
    assert said == {f"{name}:{number}" for number in range(3, 203)}, run


def test_a_command_that_fails_stops_no_other(tidegate, bucket, small, listed, tmp_path):
    folder, files = small
    lines = uploads(folder, files, bucket)
    lines.insert(16, f"cp {tmp_path / 'nowhere'} {bucket.url('x')}")
    lines.append(f"tidegate rm {bucket.url('missing')}")
    path = listed(lines)
    run = tidegate("run", path, env=bucket.env)
    assert run.exit == 1 and stored(bucket) == files, run
    errors = [line for line in run.err.splitlines() if "error: " in line]
    assert any(line.startswith(f"{path}:17: error: {tmp_path / 'nowhere'}: ") for line in errors), run
    assert any(line.startswith(f"{path}:202: error: {bucket.url('missing')}: ") for line in errors), run
    assert errors[-1] == "error: 2 of 202 commands failed" and len(errors) == 3, run
    run = tidegate("run", "--json", path, env=bucket.env)
    errors = [json.loads(line) for line in run.err.splitlines()]
    errors = [line for line in errors if line["type"] == "error"]
    assert any(line["message"].startswith(f"{path}:202: {bucket.url('missing')}: ") for line in errors), run
    assert errors[-1]["message"] == "2 of 202 commands failed" and len(run.json) == 200, run
    # If all fail for the same reason, the exit code is theirs.
    run = tidegate("run", "-", env=bucket.env, stdin=f"rm {bucket.url('a')}\nrm {bucket.url('b')}\n".encode())
    assert run.exit == 3 and run.err.endswith("error: 2 of 2 commands failed\n"), run


WRONG = [
    ("cp 'a", "a quote is not closed"),
    ("du", "the following required arguments were not provided: <URL>"),
    ("get s3://bucket/key", "there is no command `get`"),
    ("cat s3://bucket/key", "`cat` can't be a line of a list"),
    ("cp - s3://bucket/key", "-: lines of a list can't read standard input"),
    ("cp --memory 1GiB a s3://bucket/key", "--memory holds for all lines together: give it to `tidegate run` instead"),
]


def test_a_wrong_line_of_a_file_stops_everything_before_it_begins(tidegate, bucket, small, listed):
    folder, files = small
    path = listed([*uploads(folder, files, bucket), *(line for line, _ in WRONG)])
    run = tidegate("run", path, env=bucket.env)
    assert run.exit == 2 and bucket.keys() == [], run
    *errors, last = run.err.splitlines()
    assert last == f"error: {path}: 6 of 206 commands are wrong; nothing was done", run
    for (_, message), number, error in zip(WRONG, range(201, 207), errors, strict=True):
        assert error.startswith(f"{path}:{number}: error: {message}"), run


def test_a_wrong_line_from_a_pipe_counts_as_failed(tidegate, bucket, small):
    folder, files = small
    lines = uploads(folder, files, bucket)
    lines[10:10] = [line for line, _ in WRONG]
    run = tidegate("run", "-", env=bucket.env, stdin="\n".join(lines).encode())
    assert run.exit == 1 and stored(bucket) == files, run
    assert run.err.endswith("error: 6 of 206 commands failed\n"), run
    for (_, message), number in zip(WRONG, range(11, 17), strict=True):
        assert f"-:{number}: error: {message}" in run.err, run


def test_a_command_from_a_pipe_runs_at_once(tidegate, bucket):
    with open_pipe() as pipe:
        run = tidegate.start("run", "-", env=bucket.env, stdin=pipe.stdin)
        pipe.started()
        for number in range(3):
            bucket.put(f"k{number}", b"1234")
            pipe.send(f"ls {bucket.url()}k{number}\n".encode())
            until(f"line {number} has run", lambda: f" k{number}" in run.output_so_far())  # noqa: B023
            assert not run.ended
        pipe.end()
        assert run.wait().exit == 0


def test_lines_of_many_commands_never_mix(tidegate, bucket, put_many, listed):
    put_many(bucket, "a/", 2000, b"x")
    run = tidegate("run", "--json", listed([f"ls -r {bucket.url('a/')}"] * 20), env=bucket.env)
    assert run.exit == 0, run
    urls = [line["url"] for line in run.json]
    assert len(urls) == 20 * 2000 and len(set(urls)) == 2000


def test_all_commands_share_one_budget(tidegate, bucket, make_file, listed):
    path, digest = make_file(64 * MIB)
    lines = [f"cp {path} {bucket.url(f'file-{number}')}" for number in range(20)]
    run = tidegate("run", "--json", "--memory", "32MiB", listed(lines), env=bucket.env, timeout=300)
    assert run.exit == 0 and len(run.json) == 20, run
    assert max(line["peak_buffered_bytes"] for line in run.json) <= 32 * MIB
    assert run.peak_kib < 200 * 1024, run.peak_kib
    assert len(bucket.keys()) == 20 and {bucket.sha256(key) for key in bucket.keys()} == {digest}


def test_an_interrupt_aborts_all(tidegate, minio, proxy_to, make_file, listed):
    bucket = Bucket(minio.endpoint)
    path, _ = make_file(64 * MIB)
    proxy = proxy_to(minio.address)
    proxy.bandwidth(2_000_000)
    lines = [f"cp {path} {bucket.url(f'file-{number}')}" for number in range(5)]
    run = tidegate.start("run", listed(lines), env=bucket.by(proxy.url).env)
    keys = [f"file-{number}" for number in range(5)]
    until("all uploads have sessions", lambda: all(bucket.sessions(key) for key in keys), timeout=60)
    run.interrupt()
    run = run.wait(20)
    assert run.exit == 130 and run.err.splitlines() == ["interrupted: aborting 5 unfinished uploads"], run
    for key in keys:
        bucket.assert_untouched(key)


def test_lines_have_accounts_of_their_own(tidegate, minio, versitygw, listed, tmp_path):
    here, there = Bucket(minio.endpoint), Bucket(versitygw.endpoint)
    config = tmp_path / "aws-config"
    config.write_text(
        "".join(
            f"[profile {name}]\nregion = us-east-1\nendpoint_url = {at.url}\naws_access_key_id = {at.access_key}\n"
            f"aws_secret_access_key = {at.secret_key}\n"
            for name, at in (("here", minio.endpoint), ("there", versitygw.endpoint))
        )
    )
    (tmp_path / "file").write_bytes(b"tide")
    lines = [
        f"cp {tmp_path / 'file'} s3://here@{here.name}/a",
        f"cp --profile there {tmp_path / 'file'} s3://{there.name}/a",
        f"mb s3://there@{there.name}-b",
        f"mb --profile here s3://{here.name}-b",
    ]
    run = tidegate("run", listed(lines), env={"AWS_CONFIG_FILE": str(config)})
    assert run.exit == 0 and here.get("a") == there.get("a") == b"tide", run
    for bucket in (here, there):
        bucket.client.delete_bucket(Bucket=f"{bucket.name}-b")


def test_a_list_ends_early_if_no_store_can_be_reached(tidegate, bucket, listed):
    env = {**bucket.env, "AWS_SECRET_ACCESS_KEY": "not-the-secret"}
    run = tidegate("run", "--parallel", "4", listed([f"ls {bucket.url('a')}"] * 1000), env=env)
    assert run.exit == 4, run
    last = run.err.splitlines()[-1]
    assert "commands failed, and no more were begun" in last and " of 10" in last, run


def test_journals_are_kept_for_lines_that_ask(tidegate, bucket, journal, listed, small):
    folder, files = small
    lines = [line.replace("cp ", "cp --strategy journal ") for line in uploads(folder, files, bucket)[:20]]
    run = tidegate("run", "--json", "--journal", journal, listed(lines), env=bucket.env)
    assert run.exit == 0 and {line["strategy"] for line in run.json} == {"journal"}, run
    assert len(bucket.keys()) == 20 and not list(journal.glob("*.journal"))
