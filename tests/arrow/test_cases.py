"""The cases of pyarrow's own `pyarrow/tests/test_fs.py`, unchanged, from the installed package, with our file system in the
place of theirs: in a bucket, below a prefix, and in a `SubTreeFileSystem`. Each case is run, or has its reason in `OTHERS`."""

import inspect
import pickle

import cloudpickle
import pytest
from pyarrow.fs import SubTreeFileSystem
from pyarrow.tests import test_fs as theirs

# What a case is given that is of any file system.
FIXTURES = {"allow_append_to_file", "allow_move_dir", "fs", "pathfn", "pickle_with_and_without_subtree_filesystem"}

AWS = "is of pyarrow's S3FileSystem: its options, its process-wide state, or real buckets of AWS"
OWN = "is of another file system of pyarrow"
ANY = "has no file system, or one of its own"
PYTHON = "is of PyFileSystem, which has its file system in Python"

# The other cases, with the reason that they are not of our file system.
OTHERS = {
    "test_azurefs_options": OWN,
    "test_cannot_instantiate_base_filesystem": ANY,
    "test_concurrent_s3fs_init": AWS,
    "test_copy_files": "has paths that begin with the bucket; test_files.py copies between two file systems",
    "test_copy_files_directory": OWN,
    "test_file_info_constructor": ANY,
    "test_filesystem_equals": ANY,
    "test_filesystem_from_path_object": OWN,
    "test_filesystem_from_uri": ANY,
    "test_filesystem_from_uri_calling": ANY,
    "test_filesystem_from_uri_gcs": OWN,
    "test_filesystem_from_uri_s3": AWS,
    "test_fsspec_delete_root_dir_contents": OWN,
    "test_fsspec_filesystem_from_uri": OWN,
    "test_gcs_options": OWN,
    "test_hdfs_options": OWN,
    "test_huggingface_filesystem_from_uri": OWN,
    "test_localfs_errors": OWN,
    "test_localfs_file_info": OWN,
    "test_localfs_options": OWN,
    "test_mockfs_mtime_roundtrip": OWN,
    "test_py_filesystem": PYTHON,
    "test_py_filesystem_equality": PYTHON,
    "test_py_filesystem_get_file_info": PYTHON,
    "test_py_filesystem_get_file_info_selector": PYTHON,
    "test_py_filesystem_lifetime": PYTHON,
    "test_py_filesystem_ops": PYTHON,
    "test_py_filesystem_pickling": PYTHON,
    "test_py_open_append_stream": PYTHON,
    "test_py_open_input_file": PYTHON,
    "test_py_open_input_stream": PYTHON,
    "test_py_open_output_stream": PYTHON,
    "test_resolve_s3_region": AWS,
    "test_s3_finalize": AWS,
    "test_s3_finalize_region_resolver": AWS,
    "test_s3_options": AWS,
    "test_s3_proxy_options": AWS,
    "test_s3_real_aws": AWS,
    "test_s3_real_aws_region_selection": AWS,
    "test_s3fs_limited_permissions_create_bucket": AWS,
    "test_s3fs_wrong_region": AWS,
    "test_subtree_filesystem": ANY,
    "test_type_name": ANY,
    "test_uwsgi_integration": AWS,
}

CASES = {name: case for name, case in vars(theirs).items() if name.startswith("test_") and inspect.isfunction(case)}


def parameters(case):
    """The arguments of a case that are fixtures."""
    named = set(inspect.signature(case).parameters)
    for mark in getattr(case, "pytestmark", []):
        if mark.name == "parametrize":
            names = mark.args[0]
            named -= set(names.replace(" ", "").split(",") if isinstance(names, str) else names)
    return named


# The case of the root asks two file systems of memory by name; ours stand in for both.
APPLIES = {
    name: case
    for name, case in CASES.items()
    if (parameters(case) <= FIXTURES and "fs" in parameters(case)) or parameters(case) == {"mockfs", "py_mockfs"}
}
globals().update(APPLIES)


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
    APPLIES["test_open_output_stream_metadata"](AsS3(fs), pathfn)


fs, pathfn = theirs.fs, theirs.pathfn
allow_move_dir, allow_append_to_file = theirs.allow_move_dir, theirs.allow_append_to_file
pickle_with_and_without_subtree_filesystem = theirs.pickle_with_and_without_subtree_filesystem


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


@pytest.fixture(params=[pickle, cloudpickle], ids=["pickle", "cloudpickle"])
def pickle_module(request):
    return request.param


def test_every_case_is_run_or_has_a_reason():
    assert CASES.keys() == APPLIES.keys() | OTHERS.keys()
    assert not APPLIES.keys() & OTHERS.keys()
    assert len(APPLIES) == 22
