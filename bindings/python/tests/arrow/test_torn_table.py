"""The table of `python -m torn`, of our own files: after every stop, through every wrapper, nothing is in the store."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))

from torn import cells, libraries, stops  # noqa: E402


@pytest.mark.parametrize("stop", stops.STOPS)
@pytest.mark.parametrize("library", [name for name, library in libraries.OURS.items() if library.scheme == "s3"])
def test_nothing_is_left(bucket, library, stop):
    row = cells.row(library, stop, bucket, together=True)
    assert len(row) == 8
    # Who is killed cannot tell the store.
    allowed = {cells.NOTHING, f"{cells.NOTHING}; parts"} if stop == "kill" else {cells.NOTHING}
    assert set(row.values()) <= allowed, row
    assert bucket.keys() == []


def test_a_file_that_is_closed_is_no_nothing(bucket, store):
    """What the table would show of a library that publishes."""
    store.put(stops.key_of("plain", "exit"), bytes(3 << 20))
    assert cells.left(bucket, "tidegate", "plain", "exit") == "**torn**, 3.0 MiB"
