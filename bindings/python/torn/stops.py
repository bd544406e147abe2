"""Writes half a file and stops: `python -m torn.stops LIBRARY STOP WRAPPER`. With several wrappers, each file has a process
that is forked for it. Prints a line of JSON for a wrapper that the library does not work with."""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys

from .libraries import LIBRARIES
from .wrappers import WRAPPERS

#: The ways to stop, and what the table calls them.
STOPS = {
    "exception": "an exception in the `with` body",
    "kill": "`kill -9`",
    "exit": "the end of the program, not closed",
    "dropped": "garbage collection, not closed",
}


class Trouble(Exception):
    pass


def key_of(wrapper, stop):
    return f"{wrapper}-{stop}"


#: What is open at the end of the program.
_kept = []


def write_and_stop(library, wrapper, stop, reached):
    """Calls `reached` once the half was written."""
    around, write = WRAPPERS[wrapper]
    key = key_of(wrapper, stop)
    if stop in ("exception", "kill"):
        with library.open(key) as file, around(file) if around else contextlib.nullcontext(file) as target:
            write(target)
            reached()
            if stop == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise Trouble
    file = library.open(key)
    target = around(file) if around else file
    write(target)
    reached()
    if stop == "exit":
        _kept.append((target, file))


def stop_one(library, wrapper, stop):
    """Says why the half was not written, if that is so."""
    is_reached = False

    def reached():
        nonlocal is_reached
        is_reached = True

    # What a library says of its own while it goes down is not the table's.
    said, quiet = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        write_and_stop(library, wrapper, stop, reached)
    except Exception as error:
        if not is_reached:
            os.write(said, json.dumps({wrapper: f"{type(error).__name__}: {error}"}).encode() + b"\n")
    gc.collect()


def main():
    library, stop, *wrappers = sys.argv[1:]
    if len(wrappers) == 1:
        stop_one(LIBRARIES[library], wrappers[0], stop)
        return
    # Once, instead of in each process.
    for module in ("numpy", "pandas", "pyarrow.parquet", "tidegate.pyarrow"):
        importlib.import_module(module)
    for wrapper in wrappers:
        process = os.fork()
        if process == 0:
            stop_one(LIBRARIES[library], wrapper, stop)
            return
        os.waitpid(process, 0)


if __name__ == "__main__":
    main()
