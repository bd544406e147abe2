"""The table of `torn_table.py`: after every stop, through every wrapper, nothing is in the store."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))

import torn_table  # noqa: E402


@pytest.mark.parametrize("stop", torn_table.STOPS)
@pytest.mark.parametrize("kind", [kind for kind, (_, scheme) in torn_table.FILES.items() if scheme == "s3"])
def test_nothing_is_left_but_by_a_close(bucket, kind, stop):
    row = torn_table.row(kind, stop, bucket)
    assert len(row) == 8
    if stop == "closed":
        assert all(cell.endswith(" MiB") for cell in row.values()), row
        assert len(bucket.keys()) == 8
        return
    # Who is killed cannot tell the store.
    allowed = {torn_table.NOTHING, f"{torn_table.NOTHING}; parts"} if stop == "kill" else {torn_table.NOTHING}
    assert set(row.values()) <= allowed, row
    assert bucket.keys() == []
