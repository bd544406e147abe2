"""fsspec's own suite for implementations, unchanged, on each kind of store."""

import pytest
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)


class Suite(
    AbstractCopyTests, AbstractGetTests, AbstractPutTests, AbstractOpenTests, AbstractPipeTests, AbstractFixtures
):
    """All of the suite. A subclass names the fixture of its store."""

    where: str

    # It has the name of another test of the suite.
    test_put_with_source_and_destination_as_list = AbstractPutTests.test_copy_with_source_and_destination_as_list

    @pytest.fixture
    def there(self, request):
        return request.getfixturevalue(self.where)

    @pytest.fixture
    def fs(self, there):
        return there.fs()

    @pytest.fixture
    def fs_path(self, there):
        return there.folder()

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def supports_empty_directories(self):
        return self.where == "on_disk"


class TestS3(Suite):
    where = "on_minio"


class TestGoogle(Suite):
    where = "on_embedded"


class TestAzure(Suite):
    where = "on_azurite"


class TestDisk(Suite):
    where = "on_disk"


class TestMemory(Suite):
    where = "in_memory"
