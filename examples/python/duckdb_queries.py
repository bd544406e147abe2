"""DuckDB writes and queries Parquet by URL, through fsspec. Credentials and endpoint come from the environment.

python duckdb_queries.py tidegates3://bucket/prefix
"""

import os
import sys

import duckdb

import tidegate.fsspec


def main(place: str) -> None:
    duckdb.register_filesystem(tidegate.fsspec.S3FileSystem())

    for month in range(1, 4):
        duckdb.sql(f"""
            COPY (SELECT range AS id, {month} AS month, range % 100 / 10 AS metres FROM range(100_000))
            TO '{place}/levels/{month}.parquet'
        """)
    months = duckdb.sql(f"""
        SELECT month, count(*), max(metres) FROM read_parquet('{place}/levels/*.parquet')
        WHERE metres > 5 GROUP BY month ORDER BY month
    """).fetchall()
    for month, rows, highest in months:
        print(f"month {month}: {rows} rows above 5 m, the highest {highest} m")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["TIDEGATE_URL"])
