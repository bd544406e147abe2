"""zarr's own tests of a store, from the installed package, on our file systems."""

import asyncio
import inspect

import fsspec
import pytest

pytest.importorskip("zarr")

from zarr.core.buffer import Buffer, cpu  # noqa: E402
from zarr.storage import FsspecStore  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402


def blocking(test):
    """zarr's tests are coroutines."""

    def run(self, **given):
        return asyncio.run(test(self, **given))

    run.__signature__ = inspect.signature(test)
    for mark in getattr(test, "pytestmark", []):
        run = getattr(pytest.mark, mark.name)(*mark.args, **mark.kwargs)(run)
    return run


# zarr's keys and values are not listed to their end in some of its tests.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
class TestOurFileSystem(StoreTests[FsspecStore, cpu.Buffer]):
    store_cls = FsspecStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def place(self, on_minio):
        return on_minio

    @pytest.fixture
    def store_kwargs(self, place, folder):
        fs = fsspec.filesystem(place.protocol, **place.options, asynchronous=True)
        return {"fs": fs, "path": folder}

    @pytest.fixture
    def store(self, open_kwargs):
        return asyncio.run(self.store_cls.open(**open_kwargs))

    @pytest.fixture
    def store_not_open(self, store_kwargs):
        return self.store_cls(**store_kwargs)

    async def set(self, store, key, value: Buffer) -> None:
        await store.fs._pipe_file(f"{store.path}/{key}", value.to_bytes())

    async def get(self, store, key) -> Buffer:
        return self.buffer_cls.from_bytes(await store.fs._cat_file(f"{store.path}/{key}"))

    def test_store_repr(self, store):
        assert str(store) == f"<FsspecStore({type(store.fs).__name__}, {store.path})>"

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing


for _name, _test in inspect.getmembers(TestOurFileSystem, inspect.iscoroutinefunction):
    if _name.startswith("test_"):
        setattr(TestOurFileSystem, _name, blocking(_test))
