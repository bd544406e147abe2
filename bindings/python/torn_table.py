"""Prints what is in the store after a program has stopped in the middle of a file, for each wrapper that people write files
through and each way to stop: `python torn_table.py`.

12 MiB were written, more were to come. *Torn* is an object that readers find and that lacks the rest; *parts* are those of an
upload that nobody has ended. The first row of each kind of file shows what is there when all was written and closed. MinIO and
fake-gcs-server are started for it. The rows of S3 are also a test: `tests/arrow/test_torn_table.py`.
"""

import contextlib
import csv
import gc
import gzip
import importlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: Seconds that a program may take for one file.
LIMIT = 60
NOTHING = "nothing"
# 12 MiB that do not compress: more than the first part.
CONTENT = random.Random(33).randbytes(12 << 20)

#: The ways to stop, and what the table calls them.
STOPS = {
    "closed": "all was written and closed",
    "exception": "an exception in the `with` body",
    "kill": "`kill -9`",
    "exit": "the end of the program, not closed",
    "dropped": "garbage collection, not closed",
}


def open_file(key):
    import tidegate

    return tidegate.open(f"{os.environ['BUCKET']}/{key}", "wb")


def open_pyarrow(key):
    import tidegate.pyarrow

    return tidegate.pyarrow.filesystem(os.environ["BUCKET"]).open_output_stream(key, compression=None)


#: How each kind of file is opened for writing, and the protocol of its store.
FILES = {
    "tidegate": (open_file, "s3"),
    "tidegate (Google)": (open_file, "gs"),
    "tidegate.pyarrow": (open_pyarrow, "s3"),
}


def text():
    return CONTENT[: len(CONTENT) // 2].hex()


def rows():
    content = text()
    return [[number, content[number * 200 : number * 200 + 200]] for number in range(len(content) // 200)]


def write_frame(file):
    import pandas

    pandas.DataFrame(rows(), columns=["number", "word"]).to_csv(file)


def parquet_writer(file):
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(file, pyarrow.schema([("number", pyarrow.int64())]))


def write_table(writer):
    import pyarrow

    numbers = pyarrow.Array.from_buffers(pyarrow.int64(), len(CONTENT) // 8, [None, pyarrow.py_buffer(CONTENT)])
    writer.write_table(pyarrow.table({"number": numbers}))


def write_array(file):
    numpy = importlib.import_module("numpy")
    numpy.save(file, numpy.frombuffer(CONTENT, dtype=numpy.int64))


#: What is put around the file and closed before the file, and how to write through it.
WRAPPERS = {
    "plain": (None, lambda file: file.write(CONTENT)),
    "text": (lambda file: io.TextIOWrapper(file, "utf-8"), lambda wrapper: wrapper.write(text())),
    "gzip": (lambda file: gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1), lambda f: f.write(CONTENT)),
    "zipfile": (lambda file: zipfile.ZipFile(file, "w"), lambda archive: archive.writestr("a", CONTENT)),
    "csv": (lambda file: io.TextIOWrapper(file, "utf-8", newline=""), lambda f: csv.writer(f).writerows(rows())),
    "pandas": (None, write_frame),
    "ParquetWriter": (parquet_writer, write_table),
    "numpy.save": (None, write_array),
}

#: What is open at the end of the program.
_kept = []


def write_and_stop(kind, wrapper, stop, reached):
    """Calls `reached` once the part was written."""
    (around, write), key = WRAPPERS[wrapper], f"{wrapper}-{stop}"
    open_kind, _ = FILES[kind]
    if stop in ("closed", "exception", "kill"):
        with open_kind(key) as file, around(file) if around else contextlib.nullcontext(file) as target:
            write(target)
            reached()
            if stop == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if stop == "exception":
                raise RuntimeError("stop")
        return
    file = open_kind(key)
    target = around(file) if around else file
    write(target)
    reached()
    if stop == "exit":
        _kept.append((target, file))


def stop_one(kind, wrapper, stop):
    """Prints a line of JSON if the part could not be written."""
    is_reached = False

    def reached():
        nonlocal is_reached
        is_reached = True

    # What goes down with the file may print, and the parent reads only these lines.
    out, quiet = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        write_and_stop(kind, wrapper, stop, reached)
    except Exception as error:
        if not is_reached:
            os.write(out, json.dumps({wrapper: f"{type(error).__name__}: {error}"}).encode() + b"\n")
    gc.collect()


def stop_all(kind, stop):
    """Each wrapper in a process of its own, forked after the imports."""
    for module in ("numpy", "pandas", "pyarrow.parquet", "tidegate.pyarrow"):
        importlib.import_module(module)
    for wrapper in WRAPPERS:
        process = os.fork()
        if process == 0:
            stop_one(kind, wrapper, stop)
            return
        os.waitpid(process, 0)


def row(kind, stop, bucket):
    """What is in the bucket after files of this kind were stopped so, by wrapper."""
    from harness.command import clean_env
    from harness.process import die_with_parent

    env = clean_env({**bucket.env, "BUCKET": bucket.url().rstrip("/"), "PYTHONPATH": str(HERE / "python")})
    command = [sys.executable, "-W", "ignore", __file__, kind, stop]
    run = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=LIMIT * len(WRAPPERS), preexec_fn=die_with_parent
    )
    problems = {wrapper: why for line in run.stdout.splitlines() for wrapper, why in json.loads(line).items()}
    if run.stderr and not problems:
        raise RuntimeError(f"{' '.join(command)}: exit {run.returncode}\n{run.stderr}")
    return {wrapper: problems.get(wrapper) or left(bucket, f"{wrapper}-{stop}", stop) for wrapper in WRAPPERS}


def left(bucket, key, stop):
    size = bucket.size(key)
    if size is not None:
        found = f"{size / (1 << 20):.1f} MiB"
        return found if stop == "closed" else f"**torn**, {found}"
    # Google's sessions cannot be listed.
    return f"{NOTHING}; parts" if bucket.url().startswith("s3:") and bucket.sessions(key) else NOTHING


def main():
    sys.path[:0] = [str(HERE.parent.parent / "tests"), str(HERE / "python")]
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    from harness.gcs import JsonBucket
    from harness.s3 import Bucket
    from harness.servers import FakeGcs, Minio

    print(f"| files of | after | {' | '.join(WRAPPERS)} |\n{'|---' * (2 + len(WRAPPERS))}|")
    with tempfile.TemporaryDirectory(prefix="torn-") as folder, contextlib.ExitStack() as stack:
        minio, google = Minio(Path(folder)), FakeGcs(Path(folder))
        stack.callback(minio.stop)
        stack.callback(google.stop)
        for kind, (_, scheme) in FILES.items():
            for stop, said in STOPS.items():
                bucket = Bucket(minio.endpoint) if scheme == "s3" else JsonBucket(google.url)
                print(f"| {kind} | {said} | {' | '.join(row(kind, stop, bucket).values())} |", flush=True)


if __name__ == "__main__":
    stop_all(*sys.argv[1:]) if sys.argv[1:] else main()
