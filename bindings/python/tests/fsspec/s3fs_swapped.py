"""A plugin of pytest with which s3fs's own tests run on Tidegate's class: `s3fs` is a package of the class and of what the
tests import besides. They have an address written down; `S3FS_URL` takes its place. `S3FS_SOURCE` is the source
distribution."""

import importlib.util
import os
import signal
import sys
import types
from pathlib import Path

import pytest

import tidegate.fsspec

_TESTS = Path(os.environ["S3FS_SOURCE"]) / "s3fs" / "tests"
_SECONDS = 60
_WRITTEN = 'endpoint_uri = "http://127.0.0.1:%s/" % port'

tidegate.fsspec.install()


def _module(name, **content):
    sys.modules[name] = module = types.ModuleType(name)
    module.__dict__.update(content)
    return module


def _loaded(name, path, change=lambda text: text):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    exec(compile(change(path.read_text()), path, "exec"), module.__dict__)
    return module


def _with_address(text):
    assert _WRITTEN in text
    return text.replace(_WRITTEN, f"endpoint_uri = {os.environ['S3FS_URL']!r}")


def _none(*arguments, **options):
    raise NotImplementedError("a part of s3fs that Tidegate has not")


_s3fs = _module("s3fs", __path__=[str(_TESTS.parent)], __version__="2026.9.0", S3Map=_none)
_s3fs.S3FileSystem = tidegate.fsspec.S3FileSystem
_s3fs.core = _module(
    "s3fs.core", S3FileSystem=_s3fs.S3FileSystem, MAX_UPLOAD_PARTS=10_000, calculate_chunksize=_none, S3File=_none
)
_s3fs.utils = _loaded("s3fs.utils", _TESTS.parent / "utils.py")
_s3fs.tests = _module("s3fs.tests", __path__=[str(_TESTS)])
_s3fs.tests.test_s3fs = _loaded("s3fs.tests.test_s3fs", _TESTS / "test_s3fs.py", _with_address)


class _TooLong(Exception):
    pass


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test that waits for something that never comes, such as an event of s3fs, fails."""

    def stop(number, frame):
        raise _TooLong(f"{item.name} takes longer than {_SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
