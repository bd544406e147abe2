"""How many requests an upload makes, asked of the embedded server: the fewest that do the job."""

import resource
import subprocess

import pytest

from harness import KIB, MIB
from harness.command import binary, clean_env
from harness.process import until

PART = 5 * MIB


def multipart(parts):
    return {"CreateMultipartUpload": 1, "UploadPart": parts, "CompleteMultipartUpload": 1}


EXPECTED = [
    (0, {"PutObject": 1}),
    (1, {"PutObject": 1}),
    (PART - 1, {"PutObject": 1}),
    (PART, {"PutObject": 1}),
    (PART + 1, multipart(2)),
    (2 * PART - 1, multipart(2)),
    (2 * PART, multipart(2)),
    (2 * PART + 1, multipart(3)),
    (7 * PART, multipart(7)),
]


@pytest.mark.parametrize("size, requests", EXPECTED)
def test_of_a_file(tidegate, embedded_bucket, counts, make_file, size, requests):
    path, _ = make_file(size)
    counts.reset()
    run = tidegate("cp", path, embedded_bucket.url("k"), "--part-size", "5MiB", "--json", env=embedded_bucket.env)
    assert run.exit == 0, run
    assert counts() == requests
    assert run.json[0]["requests"] == sum(requests.values())


@pytest.mark.parametrize("size, requests", EXPECTED)
def test_of_a_pipe(tidegate, embedded_bucket, counts, make_file, size, requests):
    path, _ = make_file(size)
    counts.reset()
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as source:
        options = ("--part-size", "5MiB", "--json")
        run = tidegate("cp", "-", embedded_bucket.url("k"), *options, stdin=source.stdout, env=embedded_bucket.env)
    assert run.exit == 0, run
    assert counts() == requests
    assert run.json[0]["requests"] == sum(requests.values())


@pytest.mark.parametrize(
    "strategy, requests", [("put", {"PutObject": 1}), ("chunked", multipart(3)), ("parallel", multipart(3))]
)
def test_of_a_strategy(tidegate, embedded_bucket, counts, make_file, strategy, requests):
    path, digest = make_file(3 * PART)
    counts.reset()
    options = ("--strategy", strategy, "--part-size", "5MiB")
    run = tidegate("cp", path, embedded_bucket.url("k"), *options, env=embedded_bucket.env)
    assert run.exit == 0, run
    assert counts() == requests
    assert embedded_bucket.sha256("k") == digest


def test_create_only_asks_nothing_beforehand(tidegate, embedded_bucket, counts, make_file):
    """The condition travels with the request that publishes: a HEAD before it would be a race."""
    path, _ = make_file(2 * PART)
    counts.reset()
    options = ("--create-only", "--part-size", "5MiB")
    run = tidegate("cp", path, embedded_bucket.url("k"), *options, env=embedded_bucket.env)
    assert run.exit == 0, run
    assert counts() == multipart(2)


@pytest.mark.parametrize("words", [("cat", "{url}"), ("cp", "{url}", "-")])
def test_one_range_at_a_time(tidegate, embedded_bucket, counts, knobs, make_file, words):
    chunk, chunks, rate = 8 * MIB, 8, 40_000_000
    path, _ = make_file(chunk * chunks)
    embedded_bucket.put("k", path.read_bytes())
    knobs(bandwidth={"connection_out": rate})
    counts.reset()
    command = [word.format(url=embedded_bucket.url("k")) for word in words]
    run = tidegate(*command, "--concurrency", "1", stdout=subprocess.DEVNULL, env=embedded_bucket.env)
    assert run.exit == 0, run
    assert counts()["GetObject"] >= chunks
    # The first answer is read as it comes, beside the ranges that are read ahead; these take turns. A connection may
    # have a little at once before it is slow.
    assert run.seconds > 0.85 * chunk * (chunks - 1) / rate


def test_of_a_download(tidegate, embedded_bucket, counts, tmp_path):
    embedded_bucket.put("k", b"x" * 1000)
    counts.reset()
    run = tidegate("cat", embedded_bucket.url("k"), env=embedded_bucket.env)
    assert (run.exit, run.out) == (0, b"x" * 1000), run
    assert counts() == {"GetObject": 1}


@pytest.mark.alone
@pytest.mark.parametrize(
    "size, count, concurrency, fewest, most",
    [
        (1 * KIB, 1200, "auto", 170, 400),
        (1 * KIB, 800, "512", 400, 650),
        (1 * MIB, 150, "auto", 16, 90),
        (1 * MIB, 150, "256", 110, 170),
    ],
)
def test_more_small_objects_are_on_their_way_at_once(
    tidegate, embedded, embedded_bucket, counts, knobs, tmp_path, size, count, concurrency, fewest, most
):
    """Up to 256 to a store that is far, 64 where each has many bytes, and as many as may fly where that is said."""
    for number in range(count):
        (tmp_path / str(number)).write_bytes(bytes(size))
    knobs(latency={"fixed_ms": 100})
    counts.reset()
    options = ("-r", "--concurrency", concurrency)
    run = tidegate("cp", tmp_path, embedded_bucket.url("tree/"), *options, env=embedded_bucket.env)
    assert run.exit == 0, run
    assert counts() == {"PutObject": count}
    # A connection may be opened that is not needed.
    assert fewest <= embedded.control("GET", "counts")["connections"] <= most


def test_the_next_page_is_asked_for_while_the_first_is_at_work(
    tidegate, embedded_bucket, counts, knobs, tmp_path, put_many
):
    put_many(embedded_bucket, "tree/", 1001, b"x")
    counts.reset()
    knobs(faults=[{"operation": "GetObject", "action": "hold_answer"}])
    command = ("cp", "-r", embedded_bucket.url("tree/"), tmp_path)
    # With room for all that are held.
    run = tidegate.start(*command, "--concurrency", "512", env=embedded_bucket.env)
    until("a second page is asked for", lambda: counts().get("ListObjectsV2", 0) >= 2)
    run.interrupt()
    assert run.wait(20).exit == 130


@pytest.mark.parametrize("most", [None, 300])
def test_more_files_may_be_open_than_the_system_begins_with(embedded_bucket, knobs, tmp_path, most):
    for number in range(400):
        (tmp_path / str(number)).write_bytes(b"x")
    knobs(latency={"fixed_ms": 100})
    hard = most or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    command = [binary(), "cp", "-r", str(tmp_path), embedded_bucket.url("tree/"), "--concurrency", "512"]
    run = subprocess.run(
        command,
        env=clean_env() | embedded_bucket.env,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard)),
        capture_output=True,
        timeout=60,
    )
    assert run.returncode == 0, run
