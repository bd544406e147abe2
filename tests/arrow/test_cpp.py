"""The file system from C++, and the example of its guide: on a store in memory, and on servers."""

import re
import subprocess
from pathlib import Path

import pytest

from harness import ROOT
from harness.command import clean_env

from .conftest import compiled, run_compiler

HERE = Path(__file__).parent
TESTS = re.findall(r"^    \{\"(\w+)\", \1\},$", (HERE / "every.cc").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(HERE / "every.cc", tmp_path_factory.mktemp("cpp") / "every")


@pytest.mark.parametrize("place", ["memory", "server"])
@pytest.mark.parametrize("name", TESTS)
def test_rule(program, embedded_bucket, place, name):
    reach = {**embedded_bucket.env, "STORE": embedded_bucket.url().rstrip("/")} if place == "server" else {}
    run = subprocess.run([program, name], env=clean_env(reach), capture_output=True, text=True, timeout=120)
    # Arrow says what its destructors could not close.
    told = "was not published: it was closed while an exception unwinds" if "exception" in name else ""
    assert run.returncode == 0 and told in run.stderr and run.stderr.count("\n") == bool(told), run
    if place == "server":
        for key in ("aborted", "destroyed"):
            assert embedded_bucket.sessions(key) == []


def test_the_example_of_the_guide_compiles(tmp_path):
    source = tmp_path / "example.cc"
    source.write_text(re.search(r"```cpp\n(.*?)```", (ROOT / "docs/ARROW.md").read_text(), re.DOTALL)[1])
    run_compiler(source, "-fsyntax-only")


def test_every_test_is_run(program):
    listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == sorted(TESTS)
