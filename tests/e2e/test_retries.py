"""What a single bad moment of a long upload comes to: credentials that expire, a clock that is wrong, a part that is
far slower than its peers."""

import json
import stat

import pytest

from harness import MIB
from harness.lines import one_sentence

PART = 5 * MIB
OPTIONS = ("--part-size", "5MiB", "--progress", "never")
EXPIRED = {"error": {"status": 400, "code": "ExpiredToken"}}
SKEWED = {"error": {"status": 403, "code": "RequestTimeTooSkewed"}}


@pytest.fixture
def token_server(embedded_bucket, tmp_path):
    """Keys that a program gives, as `credential_process` has it; it notes how often it was asked."""
    keys = {name: embedded_bucket.env[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    asked, program, config = tmp_path / "asked", tmp_path / "keys", tmp_path / "config"
    answer = json.dumps({"Version": 1, **dict(zip(("AccessKeyId", "SecretAccessKey"), keys.values(), strict=True))})
    program.write_text(f"#!/bin/sh\necho asked >> {asked}\necho '{answer}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    config.write_text(f"[default]\nregion = us-east-1\ncredential_process = {program}\n")
    env = {name: value for name, value in embedded_bucket.env.items() if name not in keys}
    env["AWS_CONFIG_FILE"] = str(config)
    return env, lambda: len(asked.read_text().split())


def test_a_token_that_expires_in_the_middle_is_fetched_anew(tidegate, embedded_bucket, knobs, make_file, token_server):
    env, asked = token_server
    path, digest = make_file(4 * PART)
    knobs(faults=[{"operation": "UploadPart", "action": EXPIRED, "part_number": 3, "times": 1}])
    run = tidegate("cp", path, embedded_bucket.url("k"), *OPTIONS, "--json", env=env)
    assert run.exit == 0, run
    assert run.json[0]["retries"] == 1
    assert asked() == 2
    assert embedded_bucket.sha256("k") == digest


def test_tokens_that_are_all_expired_end_it(tidegate, embedded_bucket, knobs, make_file, token_server):
    env, asked = token_server
    path, _ = make_file(1000)
    knobs(faults=[{"operation": "PutObject", "action": EXPIRED}])
    run = tidegate("cp", path, embedded_bucket.url("k"), *OPTIONS, env=env)
    said = one_sentence(run, embedded_bucket.url("k"), exit=4)
    assert "the credentials have expired" in said
    assert asked() == 2


def test_a_wrong_clock_is_told_and_not_retried(tidegate, embedded_bucket, counts, knobs, make_file):
    path, _ = make_file(1000)
    counts.reset()
    knobs(faults=[{"operation": "PutObject", "action": SKEWED}])
    run = tidegate("cp", path, embedded_bucket.url("k"), *OPTIONS, env=embedded_bucket.env)
    said = one_sentence(run, embedded_bucket.url("k"), exit=1)
    assert "this machine's clock says" in said and "set this machine's clock" in said
    assert counts()["PutObject"] == 1


@pytest.mark.alone
@pytest.mark.parametrize("hedge", ["on", "off"])
def test_a_slow_part_is_sent_again(tidegate, embedded_bucket, knobs, make_file, hedge):
    path, digest = make_file(24 * PART)
    knobs(faults=[{"operation": "UploadPart", "action": {"delay_ms": 8000}, "part_number": 23, "times": 1}])
    run = tidegate("cp", path, embedded_bucket.url("k"), *OPTIONS, "--hedge", hedge, "--json", env=embedded_bucket.env)
    assert run.exit == 0, run
    done = run.json[0]
    assert (done["hedges"], done["retries"]) == ({"on": 1, "off": 0}[hedge], 0), done
    assert (done["seconds"] < 8) == (hedge == "on"), done
    assert embedded_bucket.sha256("k") == digest
    assert embedded_bucket.sessions("k") == []
