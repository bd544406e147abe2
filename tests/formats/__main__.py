"""Writes the fixtures: see the package."""

import shutil
import sys
import time

from harness.command import CommandLine
from harness.feed import open_pipe
from harness.process import until
from harness.servers import Embedded

from . import ADDRESS, ARCHIVES, ENV, PART, ROOT, SIZE, STORES, STRATEGIES, data, pack

# Slow enough that a kill comes in the middle, and fast enough that parts are acknowledged in time.
SLOW = {"bandwidth": {"total_in": 10_000_000, "total_out": 10_000_000}}
QUIET = ("--progress", "never")


def killed(tidegate, *words, stdin=None, when, feed=None):
    run = tidegate.start(*words, *QUIET, env=ENV, stdin=stdin, cwd=ROOT)
    if feed:
        feed()
    until(f"{words} has come so far", lambda: run.ended or when(), 60)
    assert not run.ended, f"{words}: {run.error_so_far()}"
    run.killed()


def received(server, more, asked="bytes_in"):
    """True when so many bytes more have come to the server, or gone from it."""
    begun = server.control("GET", "counts")[asked]
    return lambda: server.control("GET", "counts")[asked] - begun >= more


def source(key):
    path = ROOT / "source"
    path.write_bytes(data(key))
    return path


def journals(tidegate, server):
    (ROOT / "journal").mkdir(mode=0o700)
    for store, (url, options) in STORES.items():
        common = (*options, "--part-size", PART, "--journal", ROOT / "journal")
        # The whole source is in the journal; a part of it is at the store. A local store is too fast for that.
        if store != "file":
            key = f"finished-{store}"
            killed(tidegate, "cp", source(key), url + key, *common, when=received(server, SIZE // 2))
        # The source had not ended.
        key = f"open-{store}"
        with open_pipe() as pipe:

            def feed():
                pipe.started()
                pipe.send(data(key)[: SIZE * 3 // 4])

            when = received(server, SIZE // 2) if store != "file" else holds(SIZE * 3 // 4)
            killed(tidegate, "cp", "-", url + key, *common, stdin=pipe.stdin, when=when, feed=feed)


def holds(bytes_):
    """True when the newest journal file is that long, holes included."""

    def newest():
        files = sorted((ROOT / "journal").glob("*.journal"), key=lambda file: file.stat().st_mtime_ns)
        return files and files[-1].stat().st_size >= bytes_

    return newest


def records(tidegate, server):
    (ROOT / "target").mkdir()
    (ROOT / "spool").mkdir(mode=0o700)
    for store, (url, options) in STORES.items():
        for strategy in STRATEGIES:
            key = f"{strategy}-{store}"
            spool = ("--spool", ROOT / "spool") if strategy == "spool" else ()
            if store == "file":
                # From a pipe that stays open: a local disk is too fast to be killed in the middle.
                if strategy == "spool":
                    continue
                with open_pipe() as pipe:

                    def feed():
                        pipe.started()
                        pipe.send(data(key)[: SIZE // 2])

                    def when():
                        return any(key in file.name for file in (ROOT / "target").glob(".tidegate-*.part"))

                    words = ("cp", "-", url + key, *options, "--part-size", PART, "--strategy", strategy)
                    killed(tidegate, *words, stdin=pipe.stdin, when=when, feed=feed)
                continue
            words = ("cp", source(key), url + key, *options, "--part-size", PART, "--strategy", strategy, *spool)
            killed(tidegate, *words, when=received(server, SIZE // 2))


def downloads(tidegate, server):
    (ROOT / "to").mkdir()
    for store, (url, options) in STORES.items():
        if store == "file":
            continue
        key = f"download-{store}"
        server.control("PUT", "knobs", {})
        run = tidegate("cp", source(key), url + key, *options, *QUIET, env=ENV)
        assert run.exit == 0, run
        server.control("PUT", "knobs", SLOW)
        begun = time.monotonic()

        def when():
            # What came is noted every half second.
            return time.monotonic() - begun > 2.5

        killed(tidegate, "cp", url + key, f"to/{key}", *options, when=when)


def main():
    version = sys.argv[1]
    for write in (journals, records, downloads):
        shutil.rmtree(ROOT, ignore_errors=True)
        ROOT.mkdir(mode=0o700)
        tidegate = CommandLine()
        server = Embedded(ROOT, "--auto-create-buckets", listen=ADDRESS, storage="store")
        try:
            server.control("PUT", "knobs", SLOW)
            write(tidegate, server)
        finally:
            tidegate.stop()
            server.stop()
        for unneeded in ("source", "spool", "tidegate-serve.log"):
            path = ROOT / unneeded
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        archive = ARCHIVES / version / f"{write.__name__}.tar.xz"
        pack(archive)
        print(f"{archive}: {archive.stat().st_size:,} bytes")
    shutil.rmtree(ROOT)


if __name__ == "__main__":
    main()
