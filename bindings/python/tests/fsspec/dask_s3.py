"""A plugin of pytest with which Dask's own tests of S3 run on Tidegate: `s3fs`, which they import, is Tidegate's file
system, and fsspec opens `s3://` with it."""

import sys
import types

import tidegate.fsspec

tidegate.fsspec.install()
_s3fs = types.ModuleType("s3fs")
_s3fs.S3FileSystem = tidegate.fsspec.S3FileSystem
_s3fs.__version__ = "2026.9.0"
sys.modules["s3fs"] = _s3fs
