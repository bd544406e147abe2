"""The file system of each kind of store.

The first of its protocols names a file system, as fsspec has it; other libraries take the last (datasets), or know only
letters and digits for a protocol (xarray). So the own name of each has no other characters, and comes first and last.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
from typing import Any, NoReturn, cast
from urllib.parse import urlsplit

from fsspec.implementations.local import make_path_posix
from fsspec.utils import stringify_path

from .. import _native
from .._local import is_directory
from ._azure_options import ADLFS
from ._filesystem import ObjectFileSystem
from ._gcs_options import GCSFS
from ._listings import Info
from ._s3_options import S3FS
from ._settings import Dialect, check_newest


class S3FileSystem(ObjectFileSystem):
    """Objects of S3 and its compatibles, with the options of s3fs and of :class:`tidegate.Store`."""

    protocol = ("tidegates3", "tidegate+s3", "s3", "s3a", "tidegates3")
    scheme = "s3"
    dialect = S3FS

    def __init__(self, anon: bool | None = None, **options: Any) -> None:
        super().__init__(anon=anon, **options)
        store = self._settings.store
        # What s3fs has under these names.
        self.anon = store.get("anonymous", False)
        self.key = store.get("access_key")
        self.secret = store.get("secret_key")
        self.token = store.get("session_token")
        self.endpoint_url = store.get("endpoint_url")

    # Descriptions have the names that s3fs gives besides those of fsspec.

    def described(self, path: str, object: _native.Object) -> Info:
        return {**super().described(path, object), "Key": path, "Size": object.size}

    def _directory(self, path: str) -> Info:
        kind = "DIRECTORY" if self._split(path)[1] else "BUCKET"
        return {**super()._directory(path), "Key": path, "Size": 0, "StorageClass": kind, "VersionId": None}

    def _details(self, object: _native.Object) -> Info:
        return {
            "ETag": object.etag,
            "LastModified": object.modified,
            "StorageClass": object.storage_class or "STANDARD",
            "VersionId": object.version,
            "ContentType": object.content_type,
        }

    def metadata(self, path: str, refresh: bool = False, **options: Any) -> dict[str, str]:
        """The user metadata of an object. It is asked for, whatever ``refresh`` is."""
        return self._head(path, options).metadata

    def getxattr(self, path: str, attr_name: str, **options: Any) -> str | None:
        """One name of the user metadata."""
        return self.metadata(path, **options).get(attr_name.replace("_", "-"))

    def get_tags(self, path: str) -> dict[str, str]:
        """The tags of an object."""
        bucket, key = self._located(path)
        return self._blocking_store(bucket).tags(key)

    def put_tags(self, path: str, tags: dict[str, str], mode: str = "o") -> None:
        """Replaces the tags of an object, or with the mode ``"m"`` adds to them: by a copy of the object to itself, which
        is a new version where the bucket has versions."""
        if mode not in ("o", "m"):
            raise ValueError(f"mode {mode!r} is none of 'o' (replace all tags), 'm' (add to them)")
        self._check_writable()
        bucket, key = self._located(path)
        store = self._blocking_store(bucket)
        if mode == "m":
            tags = self.get_tags(path) | tags
        # The store takes a copy to the same key only if it changes something that it does not count tags to.
        try:
            store.copy(key, key, tags=tags, metadata=store.head(key).metadata)
        finally:
            self.forget(self._joined(bucket, key))

    def is_bucket_versioned(self, bucket: str) -> bool:
        """Whether the bucket keeps the versions of its objects. It is asked each time."""
        return self._blocking_store(self._split(self._strip_protocol(bucket))[0]).versioning() == "enabled"

    def _head(self, path: str, options: dict[str, Any]) -> _native.Object:
        check_newest(options)
        bucket, key = self._located(path)
        return self._blocking_store(bucket).head(key)

    def url(self, path: str, expires: float = 3600, client_method: str = "get_object", **options: Any) -> str:
        """As :meth:`sign`, by the name that s3fs has."""
        return cast(
            "str", self.sign(path, expires, {"get_object": "GET", "put_object": "PUT"}[client_method], **options)
        )


class GCSFileSystem(ObjectFileSystem):
    """Objects of Google Cloud Storage, with the options of gcsfs and of :class:`tidegate.Store`."""

    protocol = ("tidegategs", "tidegate+gs", "gs", "gcs", "tidegategs")
    scheme = "gs"
    dialect = GCSFS

    def __init__(self, project: str | None = None, **options: Any) -> None:
        super().__init__(project=project, **options)

    def _details(self, object: _native.Object) -> Info:
        return {
            "generation": object.version,
            "updated": object.modified,
            "storageClass": object.storage_class,
            "contentType": object.content_type,
        }


class AzureFileSystem(ObjectFileSystem):
    """Blobs of Azure, with the options of adlfs and of :class:`tidegate.Store`."""

    protocol = ("tidegateaz", "tidegate+az", "abfs", "az", "abfss", "tidegateaz")
    scheme = "az"
    dialect = ADLFS

    def __init__(self, account_name: str | None = None, **options: Any) -> None:
        super().__init__(account_name=account_name, **options)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Also of ``abfss://container@account.dfs.core.windows.net/key``."""
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = stringify_path(path)
        _, separator, rest = text.partition("://")
        container, at, host_and_key = rest.partition("@")
        if separator and at and "/" not in container:
            text = f"{container}/{host_and_key.partition('/')[2]}"
        return super()._strip_protocol(text).lstrip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        host = urlsplit(path).netloc.partition("@")[2]
        named = re.fullmatch(r"([a-z0-9]+)\.(?:dfs|blob)\.(.+)", host)
        if named is None:
            return {}
        account, cloud = named.groups()
        if cloud == "core.windows.net":
            return {"account_name": account}
        return {"account_name": account, "account_host": f"{account}.blob.{cloud}"}

    def _details(self, object: _native.Object) -> Info:
        return {"last_modified": object.modified, "metadata": object.metadata or None}


class MemoryFileSystem(ObjectFileSystem):
    """Objects in the memory of this process, in buckets that are there from the moment that they are named."""

    protocol = ("tidegatememory", "tidegate+memory", "tidegatememory")
    scheme = "memory"
    dialect = Dialect("fsspec", {})

    async def _has_bucket(self, bucket: str) -> bool:
        """A bucket in memory can be created again and again."""
        return False

    async def _create_bucket(self, bucket: str) -> None:
        """A bucket in memory is there, also before it is created."""

    async def _remove_bucket(self, bucket: str) -> None:
        """A bucket in memory stays, empty."""


class LocalFileSystem(ObjectFileSystem):
    """Files of the local disk, which appear as a whole when they are closed. Directories are those of the disk."""

    protocol = ("tidegatefile", "tidegate+file", "tidegatefile")
    scheme = "file"
    dialect = Dialect("fsspec", {})
    root_marker = "/"
    local_file = True

    def __init__(self, **options: Any) -> None:
        # Others change directories, and a listing costs no request.
        super().__init__(**{"use_listings_cache": False, **options})

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = stringify_path(path)
        for protocol in cls.protocol:
            text = text.removeprefix(f"{protocol}://").removeprefix(f"{protocol}:")
        text = make_path_posix(text)
        return text.rstrip("/") or cls.root_marker

    def _split(self, path: str) -> tuple[str, str]:
        return "/", path.lstrip("/")

    def _joined(self, bucket: str, key: str) -> str:
        return f"/{key}".rstrip("/") or "/"

    def _url(self, bucket: str) -> str:
        return bucket

    def _located_exactly(self, path: str) -> tuple[str, str]:
        if path.endswith("/"):
            raise is_directory(path) if os.path.isdir(path) else FileNotFoundError(path)
        return self._located(path)

    def _path(self, path: str) -> str:
        return cast("str", self._strip_protocol(path))

    async def _is_prefix(self, path: str) -> bool:
        return os.path.isdir(self._path(path))

    async def _level(self, bucket: str, prefix: str) -> list[Info] | None:
        listed = await super()._level(bucket, prefix)
        if listed is None and os.path.isdir(f"/{prefix}"):
            return []
        return listed

    async def _find_all(self, path: str, prefix: str) -> tuple[dict[str, Info], dict[str, Info]]:
        # Level by level: a listing of all keys has no empty directories.
        return await self._find_levels(path, prefix, None)

    async def _mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        self._check_writable()
        (os.makedirs if create_parents else os.mkdir)(self._path(path))

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        self._check_writable()
        os.makedirs(self._path(path), exist_ok=exist_ok)

    async def _rmdir(self, path: str) -> None:
        self._check_writable()
        os.rmdir(self._path(path))

    async def _rm_tree(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            try:
                await _remove_tree(path)
            finally:
                self.invalidate_cache(path)
        else:
            await self._store("/").head(path.lstrip("/"))
            await self._rm_file(path)

    def _real_path(self, path: str) -> str:
        return os.path.realpath(path)

    async def _cp_directory(self, path1: str, path2: str, options: dict[str, Any]) -> None:
        await self._makedirs(path2, exist_ok=True)

    async def _mv_directory(self, source: str, target: str) -> None:
        await super()._mv_directory(source, target)
        shutil.copymode(self._path(source), self._path(target))

    async def _rm_emptied(self, path: str, targets: dict[str, str]) -> list[str]:
        if not os.path.isdir(path) or os.path.islink(path):
            return []
        left: list[str] = []
        for directory, directories, files in os.walk(path, topdown=False):
            links = [name for name in directories if os.path.islink(os.path.join(directory, name))]
            left += [os.path.join(directory, name) for name in (*files, *links)]
            try:
                os.rmdir(directory)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        self.invalidate_cache(path)
        return sorted(left)


async def _remove_tree(path: str) -> None:
    """Removes a directory and what is in it. Other tasks run in between, and can cancel this one."""

    def fail(error: OSError) -> NoReturn:
        raise error

    for _, directories, files, descriptor in os.fwalk(path, topdown=False, onerror=fail):
        for name in files:
            os.unlink(name, dir_fd=descriptor)
            await asyncio.sleep(0)
        for name in directories:
            try:
                os.rmdir(name, dir_fd=descriptor)
            except NotADirectoryError:
                # A link to a directory.
                os.unlink(name, dir_fd=descriptor)
    os.rmdir(path)
