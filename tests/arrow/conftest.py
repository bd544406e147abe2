"""The file system of Arrow: the package beside its sources, with the libraries that scripts/test has built."""

import os
import secrets
import subprocess
import sys

import pyarrow
import pytest
from pyarrow.conftest import groups

from harness import ROOT
from harness.command import clean_env

SOURCES = ROOT / "bindings/python/python"
sys.path.insert(0, str(SOURCES))
sys.path.append(str(ROOT / "bindings/python/tests"))
os.environ.setdefault("TIDEGATE_BIN", str(ROOT / "target/debug/tidegate"))

import tidegate.arrow  # noqa: E402
from reach import reached_by as reached  # noqa: E402


def pytest_configure(config):
    # Marks of pyarrow's own tests.
    for mark in groups:
        config.addinivalue_line("markers", f"{mark}: of pyarrow's own tests")


def compiled(source, to):
    """A program with our library and that of pyarrow."""
    arrow, version = pyarrow.get_library_dirs()[0], pyarrow.cpp_build_info.so_version
    libraries = SOURCES / "tidegate/libraries"
    links = [libraries / f"libtidegate_arrow_{version}.so", "-L", arrow, f"-l:libarrow.so.{version}", "-pthread"]
    run_compiler(source, *links, f"-Wl,-rpath,{libraries}:{arrow}", "-o", to)
    return to


def run_compiler(source, *options):
    """Runs the compiler, with our headers and those of pyarrow."""
    include = [ROOT / "bindings/arrow/include", ROOT / "bindings/cpp", ROOT / "bindings/c/include"]
    command = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-isystem", pyarrow.get_include()]
    command += [option for folder in include for option in ("-I", folder)]
    subprocess.run([*command, source, *options], check=True, timeout=240)


@pytest.fixture
def files_on():
    """`files_on(bucket)` is the file system of a bucket, or of what is below `prefix` in it."""

    def open_files(bucket, prefix="", **options):
        return tidegate.arrow.filesystem(bucket.url(prefix).rstrip("/"), **reached(bucket.endpoint), **options)

    return open_files


@pytest.fixture
def bucket(any_bucket):
    """A new bucket, on MinIO and on the embedded server."""
    return any_bucket


@pytest.fixture
def files(bucket, files_on):
    return files_on(bucket)


@pytest.fixture
def program(bucket, tmp_path):
    """Runs a Python program to its end. It reaches the bucket by its environment; `BUCKET` is the bucket's URL."""

    def run(text, limit=60, **env):
        path = tmp_path / f"program-{secrets.token_hex(4)}.py"
        path.write_text(text)
        environment = clean_env({**bucket.env, "BUCKET": bucket.url().rstrip("/"), "PYTHONPATH": str(SOURCES), **env})
        return subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=limit)

    return run
