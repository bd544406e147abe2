"""Prints the table: `python -m stores` from the folder tests/."""

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from harness.command import binary

from .cells import CELLS
from .expected import REFUSALS
from .row import PASS, Outcome, row
from .servers import BY_NAME, SERVERS


def arguments():
    parser = argparse.ArgumentParser(prog="python -m stores", description=sys.modules["stores"].__doc__)
    parser.add_argument("--server", action="append", choices=SERVERS, help="this row only; may be given again")
    parser.add_argument("--cell", action="append", choices=CELLS, help="this column only; may be given again")
    parser.add_argument(
        "--at-once", type=int, default=4, metavar="N", help="servers that run side by side (default: 4)"
    )
    parser.add_argument("--times", action="store_true", help="how long each cell took, in place of `pass`")
    return parser.parse_args()


def markdown(outcomes: list[Outcome], times: bool) -> str:
    """The table, and below it why some cells are not `pass`."""
    rows = list(dict.fromkeys(outcome.server for outcome in outcomes))
    columns = list(dict.fromkeys(outcome.cell for outcome in outcomes))
    of = {(outcome.server, outcome.cell): outcome for outcome in outcomes}
    notes: list[str] = []
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for server in rows:
        cells = []
        for column in columns:
            outcome = of[server, column]
            text = outcome.said.replace("|", "\\|")
            if outcome.said == PASS and times:
                text = f"{outcome.seconds:.1f} s"
            refusal = REFUSALS.get((server, column))
            if refusal:
                if refusal.reason not in notes:
                    notes.append(refusal.reason)
                text += f" [{notes.index(refusal.reason) + 1}]"
            cells.append(text)
        lines.append(f"| {server} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"{number}. {note}" for number, note in enumerate(notes, 1))])


def main() -> int:
    options = arguments()
    if not binary().exists():
        print(f"stores: {binary()} is not there: scripts/test --only release builds it", file=sys.stderr)
        return 2
    began = time.monotonic()
    servers, cells = options.server or [name for name in SERVERS if name not in BY_NAME], options.cell or list(CELLS)
    with ProcessPoolExecutor(options.at_once, multiprocessing.get_context("spawn")) as pool:
        outcomes = [outcome for done in pool.map(row, servers, [cells] * len(servers)) for outcome in done]
    print(markdown(outcomes, options.times))
    wrong = [outcome for outcome in outcomes if not outcome.is_expected]
    print(f"\n{len(outcomes)} cells in {time.monotonic() - began:.0f} s, {len(wrong)} of them not as expected")
    for outcome in wrong:
        refusal = REFUSALS.get((outcome.server, outcome.cell))
        wanted = f"expected: {refusal.says}, because {refusal.reason}" if refusal else f"expected: {PASS}"
        print(f"\n{outcome.server}: {outcome.cell}: {outcome.said}\n  {wanted}\n{outcome.log}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
