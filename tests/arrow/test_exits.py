"""Programs that have read and written end well, whatever is under way.

Python ends a thread that asks for its lock while the program exits, by a forced unwinding. Where that meets a destructor of
C++, the process ends with "terminate called without an active exception". So no thread but Python's own may ask for the lock:
neither to close a stream, nor to give back the memory of a Python object.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

# 500 show what is promised: ARROW_EXITS=500.
EXITS = int(os.environ.get("ARROW_EXITS", "20"))

READS_AND_WRITES = """
import os
import pyarrow as pa, pyarrow.parquet as pq
import tidegate.arrow
files = tidegate.arrow.filesystem(os.environ["BUCKET"])
name = str(os.getpid())
table = pa.table({f"c{number}": list(range(20000)) for number in range(12)})
pq.write_table(table, f"{name}/a.parquet", filesystem=files, row_group_size=5000)
with files.open_output_stream(f"{name}/b") as stream:
    for _ in range(4):
        stream.write(os.urandom(300000))
assert pq.read_table(f"{name}/a.parquet", filesystem=files).equals(table)
pq.write_to_dataset(table, f"{name}/d", filesystem=files)
"""

# The interpreter ends while the library gives back the memory of `data`, and keeps its lock until then.
GIVES_BACK_MEMORY = """
import atexit, ctypes, os
atexit.register(ctypes.PyDLL(None).usleep, 500000)
import tidegate.arrow
from tidegate import _ending
atexit.unregister(_ending._discard_all)
files = tidegate.arrow.filesystem(os.environ["BUCKET"], strategy="parallel", part_size=8 << 20)
data = os.urandom(40 << 20)
left = tidegate.arrow.pyarrow.fs.SubTreeFileSystem("left", files).open_output_stream("a", compression=None)
left.write(data)
"""


def ends_well(run):
    told = [line for line in run.stderr.splitlines() if "was not published" not in line]
    assert run.returncode == 0, run
    assert told == [], run


@pytest.fixture
def bucket(embedded_bucket):
    return embedded_bucket


def test_every_exit_is_clean(program):
    with ThreadPoolExecutor(3) as threads:
        for run in threads.map(lambda _: program(READS_AND_WRITES, limit=120), range(EXITS)):
            ends_well(run)


def test_an_exit_is_clean_while_memory_is_given_back(program):
    for _ in range(2):
        ends_well(program(GIVES_BACK_MEMORY, limit=120, PYTHONWARNINGS="ignore"))
