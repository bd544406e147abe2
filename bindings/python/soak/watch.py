"""Memory and descriptors of processes over time, and whether they are flat."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Sample(NamedTuple):
    seconds: float
    resident_mib: float
    descriptors: int


@dataclass
class Watch:
    """The samples of one process."""

    pid: int
    samples: list[Sample] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def sample(self) -> None:
        """Takes a sample, unless the process has ended."""
        folder = Path(f"/proc/{self.pid}")
        try:
            pages = int((folder / "statm").read_text().split()[1])
            count = len(os.listdir(folder / "fd"))
        except (FileNotFoundError, ProcessLookupError):
            return
        if pages:
            resident = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
            self.samples.append(Sample(time.monotonic() - self._began, resident, count))

    def judged(self) -> list[Sample]:
        """The samples after the first quarter, in which caches and pools fill."""
        return self.samples[len(self.samples) // 4 :]

    def growth(self) -> tuple[float, float]:
        """By how many MiB and how many descriptors the process grows in the judged time, by the line that fits best."""
        judged = self.judged()
        times = [sample.seconds for sample in judged]
        return (
            _rise(times, [sample.resident_mib for sample in judged]),
            _rise(times, [float(sample.descriptors) for sample in judged]),
        )


def _rise(times: list[float], values: list[float]) -> float:
    """How much the line of least squares rises from the first time to the last."""
    if len(times) < 2:
        return 0.0
    middle, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((at - middle) ** 2 for at in times)
    slope = sum((at - middle) * (value - mean) for at, value in zip(times, values, strict=True)) / spread
    return slope * (times[-1] - times[0])
