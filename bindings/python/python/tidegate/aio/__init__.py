"""The same package for asyncio: calls are awaited, and an operation ends when its task is cancelled.

>>> import asyncio
>>> import tidegate.aio
>>> async def main():
...     async with tidegate.aio.open("memory://demo/hello.txt", "wb") as file:
...         await file.write(b"hello, tide")
...     async with tidegate.aio.open("memory://demo/hello.txt") as file:
...         return await file.read()
>>> asyncio.run(main())
b'hello, tide'
"""

from .. import trees
from ._files import Reader, Writer
from ._left import LeftUpload
from ._open import open
from ._recover import recover
from ._store import Store
from ._transfer import copy, download, sync, upload

__all__ = ["LeftUpload", "Reader", "Store", "Writer", "copy", "download", "open", "recover", "sync", "trees", "upload"]
