"""The cases of pyarrow's own `pyarrow/tests/test_fs.py`, unchanged, from the installed package, with our filesystem in the
place of theirs: on MinIO, and below a directory of it. A case is one that applies, or has its reason in `OTHERS`."""

import inspect
import pickle

import cloudpickle
import pytest
from pyarrow.fs import SubTreeFileSystem
from pyarrow.tests import test_fs as theirs

import tidegate.pyarrow

# What a case is given that is of any filesystem.
FIXTURES = {
    "allow_append_to_file",
    "allow_move_dir",
    "fs",
    "pathfn",
    "pickle_with_and_without_subtree_filesystem",
}

AWS = "is of pyarrow's S3FileSystem: its options, its process-wide state, or real buckets of AWS"
OWN = "is of another filesystem of pyarrow"
ANY = "has no filesystem, or one of its own"

# The other cases, with the reason that they are not of our filesystem.
OTHERS = {
    "test_azurefs_options": OWN,
    "test_cannot_instantiate_base_filesystem": ANY,
    "test_concurrent_s3fs_init": AWS,
    "test_copy_files": "has paths that begin with the bucket; test_filesystem.py copies between two filesystems",
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
    "test_py_filesystem": ANY,
    "test_py_filesystem_equality": ANY,
    "test_py_filesystem_get_file_info": ANY,
    "test_py_filesystem_get_file_info_selector": ANY,
    "test_py_filesystem_lifetime": ANY,
    "test_py_filesystem_ops": ANY,
    "test_py_filesystem_pickling": ANY,
    "test_py_open_append_stream": ANY,
    "test_py_open_input_file": ANY,
    "test_py_open_input_stream": ANY,
    "test_py_open_output_stream": ANY,
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


# The case of the root asks two filesystems of memory by name; ours stand in for both.
APPLIES = {
    name: case
    for name, case in CASES.items()
    if (parameters(case) <= FIXTURES and "fs" in parameters(case)) or parameters(case) == {"mockfs", "py_mockfs"}
}
globals().update(APPLIES)

fs, pathfn = theirs.fs, theirs.pathfn
allow_move_dir, allow_append_to_file = theirs.allow_move_dir, theirs.allow_append_to_file
pickle_with_and_without_subtree_filesystem = theirs.pickle_with_and_without_subtree_filesystem


def ours(store):
    """A filesystem on a store, as a fixture of pyarrow describes one."""
    return {
        "fs": tidegate.pyarrow.filesystem(store),
        "pathfn": lambda path: path,
        "allow_move_dir": False,
        "allow_append_to_file": False,
    }


@pytest.fixture(params=["bucket", "subtree", "prefix"])
def filesystem_config(request, store):
    config = ours(store)
    match request.param:
        case "subtree":
            config["fs"].create_dir("a/tree")
            config["fs"] = SubTreeFileSystem("a/tree", config["fs"])
        case "prefix":
            config["fs"] = tidegate.pyarrow.filesystem(store.within("a/tree"))
    return config


@pytest.fixture
def mockfs(store):
    return ours(store)


@pytest.fixture
def py_mockfs(embedded_bucket, store_on):
    return ours(store_on(embedded_bucket))


@pytest.fixture(params=[pickle, cloudpickle], ids=["pickle", "cloudpickle"])
def pickle_module(request):
    return request.param


def test_every_case_is_run_or_has_a_reason():
    assert CASES.keys() == APPLIES.keys() | OTHERS.keys()
    assert not APPLIES.keys() & OTHERS.keys()
    assert len(APPLIES) == 22
