"""The cases of pyarrow's own `pyarrow/tests/test_fs.py` that are run with the file system in Python, with ours: in a bucket,
below a prefix, and in a `SubTreeFileSystem`."""

import sys

import pytest
from pyarrow.fs import SubTreeFileSystem

from harness import ROOT

sys.path.append(str(ROOT / "bindings/python/tests/arrow"))
import test_pyarrow_cases as cases  # noqa: E402

globals().update(cases.APPLIES)
test_every_case_is_run_or_has_a_reason = cases.test_every_case_is_run_or_has_a_reason

fs, pathfn, pickle_module = cases.fs, cases.pathfn, cases.pickle_module
allow_move_dir, allow_append_to_file = cases.allow_move_dir, cases.allow_append_to_file
pickle_with_and_without_subtree_filesystem = cases.pickle_with_and_without_subtree_filesystem


class AsS3:
    """A file system that says that it is S3's."""

    type_name = "s3"

    def __init__(self, files):
        self._files = files

    def __getattr__(self, name):
        return getattr(self._files, name)


def test_open_output_stream_metadata(fs, pathfn):
    """The one case that is not run unchanged: it wants metadata only from types that it knows by name, and nothing at all from
    others. Ours gives it as S3FileSystem does, so the case is told that it is that."""
    cases.APPLIES["test_open_output_stream_metadata"](AsS3(fs), pathfn)


def ours(files):
    """A file system, as a fixture of pyarrow describes one."""
    return {"fs": files, "pathfn": lambda path: path, "allow_move_dir": False, "allow_append_to_file": False}


@pytest.fixture(params=["bucket", "subtree", "prefix"])
def filesystem_config(request, bucket, files, files_on):
    match request.param:
        case "subtree":
            files.create_dir("a/tree")
            return ours(SubTreeFileSystem("a/tree", files))
        case "prefix":
            return ours(files_on(bucket, "a/tree"))
    return ours(files)


@pytest.fixture
def mockfs(files):
    return ours(files)


@pytest.fixture
def py_mockfs(embedded_bucket, files_on):
    return ours(files_on(embedded_bucket))
