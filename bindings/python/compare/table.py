"""The tables, in Markdown."""

from collections.abc import Iterable

from .bench import Figures, Run
from .jobs import JOBS
from .libraries import LIBRARIES, library_type


def table(runs: list[Run]) -> str:
    """One row for each job and library, with the run of the median time. `×` is the time as a multiple of the first's."""
    lines = [
        "| job | library | seconds | × | CPU s | server CPU s | peak MiB | at start MiB |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for job in dict.fromkeys(run.job for run in runs):
        outcomes = {name: [run.outcome for run in runs if (run.job, run.library) == (job, name)] for name in LIBRARIES}
        chosen = {name: _median(each) for name, each in outcomes.items() if each}
        measured = {name: figures for name, figures in chosen.items() if not isinstance(figures, str)}
        fastest = min((figures.seconds for figures in measured.values()), default=0.0)
        for name, each in sorted(measured.items(), key=lambda item: item[1].seconds):
            cells = [JOBS[job].title, name, f"{each.seconds:.2f}", f"{each.seconds / fastest:.2f}"]
            cells += [f"{each.cpu_seconds:.2f}", f"{each.server_cpu_seconds:.2f}"]
            lines.append(f"| {' | '.join(cells)} | {each.peak_mib:.0f} | {each.base_mib:.0f} |")
        for name, outcome in chosen.items():
            if isinstance(outcome, str):
                lines.append(f"| {JOBS[job].title} | {name} | {outcome.replace('|', '/')} | | | | | |")
    return "\n".join(lines)


def _median(outcomes: list[Figures | str]) -> Figures | str:
    """The figures of the median time; the first failure if any run failed."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    if failures:
        return failures[0]
    figures = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    return sorted(figures, key=lambda each: each.seconds)[(len(figures) - 1) // 2]


def settings(libraries: Iterable[str]) -> str:
    """How each library is used."""
    types = {name: library_type(name) for name in libraries}
    lines = ["| job | " + " | ".join(types) + " |", "|---" * (len(types) + 1) + "|"]
    for name, job in JOBS.items():
        cells = [library.settings[job.uses] for library in types.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
