"""The table of many runs."""

from collections import defaultdict
from collections.abc import Callable

from .cases import CASES
from .one import Report
from .plan import READS
from .verdict import CLEAN, WHOLE, WRONG

TEXTS = ["case", "server", "direction"]


def count(true: Callable[[Report], object]) -> Callable[[list[Report]], str]:
    return lambda reports: str(sum(1 for report in reports if true(report)))


def longest(reports: list[Report]) -> str:
    return f"{max((report.seconds for report in reports), default=0):.1f} s"


# `after retries` is a part of `whole` (as far as --json told); `refused`, `uncertain` and `whole when called again` are
# parts of `clean error`.
EVERY = {
    "runs": count(lambda report: True),
    "whole": count(lambda report: report.kind == WHOLE),
    "after retries": count(lambda report: report.kind == WHOLE and report.retries),
    "clean error": count(lambda report: report.kind == CLEAN),
}
UPLOADED = {
    "refused": count(lambda report: report.kind == CLEAN and report.refused),
    "uncertain": count(lambda report: report.kind == CLEAN and report.uncertain),
    "session left": count(lambda report: report.left),
    "never named": count(lambda report: report.unnamed),
}
READ = {"whole when called again": count(lambda report: report.kind == CLEAN and report.went_on)}
LAST = {"anything else": count(lambda report: report.kind == WRONG), "longest": longest}


def figures(reports: list[Report]) -> dict:
    """Only those that such runs can have."""
    reads = sum(report.job in READS for report in reports)
    return EVERY | (UPLOADED if reads < len(reports) else {}) | (READ if reads else {}) | LAST


def rows(reports: list[Report]) -> list[list[str]]:
    def values(of):
        return [figure(of) for figure in figures(reports).values()]

    groups = defaultdict(list)
    for report in reports:
        _, server, case, _ = report.id.split(".")
        groups[case, server].append(report)
    order = list(CASES)
    return [
        [CASES[case].name, server, CASES[case].direction, *values(of)]
        for (case, server), of in sorted(groups.items(), key=lambda entry: (order.index(entry[0][0]), entry[0][1]))
    ] + [["all", "", "", *values(reports)]]


def markdown(reports: list[Report]) -> str:
    cells = [[*TEXTS, *figures(reports)], *rows(reports)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    texts = len(TEXTS)

    def line(row):
        padded = [
            cell.ljust(width) if at < texts else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * width) if at < texts else "-" * (width - 1) + ":" for at, width in enumerate(widths)]
    return "\n".join([line(cells[0]), f"| {' | '.join(rule)} |", *map(line, cells[1:])])
