"""Runs the programs that stop, and asks the store what they have left there."""

import json
import os
import subprocess
import sys
from pathlib import Path

from harness.command import clean_env
from harness.process import die_with_parent

from .libraries import LIBRARIES
from .stops import key_of
from .wrappers import WRAPPERS

HERE = Path(__file__).resolve().parent.parent
NOTHING = "nothing"
#: Seconds that a program may take for one file.
LIMIT = 60


def row(name: str, stop: str, bucket, together=False) -> dict[str, str]:
    """What is in the bucket after the library was stopped so, by wrapper. `together`: by one program, which forks."""
    problems = {}
    for wrappers in [list(WRAPPERS)] if together else [[wrapper] for wrapper in WRAPPERS]:
        problems |= stopped(name, stop, bucket, wrappers)
    return {wrapper: problems.get(wrapper) or left(bucket, name, wrapper, stop) for wrapper in WRAPPERS}


def stopped(name, stop, bucket, wrappers):
    """Why the library's file did not work with these wrappers, for each with which it did not."""
    # The harness is for the tests; a program finds the package and this one.
    path = os.pathsep.join([str(HERE / "python"), str(HERE)])
    env = clean_env({**bucket.env, "BUCKET": bucket.url().rstrip("/"), "PYTHONPATH": path})
    command = [sys.executable, "-W", "ignore", "-m", "torn.stops", name, stop, *wrappers]
    try:
        run = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=LIMIT * len(wrappers), preexec_fn=die_with_parent
        )
    except subprocess.TimeoutExpired:
        return {wrapper: f"hangs; {left(bucket, name, wrapper, stop)}" for wrapper in wrappers}
    found = {}
    for line in run.stdout.splitlines():
        found |= {wrapper: f"does not work: {why.split(':')[0]}" for wrapper, why in json.loads(line).items()}
    if run.stderr and not found:
        raise RuntimeError(f"{' '.join(command)}: exit {run.returncode}\n{run.stderr}")
    return found


def left(bucket, name, wrapper, stop):
    key = key_of(wrapper, stop)
    size = bucket.size(key)
    if size is not None:
        return f"**torn**, {size / (1 << 20):.1f} MiB"
    # Google's sessions cannot be listed.
    has_parts = LIBRARIES[name].scheme == "s3" and bucket.sessions(key)
    return f"{NOTHING}; parts" if has_parts else NOTHING
