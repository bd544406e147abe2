"""pandas reads and writes objects by their URLs. Credentials and endpoint come from the environment.

python pandas_by_url.py tidegates3://bucket/prefix
"""

import os
import sys

import pandas as pd


def main(place: str) -> None:
    levels = pd.DataFrame({"station": ["Brest", "Dover", "Cuxhaven"] * 1000, "metres": [3.9, 4.1, 2.8] * 1000})

    levels.to_parquet(f"{place}/levels.parquet")
    levels.to_csv(f"{place}/levels.csv", index=False)
    levels.to_csv(f"{place}/levels.csv.gz", index=False)
    levels.to_json(f"{place}/levels.json", orient="records", lines=True)
    levels.to_feather(f"{place}/levels.feather")
    levels.to_pickle(f"{place}/levels.pkl")

    read = {
        "parquet": pd.read_parquet(f"{place}/levels.parquet"),
        "one column of parquet": pd.read_parquet(f"{place}/levels.parquet", columns=["metres"]),
        "csv": pd.read_csv(f"{place}/levels.csv"),
        "csv.gz": pd.read_csv(f"{place}/levels.csv.gz"),
        "json": pd.read_json(f"{place}/levels.json", orient="records", lines=True),
        "feather": pd.read_feather(f"{place}/levels.feather"),
        "pickle": pd.read_pickle(f"{place}/levels.pkl"),
    }
    for name, table in read.items():
        pd.testing.assert_frame_equal(table, levels[table.columns])
        print(f"{name}: {len(table)} rows, {table['metres'].mean():.1f} m")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["TIDEGATE_URL"])
