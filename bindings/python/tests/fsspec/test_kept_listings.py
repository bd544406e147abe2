"""Listings that are kept: never one that lacks a change of the same file system."""

import asyncio

import pytest

import tidegate


async def ask_while_listing(fs, folder, change):
    """Lists the folder, and changes it when the listing has been asked for and has not been kept."""
    level = fs._level

    async def slow(bucket, prefix):
        infos = await level(bucket, prefix)
        await change()
        return infos

    fs._level = slow
    try:
        await fs._ls(folder)
    finally:
        fs._level = level
    return await fs._ls(folder)


@pytest.mark.parametrize("how", ["pipe", "file"])
def test_a_listing_under_way_during_a_write_is_not_kept(place, folder, how):
    async def main():
        fs = place.fs(asynchronous=True, skip_instance_cache=True, use_listings_cache=True)
        await fs._pipe_file(f"{folder}/one", b"1")

        async def change():
            if how == "pipe":
                await fs._pipe_file(f"{folder}/two", b"2")
            else:
                async with await fs.open_async(f"{folder}/two", "wb") as file:
                    await file.write(b"2")

        assert await ask_while_listing(fs, folder, change) == [f"{folder}/one", f"{folder}/two"]

    asyncio.run(main())


def test_a_file_of_asyncio_is_listed_once_it_is_published(place, folder):
    async def main():
        fs = place.fs(asynchronous=True, skip_instance_cache=True, use_listings_cache=True)
        await fs._pipe_file(f"{folder}/one", b"1")
        async with await fs.open_async(f"{folder}/two", "wb") as file:
            await file.write(b"2")
            assert await fs._ls(folder) == [f"{folder}/one"]
        assert await fs._ls(folder) == [f"{folder}/one", f"{folder}/two"]

    asyncio.run(main())


def test_a_change_that_fails_is_forgotten_too(place, folder, tmp_path, monkeypatch):
    """The change may have been made all the same: its answer was lost."""
    fs = place.fs(skip_instance_cache=True, use_listings_cache=True)
    other = place.fs(skip_instance_cache=True)
    source = tmp_path / "source"
    source.write_bytes(b"1")
    fs.pipe_file(f"{folder}/here", b"1")

    def loses_answers(name):
        method = getattr(tidegate.aio.Store, name)

        async def lost(self, *arguments, **options):
            await method(self, *arguments, **options)
            raise tidegate.UncertainError("the answer was lost")

        monkeypatch.setattr(tidegate.aio.Store, name, lost)

    for name in ("put", "upload", "delete", "delete_many"):
        loses_answers(name)
    for change in (
        lambda: fs.pipe_file(f"{folder}/one", b"1"),
        lambda: fs.put_file(str(source), f"{folder}/two"),
        lambda: fs.rm_file(f"{folder}/one"),
        lambda: fs.rm(f"{folder}/two"),
    ):
        fs.ls(folder)
        with pytest.raises(tidegate.UncertainError):
            change()
        assert fs.ls(folder) == other.ls(folder, refresh=True)


def test_a_name_that_is_empty(on_minio):
    """The bucket's own listing shows a key such as `bucket//key`."""
    fs = on_minio.fs(skip_instance_cache=True)
    bucket = f"{on_minio.bucket}"
    path = f"{bucket}//{on_minio.folder().split('/')[1]}"
    fs.ls(bucket)
    assert bucket in fs.dircache
    fs.pipe_file(path, b"1")
    assert bucket not in fs.dircache
    assert fs._parent(path) == bucket and fs.cat(path) == b"1"
    fs.rm_file(path)
