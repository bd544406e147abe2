"""Uploads that are left in a journal directory: how tests leave them there, and what is in it."""

import tempfile
from pathlib import Path

from harness import MIB
from harness.feed import open_pipe
from harness.process import until

PART = 5 * MIB
CP = ("--part-size", "5MiB", "--progress", "never")


def listed(tidegate, journal):
    run = tidegate("journal", "ls", journal, "--json")
    assert run.exit == 0, run
    return run.json


def copied(tidegate, journal):
    """What is in journals that a process has yet, by copies of their files."""
    with tempfile.TemporaryDirectory() as folder:
        for file in journal.glob("*.journal"):
            (Path(folder) / file.name).write_bytes(file.read_bytes())
        return listed(tidegate, folder)


def until_it_has(tidegate, journal, length):
    """Waits for so many bytes of the object to be in the one journal, which a process has yet."""
    until(
        f"{length} bytes are in the journal", lambda: [left["bytes"] for left in copied(tidegate, journal)] == [length]
    )


def left_behind(tidegate, on, journal, data, options=(), wait=None):
    """A `cp` of `data` to `k` that was killed before its source had ended: when all of it was in the journal, and
    `wait` was true."""
    with open_pipe() as pipe:
        cp = ("cp", "-", on.url("k"), *CP, *on.options, "--journal", journal, *options)
        run = tidegate.start(*cp, stdin=pipe.stdin, env=on.env)
        pipe.started()
        pipe.send(data)
        pipe.join()
        until_it_has(tidegate, journal, len(data))
        if wait:
            until("the store has come so far", wait)
        run.killed()


def unanswered(tidegate, on, journal, data, proxy, options=()):
    """A `cp` of `data` to `k` that has read all of its source, and found nobody at the proxy to send it to."""
    proxy.cut()
    cp = ("cp", "-", on.url("k"), *CP, *on.options, "--journal", journal, "--attempts", "1", *options)
    run = tidegate(*cp, stdin=data, env=on.by(proxy.url).env)
    assert run.exit == 5, run
    proxy.mend()
    [left] = listed(tidegate, journal)
    assert left["state"] == "finished" and left["bytes"] == len(data), left
