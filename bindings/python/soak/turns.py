"""What a thread does with the bucket, over and over. Each turn checks what it sees, and raises what is wrong."""

import asyncio
import gzip
import os
import pickle
import random
import traceback
from collections.abc import Callable
from typing import Any

import tidegate
import tidegate.aio

from .content import LARGEST, Recipe, any_recipe, is_whole

#: Keys of one thread.
SLOTS = 12
#: Bytes of one write.
PIECE = 50_000


class Trouble(Exception):
    """Raised inside `with`, to stop a write."""


class Wrong(Exception):
    """What no turn should ever see."""


class Turns:
    """One thread's keys, and what they have."""

    def __init__(self, store: tidegate.Store, prefix: str, seed: int) -> None:
        self._store, self._prefix, self._dice = store, prefix, random.Random(seed)
        #: What each key has; others have nothing.
        self.expected: dict[str, Recipe] = {}
        self._turns: dict[Callable[[], None], int] = {
            self.write: 20,
            self.put: 20,
            self.read: 20,
            self.seek: 10,
            self.read_ranges: 10,
            self.read_another: 10,
            self.list: 5,
            self.delete: 5,
            self.discard: 5,
            self.raise_inside: 10,
            self.drop: 3,
            self.pickle: 3,
            self.tasks: 2,
            self.fork: 1,
        }

    def any(self) -> None:
        """One turn."""
        [turn] = self._dice.choices(list(self._turns), list(self._turns.values()))
        turn()

    def each(self) -> None:
        """Every turn once."""
        for turn in self._turns:
            turn()

    def _slot(self) -> str:
        return f"{self._prefix}{self._dice.randrange(SLOTS):02}"

    def _present(self) -> str:
        """A key that has an object."""
        if not self.expected:
            self.put()
        return self._dice.choice(list(self.expected))

    # Turns that publish.

    def write(self) -> None:
        key, recipe = self._slot(), any_recipe(self._dice)
        with self._store.writer(key) as file:
            write_all(file, recipe.data())
        self.expected[key] = recipe

    def put(self) -> None:
        key, recipe = self._slot(), any_recipe(self._dice)
        self._store.put(key, recipe.data())
        self.expected[key] = recipe

    def delete(self) -> None:
        key = self._slot()
        self._store.delete(key)
        self.expected.pop(key, None)

    def tasks(self) -> None:
        """Objects by asyncio; one task is cancelled while it writes."""
        recipes = {f"{self._prefix}{slot:02}": any_recipe(self._dice) for slot in range(4)}
        stopped = f"{self._prefix}{4:02}"

        async def cancelled(store: tidegate.aio.Store, is_writing: asyncio.Event) -> None:
            async with tidegate.aio.open(store.url_of(stopped), "wb", **self._options()) as file:
                await file.write(bytes(100))
                is_writing.set()
                await asyncio.sleep(3600)

        async def work() -> None:
            store = tidegate.aio.Store(self._store.url, **self._options())
            is_writing = asyncio.Event()
            task = asyncio.create_task(cancelled(store, is_writing))
            await asyncio.gather(*(store.put(key, recipe.data()) for key, recipe in recipes.items()), is_writing.wait())
            task.cancel()
            await asyncio.wait([task])

        asyncio.run(work())
        self.expected |= recipes

    def _options(self) -> Any:
        return {"tide": self._store.tide, **dict(self._store.__getstate__()["options"])}

    # Turns that read.

    def read(self) -> None:
        key = self._present()
        if self._store.get(key) != self.expected[key].data():
            raise Wrong(f"{key} has other bytes than were written")

    def seek(self) -> None:
        key = self._present()
        data = self.expected[key].data()
        with self._store.reader(key, random=self._dice.random() < 0.5) as file:
            for _ in range(3):
                at = self._dice.randrange(len(data))
                file.seek(at)
                if file.read(1000) != data[at : at + 1000]:
                    raise Wrong(f"{key} has other bytes at {at} than were written")

    def read_ranges(self) -> None:
        key = self._present()
        data = self.expected[key].data()
        starts = [self._dice.randrange(len(data)) for _ in range(8)]
        ranges = [(at, min(at + 500, len(data))) for at in starts]
        if self._store.get_ranges(key, ranges) != [data[start:end] for start, end in ranges]:
            raise Wrong(f"{key} has other bytes in {ranges} than were written")

    def read_another(self) -> None:
        """Reads what another thread may be writing or removing at this moment."""
        entries = [entry.key for entry in self._store.list(f"{self._dice.randrange(8)}/{self._dice.randrange(8)}/")]
        if not entries:
            return
        key = self._dice.choice(entries)
        try:
            data = self._store.get(key)
        except (tidegate.NotFoundError, tidegate.ReplacedError):
            return
        if not is_whole(data):
            raise Wrong(f"{key} is torn: {len(data)} bytes")

    def list(self) -> None:
        found = {entry.key for entry in self._store.list(self._prefix)}
        if found != self.expected.keys():
            raise Wrong(f"{self._prefix} has the keys {sorted(found)} instead of {sorted(self.expected)}")

    def pickle(self) -> None:
        """A store, and a reader in the middle of an object, from pickles."""
        store = pickle.loads(pickle.dumps(self._store))
        key = self._present()
        data = self.expected[key].data()
        with store.reader(key) as file:
            half = file.read(len(data) // 2)
            with pickle.loads(pickle.dumps(file)) as copy:
                if half + copy.read() != data or half + file.read() != data:
                    raise Wrong(f"{key} has other bytes through a pickled reader than were written")

    # Turns that publish nothing.

    def discard(self) -> None:
        file = self._torn()
        file.discard()

    def drop(self) -> None:
        file = self._torn()
        del file

    def raise_inside(self) -> None:
        try:
            with self._store.writer(self._slot()) as file:
                if self._dice.random() < 0.5:
                    write_all(file, self._some())
                    raise Trouble
                with gzip.open(file, "wb", compresslevel=1) as compressed:
                    compressed.write(self._some())
                    raise Trouble
        except Trouble:
            pass

    def _torn(self) -> tidegate.Writer:
        file = self._store.writer(self._slot())
        write_all(file, self._some())
        return file

    def _some(self) -> bytes:
        """The beginning of an object; sometimes so much of one that its first part was sent."""
        return Recipe(self._dice.getrandbits(64), LARGEST + 16).data()[
            : self._dice.choice([0, 1000, 70_000, 5_800_000])
        ]

    # A fork.

    def fork(self) -> None:
        """A child uses the store while the parent writes a file that the child inherits."""
        key, child_key = f"{self._prefix}{0:02}", f"{self._prefix}{1:02}"
        recipe, of_child = any_recipe(self._dice), any_recipe(self._dice)
        data = recipe.data()
        with self._store.writer(key) as file:
            write_all(file, data[: len(data) // 2])
            child = os.fork()
            if child == 0:
                in_child(lambda: self._as_child(file, child_key, of_child))
            write_all(file, data[len(data) // 2 :])
            _, status = os.waitpid(child, 0)
        self.expected[key] = recipe
        if status:
            raise Wrong(f"a forked child of {self._prefix} ended with {os.waitstatus_to_exitcode(status)}")
        self.expected[child_key] = of_child
        if self._store.get(child_key) != of_child.data():
            raise Wrong(f"{child_key} has other bytes than a forked child wrote")

    def _as_child(self, inherited: tidegate.Writer, key: str, recipe: Recipe) -> None:
        for use in (lambda: inherited.write(b"from the child"), inherited.close):
            try:
                use()
            except tidegate.ForkError:
                continue
            raise Wrong("a forked child could use an inherited file")
        self._store.put(key, recipe.data())
        if self._store.get(key) != recipe.data():
            raise Wrong(f"{key} has other bytes than were written")
        self.raise_inside()
        for error in self._store.tide.settled():
            raise error


def in_child(work: Callable[[], None]) -> None:
    """Does the work and ends the process. Prints nothing by `print`, whose lock another thread may have had."""
    try:
        work()
    except BaseException:
        os.write(2, f"in a forked child:\n{traceback.format_exc()}".encode())
        os._exit(1)
    os._exit(0)


def write_all(file: tidegate.Writer, data: bytes) -> None:
    for at in range(0, len(data), PIECE):
        file.write(data[at : at + PIECE])
