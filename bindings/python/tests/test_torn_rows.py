"""The table of torn files, on the Python that runs the tests and on every other one that is installed here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate
from torn_rows import PROGRAMS, ROWS, problem, problem_of_program

PROGRAM = Path(__file__).with_name("torn_rows.py")


@pytest.mark.parametrize("filters", ["always", "error"])
@pytest.mark.parametrize("name", ROWS)
def test_a_row(name, filters):
    assert problem(name, filters) is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_how_a_program_ends(name):
    assert problem_of_program(name) is None


@pytest.mark.parametrize("version", [f"3.{minor}" for minor in range(11, 16)])
def test_all_rows_on(version):
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip("the rows above were run by it")
    # The variable chooses among pyenv's, and is nothing to others.
    environment = {**os.environ, "PYENV_VERSION": version, "PYTHONPATH": str(Path(tidegate.__file__).parents[1])}
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-V"], env=environment, capture_output=True).returncode:
        pytest.skip(f"Python {version} is not installed")
    run = subprocess.run([python, PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{len(ROWS)} rows on Python {version}." in run.stdout
