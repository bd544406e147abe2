"""The measured process: `python -m compare.one LIBRARY JOB SCALE`. Prints the figures as a line of JSON."""

import json
import os
import sys

from .clock import Clock, memory
from .jobs import JOBS
from .libraries import library_type
from .library import Place


def main() -> None:
    name, job_name, scale = sys.argv[1:]
    job, place = JOBS[job_name](float(scale)), Place.of_environment()
    library = library_type(name)(place, job.in_flight)
    clock, base = Clock(), memory("VmRSS")
    job.run(library, place, clock)
    peak = memory("VmHWM")
    figures = {"seconds": clock.seconds, "cpu_seconds": clock.cpu, "peak_mib": peak, "base_mib": base}
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}), flush=True)
    # Without the interpreter's own end, which is not measured: there, a thread of obstore's sometimes aborts the process.
    os._exit(0)


if __name__ == "__main__":
    main()
