"""What reads ask of a server, and what they cease to ask of it: counted there."""

import subprocess
import time
from pathlib import Path

import pytest

import tidegate.arrow
from harness.command import clean_env
from harness.s3 import Bucket
from harness.servers import Embedded

from .conftest import compiled, reached

MIB = 1 << 20
# Larger than what is fetched ahead.
SIZE = 145 * MIB


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Embedded(tmp_path_factory.mktemp("server"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def filled(server):
    """A bucket with the file, which no test changes."""
    bucket = Bucket(server.endpoint)
    bucket.put("large", bytes(SIZE))
    return bucket


@pytest.fixture
def knobs(server):
    """Sets the server's behaviour, until the test ends."""
    yield lambda **knobs: server.control("PUT", "knobs", knobs)
    server.control("PUT", "knobs", {})


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(Path(__file__).with_name("reads.cc"), tmp_path_factory.mktemp("cpp") / "reads")


@pytest.fixture
def start(program, server, filled):
    """Starts a program on a file. What came before is not counted."""
    started = []

    def begin(name, key="large"):
        server.control("DELETE", "counts")
        env = clean_env({**filled.env, "STORE": filled.url().rstrip("/"), "READ": key})
        pipe = subprocess.PIPE
        process = subprocess.Popen([program, name], env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def ends_well(process, limit=60):
    _, said = process.communicate(timeout=limit)
    assert (process.returncode, said) == (0, "")


def step(process):
    """Waits for the next step of the program."""
    assert process.stdout.readline() == "step\n", process.communicate(timeout=60)


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


def gets(server):
    return server.control("GET", "counts")["requests"].get("GetObject", 0)


def sent(server, least=0):
    """The bytes that the server has sent, once there are so many and no more come."""
    until = time.monotonic() + 60
    last, since = -1, time.monotonic()
    while time.monotonic() < until:
        now = server.control("GET", "counts")["bytes_out"]
        if now != last:
            last, since = now, time.monotonic()
        elif now >= least and time.monotonic() - since > 1.5:
            return now
        time.sleep(0.05)
    raise AssertionError(f"the server has sent {last} bytes, and {least} were to come")


FAILS_ONCE = {"operation": "GetObject", "action": {"error": {"status": 403, "code": "AccessDenied"}}, "times": 1}


def test_a_small_file_whose_first_read_fails_is_read_again(knobs, filled):
    filled.put("small", b"tide" * 1000)
    files = tidegate.arrow.filesystem(filled.url().rstrip("/"), **reached(filled.endpoint))
    with files.open_input_file("small") as file:
        knobs(faults=[FAILS_ONCE])
        with pytest.raises(PermissionError):
            file.read_at(4, 0)
        assert file.read_at(4, 0) == b"tide"


def test_a_directory_is_made_where_no_write_has_conditions(knobs, filled):
    files = tidegate.arrow.filesystem(filled.url().rstrip("/"), **reached(filled.endpoint))
    lacking = {"status": 501, "code": "NotImplemented"}
    for body in (None, b"the page"):
        if body:
            filled.put("made/", body)
        knobs(faults=[{"operation": "PutObject", "action": {"error": lacking}, "times": 1}])
        files.create_dir("made")
        assert filled.get("made/") == (body or b"")


def test_a_failed_fetch_is_forgotten(knobs, start):
    knobs(faults=[FAILS_ONCE])
    ends_well(start("a_failed_fetch_is_forgotten"))


def test_a_closed_file_downloads_nothing(knobs, server, start):
    knobs(bandwidth={"connection_out": 4 * MIB})
    process = start("a_closed_file_downloads_nothing")
    step(process)
    go_on(process)
    step(process)
    # 31 MiB were needed.
    assert sent(server) < 16 * MIB
    go_on(process)
    ends_well(process)


def test_a_bound_holds_for_what_was_not_taken(server, start):
    process = start("a_bound_holds_for_what_was_not_taken")
    step(process)
    # Of 18 ranges of 7.75 MiB, so many have less than 128 MiB.
    sent(server, 16 * 7 * MIB)
    assert gets(server) == 16
    go_on(process)
    step(process)
    assert gets(server) == 18
    go_on(process)
    ends_well(process)


def test_a_range_beyond_the_bound_is_left_to_the_read(server, start):
    process = start("a_range_beyond_the_bound_is_left_to_the_read")
    step(process)
    assert sent(server) < MIB
    go_on(process)
    ends_well(process)


def test_a_cache_that_is_not_lazy_reads_each_range_once(server, start):
    ends_well(start("a_cache_that_is_not_lazy_reads_each_range_once"))
    assert sent(server, 31 * MIB) < 32 * MIB


def test_a_known_description_saves_the_request(server, start):
    process = start("a_known_description_saves_the_request")
    step(process)
    server.control("DELETE", "counts")
    go_on(process)
    ends_well(process)
    assert server.control("GET", "counts")["requests"] == {"GetObject": 1}


@pytest.mark.parametrize("name", ["an_exit_cancels_what_is_needed", "an_exit_cancels_what_is_read"])
def test_an_exit_cancels(knobs, filled, start, name):
    filled.put("held", bytes(32 * MIB))
    knobs(faults=[{"operation": "GetObject", "action": "hold_answer", "key_prefix": "held"}])
    began = time.monotonic()
    ends_well(start(name, "held"))
    # It would wait for 5 seconds.
    assert time.monotonic() - began < 4
