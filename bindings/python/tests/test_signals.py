"""Ctrl-C: every call that waits ends within a second, and publishes nothing."""

import os
import signal
import textwrap
import time

import pytest

CALLS = {
    "get": "store.get('a')",
    "put": "store.put('a', b'1')",
    "large put": "store.put('a', bytes(12 << 20), part_size=5 << 20)",
    "head": "store.head('a')",
    "list": "list(store.list())",
    "open to read": "tidegate.open(URL + '/a', 'rb', endpoint_url=ENDPOINT, access_key='a', secret_key='b')",
    "close": "file = store.writer('a'); file.write(b'1'); waiting(); file.close()",
    "write": "file = store.writer('a', part_size=5 << 20)\nwaiting()\nwhile True: file.write(bytes(1 << 20))",
    "progress": "store.put('a', b'1', progress=lambda _: None)",
    "sync": "tidegate.sync(store, '.')",
    "aio get": "asyncio.run(tidegate.aio.Store(URL, **OPTIONS).get('a'))",
    "aio put": "asyncio.run(tidegate.aio.Store(URL, **OPTIONS).put('a', bytes(1 << 20)))",
}


def patience():
    """A second; on a busy machine, a second for each program that waits for a processor."""
    return max(1, os.getloadavg()[0] / os.cpu_count())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_ctrl_c_ends_a_wait_within_a_second(program, silent, call):
    running = program(
        f"""
import asyncio, time, tidegate, tidegate.aio
ENDPOINT = "http://127.0.0.1:{silent}"
URL = "s3://bucket"
OPTIONS = dict(endpoint_url=ENDPOINT, access_key="a", secret_key="b", memory=16 << 20)
store = tidegate.Store(URL, **OPTIONS)
def waiting():
    print("waiting", flush=True)
waiting()
def call():
{textwrap.indent(call, "    ")}
try:
    call()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    )
    assert running.line() == "waiting"
    if "waiting()" in call:
        assert running.line() == "waiting"
    time.sleep(0.5)  # It waits by now, most likely; if not yet, the signal is handled as well.
    began = time.monotonic()
    running.process.send_signal(signal.SIGINT)
    assert running.line() == "interrupted"
    took = time.monotonic() - began
    assert took < patience(), f"{took:.2f} s"
    # Aborts of sessions that the server never answers do not keep the process.
    running.process.stdin.close()
    assert running.process.wait(10) == 0


def test_ctrl_c_in_a_with_block_publishes_nothing(program, bucket):
    running = program(
        """
        import os, tidegate
        try:
            with tidegate.open(os.environ["BUCKET"] + "/a", "wb") as file:
                print("open", flush=True)
                while True:
                    file.write(bytes(1000))
                    if file.tell() > 2 << 30: break
        except KeyboardInterrupt:
            print("interrupted", file.closed, file.object)
        """
    )
    assert running.line() == "open"
    time.sleep(0.3)
    running.process.send_signal(signal.SIGINT)
    assert running.succeeds().strip() == "interrupted True None"
    bucket.assert_untouched("a")


def test_the_handler_of_another_signal_runs_during_a_wait(program, silent):
    running = program(
        f"""
import signal, tidegate
store = tidegate.Store("s3://bucket", endpoint_url="http://127.0.0.1:{silent}", access_key="a", secret_key="b")
class Alarm(Exception): pass
def handle(*_): raise Alarm
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    store.get("a")
except Alarm:
    print("alarm")
"""
    )
    assert running.line() == "alarm"
    assert running.process.wait(10) == 0


def test_an_exception_of_a_handler_loses_no_bytes_of_a_text_file(program):
    """Python runs handlers at the beginning of functions, and its wrappers forget what they could not write."""
    running = program(
        """
        import random, signal, secrets, tidegate
        class Alarm(Exception): pass
        def handle(*_): raise Alarm
        signal.signal(signal.SIGALRM, handle)
        url = f"memory://{secrets.token_hex(4)}/a"
        lines = [f"{number:09}\\n" for number in range(100_000)]
        torn = 0
        for trial in range(400):
            file = tidegate.open(url, "w")
            file._CHUNK_SIZE = 35
            written = 0
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.003))
                for line in lines:
                    file.write(line)
                    written += 1
            except Alarm:
                pass
            try:
                file.close()
            except (ValueError, OSError):
                continue
            data = tidegate.open(url).read()
            torn += not "".join(lines[:written + 1]).startswith(data) or len(data) < 10 * written
        print(torn)
        """
    )
    assert running.succeeds(60).strip() == "0"


@pytest.mark.parametrize("end", ["", "file.close()", "file.publish()"])
def test_a_handler_may_use_the_file_that_is_being_waited_for(program, bucket, end):
    running = program(
        f"""
import os, signal, tidegate
store = tidegate.Store(os.environ["BUCKET"], memory=16 << 20, bandwidth=20_000_000)
file = store.writer("a", part_size=5 << 20)
handled = 0
def handle(*_):
    global handled
    handled += 1
    file.write(b"1")
    {end}
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 1)
written = 0
while not handled:
    file.write(bytes(1 << 20))
    written += 1
file.close()
print((written << 20) + handled)
"""
    )
    size = int(running.succeeds())
    assert bucket.size("a") == size


def test_a_handler_may_discard_the_file_that_is_being_waited_for(program, silent):
    running = program(
        f"""
import os, signal, tidegate
store = tidegate.Store(
    "s3://bucket", endpoint_url="http://127.0.0.1:{silent}", access_key="a", secret_key="b", memory=16 << 20
)
file = store.writer("a", part_size=5 << 20)
class Alarm(Exception): pass
def handle(*_):
    file.discard()
    raise Alarm
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    while True:
        file.write(bytes(1 << 20))
except Alarm:
    print(file.closed, flush=True)
os._exit(0)
"""
    )
    assert running.line() == "True"
    assert running.process.wait(10) == 0


def test_a_write_that_is_interrupted_while_another_thread_closes_publishes_nothing(program, silent):
    running = program(
        f"""
import os, signal, threading, time, tidegate
store = tidegate.Store(
    "s3://bucket", endpoint_url="http://127.0.0.1:{silent}", access_key="a", secret_key="b", memory=16 << 20
)
file = store.writer("a", part_size=5 << 20)
class Alarm(Exception): pass
def handle(*_): raise Alarm
signal.signal(signal.SIGALRM, handle)
def close():
    while file.progress().waiting != "memory":
        time.sleep(0.01)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        file.close()
    except ValueError as error:
        print(error, flush=True)
thread = threading.Thread(target=close)
thread.start()
try:
    while True:
        file.write(bytes(1 << 20))
except Alarm:
    pass
thread.join()
os._exit(0)
"""
    )
    assert "a call has failed before, and nothing was published" in running.line()
