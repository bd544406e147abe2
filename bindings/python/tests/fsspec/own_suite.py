"""Runs the tests of another package on our file systems, in a process of their own."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from harness.command import clean_env

HERE = Path(__file__).parent
#: Where `scripts/install suites` unpacks the source distributions that have the tests of packages.
SOURCES = os.environ.get("TIDEGATE_SUITES")


def run(arguments, *, plugin, cwd, timeout, **environment):
    """Runs `pytest` with a plugin of this folder. The names of the tests that passed and of those that failed, and what
    was printed."""
    report = cwd / "report.xml"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *arguments, "-p", plugin, "-q", "--tb=short", f"--junitxml={report}"),
            *("-p", "no:cacheprovider", "-p", "no:xdist"),
        ],
        cwd=cwd,
        env=clean_env(
            {
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
                "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(HERE)]),
                **environment,
            }
        ),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert report.exists(), ended.stdout[-20_000:] + ended.stderr[-20_000:]
    passed, failed = set(), set()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname').rpartition('.')[2]}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(name)
        elif case.find("skipped") is None:
            passed.add(name)
    return passed, failed, ended.stdout[-20_000:]


def failing(name):
    """The tests that are known to fail, each with the reason: those of a table in this folder."""
    groups = json.loads((HERE / name).read_text())
    return {test: why for why, tests in groups.items() for test in tests}
