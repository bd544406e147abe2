"""`tidegate-bench crash`: processes that are killed while they upload through a journal."""

import pytest

from harness.azure import Container
from harness.lines import one_sentence
from harness.process import until
from harness.s3 import Bucket, GoogleBucket
from journals import listed


@pytest.fixture(params=["minio", "versitygw", "embedded", "google http", "google grpc", "azurite"])
def kind(request):
    """A new bucket on each server, and as each kind of store."""
    if request.param == "azurite":
        return Container(request.getfixturevalue("azurite").endpoint)
    if request.param.startswith("google"):
        return GoogleBucket(request.getfixturevalue("embedded").endpoint, request.param.split()[1])
    return Bucket(request.getfixturevalue(request.param).endpoint)


def test_fifty_kills_lose_nothing(bench, kind, journal):
    over = ["--grpc"] if "grpc" in kind.options else []
    kills = resumed = seed = 0
    # The moments of the kills are drawn from the speed of one upload before. On a busy machine all may come too late.
    while kills < 50 and seed < 40:
        seed += 1
        run = bench(
            "crash", "--count", "8", "--kills", "8", "--most", "20MiB", "--seed", str(seed),
            "--to", kind.url("crash"), "--journal", journal, "--json", *over, env=kind.env, timeout=120,
        )  # fmt: skip
        assert run.exit == 0, run
        [figures] = run.json
        wrong = {what: figures[what] for what in ("lost_bytes", "differing_objects", "sessions_left", "journals_left")}
        assert figures["objects"] == 8 and not any(wrong.values()), figures
        kills, resumed = kills + figures["kills"], resumed + figures["resumed"]
    assert kills >= 50 and resumed >= 10


def test_a_session_that_ends_as_it_is_looked_at_was_not_left(bench, embedded_bucket, knobs):
    """As where the request of a process that was killed is still under way."""
    embedded_bucket.endpoint.client().create_multipart_upload(Bucket=embedded_bucket.name, Key="crash/0000000")
    knobs(faults=[{"operation": "AbortMultipartUpload", "action": {"error": {"status": 404, "code": "NoSuchUpload"}}}])
    run = bench(
        "crash", "--count", "1", "--kills", "0", "--most", "1MiB", "--to", embedded_bucket.url("crash"), "--json",
        env=embedded_bucket.env,
    )  # fmt: skip
    assert run.exit == 0 and run.json[0]["empty_sessions"] == 0, run


@pytest.mark.parametrize("url", ["memory://crash", "dev://crash/k", "/tmp/crash", "s3://", "nothing://b/k", ""])
def test_where_crashing_processes_write_is_looked_at_first(bench, url):
    one_sentence(bench("crash", "--count", "1", "--to", url), url or "empty", "s3://", exit=1)


def test_the_killed_processes_take_nothing_from_the_environment(bench, embedded_bucket, counts, tmp_path):
    """Without --to they write to a server of their own, wherever the user's own store is."""
    config = tmp_path / "config"
    url = embedded_bucket.endpoint.url
    config.write_text(f"[default]\nservices = mine\n[services mine]\ns3 =\n  endpoint_url = {url}\n")
    env = embedded_bucket.env | {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_SESSION_TOKEN": "a token for the user's own store",
        "AWS_PROFILE": "default",
        "TMPDIR": str(tmp_path),
    }
    crash = ("crash", "--count", "1", "--kills", "1", "--most", "1MiB")
    for beside in ({}, {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, {"AWS_CONFIG_FILE": str(config)}):
        run = bench(*crash, env=env | beside)
        assert counts() == {}, counts()
        assert run.exit == 0, run
    assert list(tmp_path.glob("tidegate-crash-*")) == []


def test_journals_of_the_user_s_bucket_outlast_ctrl_c(tidegate, bench, embedded, embedded_bucket, tmp_path, proxy_to):
    proxy = proxy_to(embedded.address)
    proxy.bandwidth(1_000_000)
    env = embedded_bucket.endpoint.at(proxy.url).env | {"TMPDIR": str(tmp_path)}
    run = bench.start("crash", "--to", embedded_bucket.url("crash"), "--least", "40MiB", env=env)
    until("a process writes", lambda: embedded_bucket.parts("crash/0000100") >= 1)
    run.interrupt()
    result = run.wait(20)
    [journal] = tmp_path.glob("tidegate-crash-*")
    assert result.exit == 130 and f"`tidegate journal abort {journal} --all`" in result.err, result
    until("the process is gone", lambda: [left["state"] for left in listed(tidegate, journal)] != ["in_use"])
    run = tidegate("journal", "abort", journal, "--all", env=env)
    assert run.exit == 0 and "ended 1 upload" in run.text, run
    assert embedded_bucket.sessions("crash/0000100") == []


def test_a_directory_for_crashes_that_can_not_be_made_is_named(bench, tmp_path):
    nowhere = tmp_path / "nowhere"
    run = bench("crash", "--count", "1", env={"TMPDIR": str(nowhere)})
    one_sentence(run, nowhere, exit=1)
    assert "standard output" not in run.err, run
