"""A plugin of pytest with which universal_pathlib's own tests run on Tidegate's file systems: fsspec opens `s3://`, `gs://` and
`az://` with them, and the packages that the tests look for are there."""

import sys
import types

import tidegate.fsspec

tidegate.fsspec.install()
for _name in ("s3fs", "gcsfs", "adlfs", "fsspec.implementations.smb"):
    sys.modules[_name] = types.ModuleType(_name)
# The tests' conftest.py imports it for another file system.
sys.modules["fsspec.implementations.smb"].SMBFileSystem = type("SMBFileSystem", (), {"protocol": "smb"})
