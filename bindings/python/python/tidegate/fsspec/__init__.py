"""File systems for fsspec, and so for pandas, Dask, zarr and all else that opens URLs by fsspec.

The protocols ``tidegate+s3``, ``tidegate+gs``, ``tidegate+az``, ``tidegate+file`` and ``tidegate+memory`` are there once
the package is installed. :func:`install` also takes over the usual names.

>>> from tidegate.fsspec import MemoryFileSystem
>>> fs = MemoryFileSystem()
>>> with fs.open("demo/hello.txt", "w") as file:
...     _ = file.write("hello, tide")
>>> fs.cat("demo/hello.txt")
b'hello, tide'
"""

from ._filesystem import ObjectFileSystem
from ._install import install
from ._read import ReadFile
from ._stores import AzureFileSystem, GCSFileSystem, LocalFileSystem, MemoryFileSystem, S3FileSystem
from ._written import WrittenFile

__all__ = [
    "AzureFileSystem",
    "GCSFileSystem",
    "LocalFileSystem",
    "MemoryFileSystem",
    "ObjectFileSystem",
    "ReadFile",
    "S3FileSystem",
    "WrittenFile",
    "install",
]

for _name in __all__:
    # The names by which pickles and descriptions of file systems find these.
    globals()[_name].__module__ = __name__
