"""zarr keeps arrays in a store, chunk by chunk. Credentials and endpoint come from the environment.

python zarr_arrays.py tidegates3://bucket/prefix
"""

import os
import sys

import numpy as np
import zarr
from zarr.storage import FsspecStore


def main(place: str) -> None:
    heights = np.random.default_rng(7).normal(size=(240, 200, 200)).astype("float32")

    root = zarr.create_group(store=FsspecStore.from_url(f"{place}/ocean.zarr"))
    root.attrs["unit"] = "metre"
    array = root.create_array("height", shape=heights.shape, chunks=(24, 100, 100), dtype=heights.dtype)
    array[:] = heights
    array[10, 20, 30] = 42

    again = zarr.open_group(store=FsspecStore.from_url(f"{place}/ocean.zarr", read_only=True), mode="r")
    assert again.attrs["unit"] == "metre" and again["height"][10, 20, 30] == 42
    np.testing.assert_array_equal(again["height"][100:130, :, 50:], heights[100:130, :, 50:])
    print(f"{again['height'].nchunks_initialized} chunks, mean {again['height'][:].mean():.3f} m")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["TIDEGATE_URL"])
