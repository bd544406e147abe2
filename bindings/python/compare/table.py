"""The tables, in Markdown."""

from collections.abc import Iterable

from .bench import Run
from .jobs import JOBS
from .libraries import LIBRARIES, library_type


def table(runs: list[Run]) -> str:
    """One row for each job and library, with the run of the median time. `×` is the time as a multiple of the first's."""
    lines = [
        "| job | library | seconds | × | CPU s | server CPU s | peak MiB | at start MiB |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for job in dict.fromkeys(run.job for run in runs):
        rows = [_median([run for run in runs if (run.job, run.library) == (job, name)]) for name in LIBRARIES]
        present = [run for run in rows if run is not None]
        fastest = min((run.seconds for run in present if not run.failure), default=0.0)
        for run in sorted(present, key=lambda run: (bool(run.failure), run.seconds)):
            title = f"| {JOBS[job].title} | {run.library} |"
            if run.failure:
                lines.append(f"{title} {run.failure.replace('|', '/')} | | | | | |")
                continue
            times = f" {run.seconds:.2f} | {run.seconds / fastest:.2f} | {run.cpu_seconds:.2f} |"
            lines.append(f"{title}{times} {run.server_cpu_seconds:.2f} | {run.peak_mib:.0f} | {run.base_mib:.0f} |")
    return "\n".join(lines)


def _median(runs: list[Run]) -> Run | None:
    """That of the median time; one that failed if any did."""
    failed = [run for run in runs if run.failure]
    ordered = failed or sorted(runs, key=lambda run: run.seconds)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def settings(libraries: Iterable[str]) -> str:
    """How each library is used."""
    types = {name: library_type(name) for name in libraries}
    lines = ["| job | " + " | ".join(types) + " |", "|---" * (len(types) + 1) + "|"]
    for name, job in JOBS.items():
        cells = [library.settings[job.uses] for library in types.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
