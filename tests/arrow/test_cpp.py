"""The file system from C++, and the example of its guide: on a store in memory, and on servers."""

import os
import re
import subprocess
from pathlib import Path

import pyarrow
import pytest

from harness import ROOT
from harness.command import clean_env

HERE = Path(__file__).parent
LIBRARIES = ROOT / "bindings/python/python/tidegate/libraries"
TESTS = re.findall(r"^    \{\"(\w+)\", \1\},$", (HERE / "every.cc").read_text(), re.MULTILINE)


def compiled(source, *options):
    """Runs the compiler, with our headers and those of pyarrow."""
    include = [ROOT / "bindings/arrow/include", ROOT / "bindings/cpp", ROOT / "bindings/c/include"]
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-isystem", pyarrow.get_include()]
    command += [option for folder in include for option in ("-I", folder)]
    subprocess.run([*command, source, *options], check=True, timeout=240)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    to, arrow = tmp_path_factory.mktemp("cpp") / "every", pyarrow.get_library_dirs()[0]
    version = pyarrow.cpp_build_info.so_version
    ours = LIBRARIES / f"libtidegate_arrow_{version}.so"
    paths = f"-Wl,-rpath,{LIBRARIES}:{arrow}"
    compiled(HERE / "every.cc", ours, "-L", arrow, f"-l:libarrow.so.{version}", paths, "-pthread", "-o", to)
    return to


@pytest.mark.parametrize("place", ["memory", "server"])
@pytest.mark.parametrize("name", TESTS)
def test_rule(program, embedded_bucket, place, name):
    reach = {**embedded_bucket.env, "STORE": embedded_bucket.url().rstrip("/")} if place == "server" else {}
    run = subprocess.run([program, name], env=clean_env(reach), capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, ""), run
    if place == "server":
        assert embedded_bucket.sessions("aborted") == []


def test_the_example_of_the_guide_compiles(tmp_path):
    source = tmp_path / "example.cc"
    source.write_text(re.search(r"```cpp\n(.*?)```", (ROOT / "docs/ARROW.md").read_text(), re.DOTALL)[1])
    compiled(source, "-fsyntax-only")


def test_every_test_is_run(program):
    listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == sorted(TESTS)
    assert os.access(program, os.X_OK)
