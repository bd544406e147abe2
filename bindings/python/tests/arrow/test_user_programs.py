"""The examples of Polars, DuckDB, FastAPI, a journaled ingest and a DataLoader, as their users run them, on MinIO."""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import polars
import pyarrow.parquet
import pytest

import tidegate
import tidegate.fsspec
from harness import MIB, ROOT
from harness.command import clean_env
from harness.process import die_with_parent, free_port, until
from reach import reached

EXAMPLES = ROOT / "examples" / "python"
PACKAGE = Path(tidegate.__file__).parents[1]


class Trouble(Exception):
    pass


@pytest.fixture
def start(bucket, tmp_path):
    """Starts an example, which reaches the bucket by its environment."""
    started = []

    def start(name, *arguments, **more):
        env = clean_env({**bucket.env, "PYTHONPATH": str(PACKAGE), **more})
        running = subprocess.Popen(
            [sys.executable, EXAMPLES / name, *map(str, arguments)],
            env=env, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=die_with_parent, pipesize=4096,
        )  # fmt: skip
        started.append(running)
        return running

    yield start
    for running in started:
        running.kill()
        running.communicate()


@pytest.fixture
def run(start):
    def run(name, *arguments):
        running = start(name, *arguments)
        out, errors = running.communicate(timeout=120)
        assert running.returncode == 0, f"{out}\n{errors}"
        return out

    return run


def test_polars(run, bucket):
    said = run("polars_tables.py", bucket.url("tables"))
    assert said == "Brest: 1000 rows\nDover: 1000 rows\n"
    tables = [key for key in bucket.keys("tables/") if not key.endswith("/")]
    assert len(tables) == 5


def test_duckdb(run, bucket):
    said = run("duckdb_queries.py", f"tidegate{bucket.url('query')}")
    assert said.count("49000 rows above 5 m, the highest 9.9 m") == 3
    assert bucket.keys("query/") == [f"query/levels/{month}.parquet" for month in (1, 2, 3)]


def test_a_query_of_duckdb_that_fails_publishes_nothing(store, bucket):
    options = reached(bucket)
    files = tidegate.fsspec.S3FileSystem(
        key=options["access_key"], secret=options["secret_key"], endpoint_url=options["endpoint_url"],
        client_kwargs={"region_name": options["region"]}, skip_instance_cache=True,
    )  # fmt: skip
    with duckdb.connect() as database:
        database.register_filesystem(files)
        database.sql("SET threads = 1")
        with pytest.raises(duckdb.Error):
            database.sql(
                f"""COPY (SELECT CASE WHEN range < 900000 THEN range::VARCHAR ELSE error('trouble') END
                FROM range(1000000)) TO 'tidegate{bucket.url("a.csv")}' (FORMAT csv)"""
            )
    assert bucket.keys() == []


# The web service.


class Service:
    def __init__(self, running, port):
        self.port, self._running = port, running

    def connection(self):
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60))

    def get(self, path):
        with self.connection() as connection:
            connection.request("GET", path)
            with connection.getresponse() as response:
                return json.load(response)

    def answers(self):
        assert self._running.poll() is None, self._running.communicate()
        try:
            return self.get("/memory")
        except ConnectionError:
            return None

    @property
    def peak(self):
        """The most memory that its process has had, in bytes."""
        status = Path(f"/proc/{self._running.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


@pytest.fixture
def service(start, bucket):
    port = free_port()
    running = start("fastapi_upload.py", port, TIDEGATE_URL=bucket.url("uploads"))
    service = Service(running, port)
    until("the service answers", service.answers, 60)
    return service


def test_an_upload_is_streamed_in_16_mib(service, bucket):
    before, size = service.peak, 160 * MIB
    piece = random.randbytes(MIB)

    def upload(name):
        pieces = (piece for _ in range(size // MIB))
        with service.connection() as connection:
            connection.request("PUT", f"/objects/{name}", pieces, {"Content-Length": str(size)})
            with connection.getresponse() as response:
                assert response.status == 201
                assert json.load(response)["size"] == size

    threads = [threading.Thread(target=upload, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bucket.size("uploads/a") == bucket.size("uploads/b") == size
    assert service.get("/memory")["peak"] <= 16 * MIB
    grown = service.peak - before
    assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB more for {2 * size / MIB:.0f} MiB of uploads"


def test_a_client_that_disconnects_publishes_nothing(service, bucket):
    with service.connection() as connection:
        connection.putrequest("PUT", "/objects/a")
        connection.putheader("Content-Length", str(100 * MIB))
        connection.endheaders()
        for _ in range(40):
            connection.send(bytes(MIB))
        until("an upload has begun", lambda: bucket.sessions("uploads/a"))
    until("the upload was aborted", lambda: not bucket.sessions("uploads/a"))
    until("its memory is free", lambda: service.get("/memory")["held"] == 0)
    assert bucket.keys() == []


# The ingest.


def test_an_ingest_that_is_killed_loses_no_acknowledged_record(start, bucket, tmp_path):
    source = random.Random(5)
    lines = [f"{number} {source.randbytes(source.randrange(1, 600)).hex()}\n" for number in range(6000)]
    queue, journal = tmp_path / "queue", tmp_path / "journal"
    queue.write_text("".join(lines))
    journal.mkdir()
    acknowledged, kills = 0, 0
    while True:
        running = start("journaled_ingest.py", queue, bucket.url("events.log"), journal)
        until_line, last = source.randrange(500, 1000), ""
        for count, said in enumerate(running.stdout, 1):
            last = said
            word, number = said.split()
            if word == "published":
                break
            assert word == "acknowledged"
            # A later run goes on behind what was acknowledged.
            assert int(number) > acknowledged
            acknowledged = int(number)
            if count == until_line:
                # It is few lines ahead: the pipe holds 4 KiB, and Python's buffer here 8 KiB.
                running.send_signal(signal.SIGKILL)
                break
        rest, errors = running.communicate(timeout=60)
        if last.startswith("published"):
            assert running.returncode == 0, errors
            break
        assert running.returncode == -signal.SIGKILL, errors
        kills += 1
        # What was said before the kill was acknowledged too.
        for said in rest.splitlines(keepends=True):
            if said.startswith("acknowledged ") and said.endswith("\n"):
                acknowledged = int(said.split()[1])
        assert not bucket.exists("events.log")
    assert kills >= 3
    assert bucket.get("events.log").decode() == "".join(lines)
    assert os.listdir(journal) == []


def test_workers_of_a_data_loader(run, bucket):
    said = run("dataloader_workers.py", bucket.url("samples"))
    assert said == "epoch 0: 1000 samples\nepoch 1: 1000 samples\n"


def test_a_table_of_polars_that_fails_publishes_nothing(store, bucket):
    with pytest.raises(Trouble), store.writer("a.parquet") as file:
        polars.DataFrame({"number": range(1000)}).write_parquet(file)
        raise Trouble
    assert bucket.keys() == []
    with store.writer("a.parquet") as file:
        polars.DataFrame({"number": range(1000)}).write_parquet(file)
    assert pyarrow.parquet.read_table(store.reader("a.parquet")).num_rows == 1000
