"""A plugin of pytest with which Dask's own tests of S3 run on Tidegate: `s3fs`, which they import, is Tidegate's file
system, and fsspec opens `s3://` with it. They have an address written down; `DASK_S3_URL` takes its place."""

import importlib.util
import os
import sys
import types
from pathlib import Path

import tidegate.fsspec

tidegate.fsspec.install()
_s3fs = types.ModuleType("s3fs")
_s3fs.S3FileSystem = tidegate.fsspec.S3FileSystem
_s3fs.__version__ = "2026.9.0"
sys.modules["s3fs"] = _s3fs

# pytest finds the module imported already.
_name, _written = "dask.bytes.tests.test_s3", "http://127.0.0.1:5555/"
_spec = importlib.util.find_spec(_name)
_source = Path(_spec.origin).read_text()
assert _written in _source
sys.modules[_name] = _module = importlib.util.module_from_spec(_spec)
exec(compile(_source.replace(_written, os.environ["DASK_S3_URL"]), _spec.origin, "exec"), _module.__dict__)
