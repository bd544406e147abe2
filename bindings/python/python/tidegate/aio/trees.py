"""Trees of objects for asyncio: the operations of :mod:`tidegate.trees`, awaited.

>>> import asyncio
>>> import tidegate.aio
>>> async def main():
...     async with tidegate.aio.open("memory://shots/2026/b.jpg", "wb") as file:
...         await file.write(b"jpeg")
...     run = tidegate.aio.trees.sync("memory://shots", "memory://copy")
...     async for event in run:
...         print(event.kind, event.target)
...     return (await run).copied
>>> asyncio.run(main())
copied memory://copy/2026/b.jpg
1
"""

from ..trees import Event, IncompleteError, Run, TreeProgress, TreeReport, check, copy, move, remove, sync

__all__ = [
    "Event",
    "IncompleteError",
    "Run",
    "TreeProgress",
    "TreeReport",
    "check",
    "copy",
    "move",
    "remove",
    "sync",
]
