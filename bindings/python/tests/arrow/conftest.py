"""What the tests of pyarrow's filesystem, and of programs that people write, have beside the other fixtures."""

import pytest
from pyarrow.conftest import groups

import tidegate
import tidegate.pyarrow
from reach import reached


def pytest_configure(config):
    # Marks of pyarrow's own tests; which of them apply, test_pyarrow_cases.py says.
    for mark in groups:
        config.addinivalue_line("markers", f"{mark}: of pyarrow's own tests")


@pytest.fixture(scope="session")
def store_on():
    """`store_on(bucket)` is a store of it."""

    def open_store(bucket, **options):
        return tidegate.Store(bucket.url().rstrip("/"), **reached(bucket), **options)

    return open_store


@pytest.fixture
def bucket(minio_bucket):
    """A new bucket, also of the programs that a test starts: on MinIO."""
    return minio_bucket


@pytest.fixture
def store(bucket, store_on):
    return store_on(bucket)


@pytest.fixture
def files(store):
    """The filesystem of that bucket."""
    return tidegate.pyarrow.filesystem(store)
