"""Polars writes and reads tables: through files, and, for tables of many files, through a dataset of pyarrow. Credentials
and endpoint come from the environment.

python polars_tables.py s3://bucket/prefix
"""

import os
import sys

import polars as pl
import pyarrow.dataset as ds

import tidegate
import tidegate.pyarrow


def main(place: str) -> None:
    levels = pl.DataFrame({"station": ["Brest", "Dover", "Cuxhaven"] * 1000, "metres": [3.9, 4.1, 2.8] * 1000})

    # One object through a file. It appears when the block has ended well.
    with tidegate.open(f"{place}/levels.parquet", "wb") as file:
        levels.write_parquet(file)
    with tidegate.open(f"{place}/levels.csv", "wb") as file:
        levels.write_csv(file)
    with tidegate.open(f"{place}/levels.parquet", "rb") as file:
        assert pl.read_parquet(file).equals(levels)
    with tidegate.open(f"{place}/levels.csv", "rb") as file:
        assert pl.read_csv(file).equals(levels)

    # Many objects through a dataset: only the columns, and the row groups, that the query needs are fetched.
    files = tidegate.pyarrow.filesystem(place)
    ds.write_dataset(
        levels.to_arrow(), "by-station", filesystem=files, format="parquet",
        partitioning=["station"], partitioning_flavor="hive",
    )  # fmt: skip
    written = ds.dataset("by-station", filesystem=files, format="parquet", partitioning="hive")
    high = (
        pl.scan_pyarrow_dataset(written)
        .filter(pl.col("metres") > 3)
        .group_by("station")
        .agg(pl.len().alias("rows"))
        .sort("station")
        .collect()
    )
    for station, rows in high.iter_rows():
        print(f"{station}: {rows} rows")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["TIDEGATE_URL"])
