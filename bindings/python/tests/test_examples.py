"""The examples of the README and of the package's documentation."""

import doctest
import importlib
import os
import pkgutil
from pathlib import Path

import pytest

import tidegate
from harness.command import binary

MODULES = ["tidegate", *(module.name for module in pkgutil.walk_packages(tidegate.__path__, "tidegate."))]


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("TIDEGATE_BIN", str(binary()))


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("._native")])
def test_examples_of(name):
    if name in ("tidegate.fsspec", "tidegate.pyarrow"):
        pytest.importorskip(name.split(".")[1])
    if "arrow" in name:
        pytest.importorskip("pyarrow")
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module)
    assert failed == 0


def test_examples_of_the_readme(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    readme = Path(__file__).parents[1] / "README.md"
    failed, tried = doctest.testfile(str(readme), module_relative=False, encoding="utf-8")
    assert failed == 0 and tried > 20
    assert os.getcwd() == str(tmp_path)
