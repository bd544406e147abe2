"""Processes and threads that use one store for a long time: does their memory stay flat, and is every byte right?

    python tests/soak.py --seconds 600 --processes 8 --threads 64

Each thread writes, reads, lists and removes objects of its own, discards half-written files, and now and then forks a
child that does the same. Every process prints its resident memory ten times; it must not grow after the first third.
"""

import argparse
import hashlib
import multiprocessing
import os
import random
import sys
import threading
import time

import tidegate
import tidegate.dev


def resident() -> int:
    """Resident memory of this process in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Trouble(Exception):
    pass


def turn(store: tidegate.Store, name: str, dice: random.Random) -> int:
    """One round of a thread; how many calls it made."""
    data = dice.randbytes(dice.choice([0, 100, 4096, 70_000, 300_000]))
    digest = hashlib.sha256(data).digest()
    with store.writer(name) as file:
        for at in range(0, len(data), 10_000):
            file.write(data[at : at + 10_000])
    assert hashlib.sha256(store.get(name)).digest() == digest
    reader = store.reader(name, random=True)
    for _ in range(3):
        at = dice.randrange(len(data) + 1)
        reader.seek(at)
        assert reader.read(1000) == data[at : at + 1000]
    try:
        with store.writer(f"{name}-torn") as file:
            file.write(data)
            raise Trouble
    except Trouble:
        pass
    assert not store.exists(f"{name}-torn")
    assert [entry.key for entry in store.list(name)] == [name]
    store.delete(name)
    return 14


def in_child(store: tidegate.Store, name: str, seed: int) -> None:
    child = os.fork()
    if child == 0:
        try:
            turn(store, name, random.Random(seed))
        except BaseException as error:
            print(f"{name}: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def process(number: int, store: tidegate.Store, seconds: float, threads: int, results) -> None:
    ends = time.monotonic() + seconds
    calls = [0] * threads
    failures = []

    def work(thread: int) -> None:
        dice = random.Random(number * 1000 + thread)
        try:
            while time.monotonic() < ends:
                calls[thread] += turn(store, f"{number}/{thread}/own", dice)
                if dice.random() < 0.01:
                    in_child(store, f"{number}/{thread}/child", dice.randrange(1 << 30))
        except BaseException as error:
            failures.append(repr(error))

    running = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    memory = []
    while time.monotonic() < ends:
        time.sleep(seconds / 10)
        memory.append(resident())
    for thread in running:
        thread.join()
    results.put((number, sum(calls), memory, failures))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--threads", type=int, default=64)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tidegate.dev.serve() as server:
        store = server.store("soak", memory=64 << 20)
        workers = [
            context.Process(target=process, args=(number, store, given.seconds, given.threads, results))
            for number in range(given.processes)
        ]
        for worker in workers:
            worker.start()
        failed = False
        for _ in workers:
            number, calls, memory, failures = results.get(timeout=given.seconds + 120)
            shown = " ".join(f"{bytes / 1e6:.0f}" for bytes in memory)
            print(f"process {number}: {calls} calls, resident MB: {shown}", *failures[:3], flush=True)
            first = max(memory[: len(memory) // 3])
            failed |= bool(failures) or max(memory) > first * 1.25
        for worker in workers:
            worker.join()
        left = [entry.key for entry in store.list()]
    if left:
        print(f"left behind: {left[:5]}")
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
