"""Worker processes that are forked read samples at random from shards in a store, as a DataLoader of PyTorch does: with
PyTorch where that is installed, else with multiprocessing. Credentials and endpoint come from the environment.

python dataloader_workers.py s3://bucket/prefix
"""

import multiprocessing
import os
import random
import sys
from collections.abc import Iterator

import tidegate

SHARDS, SAMPLES, SAMPLE = 4, 250, 4096
BATCH, WORKERS = 32, 4


class Samples:
    """All samples of some shards. The store is opened once, in the parent; each worker has connections of its own."""

    def __init__(self, place: str) -> None:
        self.store = tidegate.Store(place)
        self.index = [(entry.key, start) for entry in self.store.list() for start in range(0, entry.size, SAMPLE)]

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, number: int) -> bytes:
        key, start = self.index[number]
        return self.store.get_range(key, start, start + SAMPLE)

    def __getitems__(self, numbers: list[int]) -> list[bytes]:
        """A batch: one request for samples that lie together, and all requests in parallel."""
        places: dict[str, list[int]] = {}
        for number in numbers:
            places.setdefault(self.index[number][0], []).append(number)
        samples = {}
        for key, of_shard in places.items():
            ranges = [(self.index[number][1], self.index[number][1] + SAMPLE) for number in of_shard]
            samples |= zip(of_shard, self.store.get_ranges(key, ranges), strict=True)
        return [samples[number] for number in numbers]


def batches(samples: Samples) -> Iterator[list[bytes]]:
    try:
        from torch.utils.data import DataLoader
    except ImportError:
        order = random.sample(range(len(samples)), len(samples))
        with multiprocessing.get_context("fork").Pool(WORKERS) as workers:
            yield from workers.imap(samples.__getitems__, [order[n : n + BATCH] for n in range(0, len(order), BATCH)])
    else:
        yield from DataLoader(
            samples, BATCH, shuffle=True, num_workers=WORKERS, multiprocessing_context="fork", collate_fn=list
        )


def main(place: str) -> None:
    store = tidegate.Store(place)
    for shard in range(SHARDS):
        store.put(f"shard-{shard}", b"".join(bytes([shard, n]) * (SAMPLE // 2) for n in range(SAMPLES)))

    # The parent has used its engine before it forks.
    samples = Samples(place)
    assert samples[0] == bytes([0, 0]) * (SAMPLE // 2)
    for epoch in range(2):
        seen = sorted(sample[:2] for batch in batches(samples) for sample in batch)
        assert seen == [bytes([shard, n]) for shard in range(SHARDS) for n in range(SAMPLES)]
        print(f"epoch {epoch}: {len(seen)} samples")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["TIDEGATE_URL"])
