"""File systems for fsspec, and so for pandas, Dask, zarr and all else that opens URLs by fsspec.

The protocols ``tidegates3``, ``tidegategs``, ``tidegateaz``, ``tidegatefile`` and ``tidegatememory`` are there once the
package is installed; ``tidegate+s3`` and the like are their older names. :func:`install` also takes over the usual names.

>>> from tidegate.fsspec import MemoryFileSystem
>>> fs = MemoryFileSystem()
>>> with fs.open("demo/hello.txt", "w") as file:
...     _ = file.write("hello, tide")
>>> fs.cat("demo/hello.txt")
b'hello, tide'
"""

from ._filesystem import ObjectFileSystem
from ._install import hide_older_names, install
from ._read import ReadFile
from ._stores import AzureFileSystem, GCSFileSystem, LocalFileSystem, MemoryFileSystem, S3FileSystem
from ._written import WrittenFile, close_with_compressors

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

close_with_compressors()
hide_older_names()

for _name in __all__:
    # The names by which pickles and descriptions of file systems find these.
    globals()[_name].__module__ = __name__
