"""Many objects, some of them at once: as many workers as there are to be in flight take objects from one iterator."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

#: A key and its bytes.
Item = tuple[str, bytes]


async def by_tasks(objects: Iterator[Item], at_once: int, put: Callable[[str, bytes], Awaitable[object]]) -> None:
    """Awaits `put` for each object, with `at_once` tasks."""

    async def work() -> None:
        for key, data in objects:
            await put(key, data)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(work())


def by_threads(objects: Iterator[Item], at_once: int, put: Callable[[str, bytes], object]) -> None:
    """Calls `put` for each object, with `at_once` threads."""
    lock = Lock()

    def following() -> Item | None:
        with lock:
            return next(objects, None)

    def work(_: int) -> None:
        while item := following():
            put(*item)

    with ThreadPoolExecutor(at_once) as threads:
        list(threads.map(work, range(at_once)))
