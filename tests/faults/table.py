"""The table of many runs."""

from collections import defaultdict

from .cases import CASES
from .one import Report
from .verdict import CLEAN, WHOLE, WRONG

# `after retries` is a part of `whole` (as far as --json told), `refused` and `uncertain` are parts of `clean error`.
COLUMNS = [
    "case",
    "server",
    "direction",
    "runs",
    "whole",
    "after retries",
    "clean error",
    "refused",
    "uncertain",
    "session left",
    "never named",
    "anything else",
    "longest",
]


def rows(reports: list[Report]) -> list[list]:
    groups = defaultdict(list)
    for report in reports:
        _, server, case, _ = report.id.split(".")
        groups[case, server].append(report)
    order = list(CASES)
    return [
        [CASES[case].name, server, CASES[case].direction, *figures(of)]
        for (case, server), of in sorted(groups.items(), key=lambda entry: (order.index(entry[0][0]), entry[0][1]))
    ] + [["all", "", "", *figures(reports)]]


def figures(reports: list[Report]) -> list:
    def count(true):
        return sum(1 for report in reports if true(report))

    return [
        len(reports),
        count(lambda report: report.kind == WHOLE),
        count(lambda report: report.kind == WHOLE and report.retries),
        count(lambda report: report.kind == CLEAN),
        count(lambda report: report.kind == CLEAN and report.refused),
        count(lambda report: report.kind == CLEAN and report.uncertain),
        count(lambda report: report.left),
        count(lambda report: report.unnamed),
        count(lambda report: report.kind == WRONG),
        f"{max((report.seconds for report in reports), default=0):.1f} s",
    ]


def markdown(reports: list[Report]) -> str:
    cells = [COLUMNS, *[[str(cell) for cell in row] for row in rows(reports)]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(COLUMNS))]
    texts = 3  # The first columns are text, the others figures.

    def line(row):
        padded = [cell.ljust(width) if at < texts else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * width) if at < texts else "-" * (width - 1) + ":" for at, width in enumerate(widths)]
    return "\n".join([line(cells[0]), f"| {' | '.join(rule)} |", *map(line, cells[1:])])
