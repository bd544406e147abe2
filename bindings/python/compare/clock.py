"""What a library needs for a job: time, CPU and memory."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Clock:
    """Sums up wall time and CPU time while it runs. Checks of what was read are made while it stands."""

    def __init__(self) -> None:
        #: Wall time in seconds.
        self.seconds = 0.0
        #: User and system time of this process and of its children that have ended, in seconds.
        self.cpu = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        began, cpu = time.monotonic(), _cpu()
        yield
        self.seconds += time.monotonic() - began
        self.cpu += _cpu() - cpu


def _cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def memory(field: str) -> float:
    """`VmHWM` (the most resident memory that this process has had) or `VmRSS` (what is resident now), in MiB. Both contain
    the interpreter and the library's code."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) / 1024
    raise ValueError(f"/proc/self/status has no {field}")
