"""The memory budget, held against the kernel's own peak of resident memory."""

import hashlib
import os
import subprocess
import time

from harness import KIB, MIB

SLACK_KIB = 40 * KIB  # The program, its threads and its connections, beside the budget.


def pipe_through(tidegate, path, *arguments, env, timeout):
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as source:
        return tidegate("cp", "-", *arguments, stdin=source.stdout, env=env, timeout=timeout)


def test_a_pipe_of_300_mib_in_64_mib(tidegate, bucket, make_file):
    path, digest = make_file(300 * MIB)
    run = pipe_through(tidegate, path, bucket.url("big"), "--memory", "64MiB", "--json", env=bucket.env, timeout=120)
    assert run.exit == 0, run
    assert run.peak_kib <= 64 * KIB + SLACK_KIB, run.peak_kib
    assert run.json[0]["peak_buffered_bytes"] <= 64 * MIB
    assert bucket.sha256("big") == digest


def test_a_slow_store_makes_it_wait_not_grow(tidegate, minio, bucket, proxy_to, make_file):
    """2 MB/s a connection: the pipe delivers far faster than the store takes."""
    proxy = proxy_to(minio.address)
    proxy.bandwidth(2_000_000)
    env = minio.endpoint.at(proxy.url).env
    path, digest = make_file(64 * MIB)
    options = ("--memory", "32MiB", "--part-size", "8MiB", "--json")
    run = pipe_through(tidegate, path, bucket.url("slow"), *options, env=env, timeout=180)
    assert run.exit == 0, run
    assert run.peak_kib <= 32 * KIB + SLACK_KIB, run.peak_kib
    assert run.json[0]["peak_buffered_bytes"] <= 32 * MIB
    assert bucket.sha256("slow") == digest


def test_a_file_is_not_gathered_in_memory(tidegate, bucket, make_file):
    """A file's parts are streamed from disk: one that was gathered would alone be more than the limit. The program's
    own pages are 16 MiB of that."""
    path, digest = make_file(300 * MIB)
    run = tidegate("cp", path, bucket.url("file"), "--part-size", "64MiB", "--json", env=bucket.env, timeout=120)
    assert run.exit == 0, run
    assert run.peak_kib <= 40 * KIB, run.peak_kib
    assert bucket.sha256("file") == digest


def test_a_read_for_a_slow_consumer(tidegate, bucket, make_file):
    """What is read ahead is within the budget, and a consumer that stops changes nothing."""
    path, digest = make_file(200 * MIB)
    bucket.put("k", path.read_bytes())
    read, write = os.pipe()
    with os.fdopen(write, "wb") as stdout:
        run = tidegate.start("cat", bucket.url("k"), "--memory", "32MiB", stdout=stdout, env=bucket.env)
    got = hashlib.sha256()
    with os.fdopen(read, "rb", buffering=0) as reader:
        for number, piece in enumerate(iter(lambda: reader.read(MIB), b"")):
            got.update(piece)
            if number == 20:
                time.sleep(3)
    result = run.wait(60)
    assert result.exit == 0 and got.hexdigest() == digest, result
    assert result.peak_kib <= 32 * KIB + SLACK_KIB, result.peak_kib
