"""Ctrl-C ends the blocking calls of a file system, and the work that they have begun."""

import asyncio
import os
import signal
import threading
import time

import pytest
from fsspec.exceptions import FSTimeoutError
from places import s3_options

import tidegate.fsspec
from between import between
from harness.process import until
from tidegate.fsspec._blocking import sync


class Gate:
    """Holds the requests that write or remove objects, until it is opened. Upload sessions are opened and aborted."""

    def __init__(self):
        self.has_held, self._opened = threading.Event(), threading.Event()

    def meets(self, request):
        if request.command == "PUT" or (
            request.command == "POST" and not request.path.partition("?")[2].startswith("uploads")
        ):
            self.has_held.set()
            self._opened.wait(60)

    def open(self):
        self._opened.set()


@pytest.fixture
def gate(embedded):
    gate = Gate()
    with between(embedded.url, gate.meets) as gate.url:
        yield gate
        gate.open()


@pytest.fixture
def interrupted(program, gate, bucket):
    """Runs a call of a file system, interrupts it while the gate holds its requests, and opens the gate."""

    def run(call):
        options = {
            **s3_options(bucket.endpoint),
            "client_kwargs": {"endpoint_url": gate.url, "region_name": "us-east-1"},
        }
        running = program(
            f"""
            import asyncio, tidegate.fsspec
            fs = tidegate.fsspec.S3FileSystem(**{options!r})
            bucket = {bucket.name!r}
            try:
                {call}
            except KeyboardInterrupt:
                print(len(asyncio.all_tasks(fs.loop)), "tasks go on", flush=True)
                # The process stays: work that goes on would have its time.
                input()
            """
        )
        assert gate.has_held.wait(30), running.ended()
        began = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        assert running.line() == "0 tasks go on"
        # A second; on a busy machine, a second for each program that waits for a processor.
        assert time.monotonic() - began < max(1, os.getloadavg()[0] / os.cpu_count())
        gate.open()
        running.process.stdin.write("\n")
        running.succeeds()

    return run


def nothing_is_left(bucket, key):
    # The last requests of a program that has ended may be on their way.
    until("the session is aborted", lambda: not bucket.sessions(key))
    bucket.assert_untouched(key)


def test_a_file_is_not_published(interrupted, bucket):
    interrupted("fs.pipe_file(f'{bucket}/a', bytes(24 << 20), part_size=5 << 20)")
    nothing_is_left(bucket, "a")


def test_a_file_of_the_disk_is_not_published(interrupted, bucket, tmp_path):
    (tmp_path / "file").write_bytes(bytes(24 << 20))
    interrupted(f"fs.put({str(tmp_path / 'file')!r}, f'{{bucket}}/a', part_size=5 << 20)")
    nothing_is_left(bucket, "a")


def test_of_many_files_only_those_whose_requests_were_sent_are_published(interrupted, bucket):
    interrupted("fs.pipe({f'{bucket}/{n}': b'1' for n in range(500)}, batch_size=-1)")
    assert len(bucket.keys()) < 250


def test_a_removal_does_not_go_on(interrupted, bucket, embedded):
    keys = [f"t/{number:05}" for number in range(11_000)]
    embedded.control("POST", "objects", {"bucket": bucket.name, "keys": keys})
    interrupted("fs.rm(f'{bucket}/t', recursive=True)")
    assert len(bucket.keys()) >= 1_000


def test_a_removal_on_the_disk_does_not_go_on(on_disk, tmp_path):
    folder = tmp_path / "t"
    (folder / "deep").mkdir(parents=True)
    for number in range(1000):
        (folder / "deep" / str(number)).touch()
    (folder / "link").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "kept").touch()
    fs = on_disk.fs(skip_instance_cache=True)

    async def begin_and_cancel():
        removal = asyncio.ensure_future(fs._rm(str(folder), recursive=True))
        while len(os.listdir(folder / "deep")) > 900:
            await asyncio.sleep(0)
        removal.cancel()
        with pytest.raises(asyncio.CancelledError):
            await removal

    asyncio.run(begin_and_cancel())
    assert len(os.listdir(folder / "deep")) > 800
    fs.rm(str(folder), recursive=True)
    assert os.listdir(tmp_path) == ["kept"]


def test_a_timeout_ends_the_work_too(gate, bucket):
    options = {**s3_options(bucket.endpoint), "client_kwargs": {"endpoint_url": gate.url, "region_name": "us-east-1"}}
    fs = tidegate.fsspec.S3FileSystem(**options)
    with pytest.raises(FSTimeoutError):
        sync(fs.loop, fs._pipe_file, f"{bucket.name}/a", bytes(12 << 20), part_size=5 << 20, timeout=0.2)
    gate.open()
    # The request that opens the session may be on its way still.
    assert fs._blocking_store(bucket.name).tide.settled() == []
    nothing_is_left(bucket, "a")
