"""The table as people read it."""

from .expected import REFUSALS
from .row import PASS, Outcome


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
