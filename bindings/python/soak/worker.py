"""One process of the soak, and its threads."""

import faulthandler
import gc
import logging
import os
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import tidegate

from .content import Recipe
from .turns import Turns

#: Every turn was made once: what grows from now on is looked at.
BEGUN = "begun"


@dataclass
class Report:
    """What a process says at its end."""

    turns: int = 0
    #: What every key of its threads has.
    expected: dict[str, Recipe] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    #: Open descriptors by kind, when nothing was under way: after every turn was made once, and at the end.
    descriptors: tuple[Counter[str], Counter[str]] = (Counter(), Counter())


def work(number: int, store: tidegate.Store, seconds: float, threads: int, seed: int, parent: Connection) -> None:
    """Runs the threads for so long. Sends `BEGUN` when they begin, and the report when they have ended."""
    faulthandler.enable()
    # The turns discard files on purpose: a record of each would hide what the soak says.
    logging.getLogger("tidegate").addHandler(logging.NullHandler())
    report = Report()
    turns = [Turns(store, f"{number}/{thread}/", seed + 1000 * number + thread) for thread in range(threads)]
    try:
        turns[0].each()
        before = descriptors(store)
        parent.send(BEGUN)
        run(turns, seconds, report)
        report.descriptors = (before, descriptors(store))
    except BaseException:
        report.failures.append(traceback.format_exc())
    for each in turns:
        report.expected |= each.expected
    parent.send(report)


def run(turns: list[Turns], seconds: float, report: Report) -> None:
    ends = time.monotonic() + seconds
    lock = threading.Lock()

    def thread(own: Turns) -> None:
        count = 0
        try:
            while time.monotonic() < ends and not report.failures:
                own.any()
                count += 1
        except BaseException:
            report.failures.append(traceback.format_exc())
        with lock:
            report.turns += count

    running = [threading.Thread(target=thread, args=(own,)) for own in turns]
    for each in running:
        each.start()
    for each in running:
        each.join()


def descriptors(store: tidegate.Store) -> Counter[str]:
    """The open descriptors by kind, once discarded uploads are aborted."""
    gc.collect()
    for error in store.tide.settled():
        raise error
    kinds: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        try:
            kind = os.readlink(f"/proc/self/fd/{name}").partition(":")[0]
        except FileNotFoundError:
            continue  # the one by which the directory was listed
        kinds["file" if kind.startswith("/") else kind] += 1
    return kinds
