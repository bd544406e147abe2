"""One row of the table: all cells of one server."""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .cells import CELLS
from .expected import REFUSALS
from .servers import SERVERS
from .trial import Trial, Wrong

PASS = "pass"


@dataclass(frozen=True)
class Outcome:
    """One cell. `log` is the end of the server's log, of a cell that failed."""

    server: str
    cell: str
    said: str
    seconds: float
    log: str = ""

    @property
    def is_expected(self) -> bool:
        refusal = REFUSALS.get((self.server, self.cell))
        return self.said == PASS if refusal is None else refusal.says in self.said


def row(server: str, cells: list[str]) -> list[Outcome]:
    """All cells of one server, one after another; in a process of its own."""
    # A developer's proxy is not for servers on this machine.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="stores-") as folder:
        began = time.monotonic()
        try:
            place = SERVERS[server](Path(folder))
        except Exception as error:
            said = f"it could not be started: {error}".splitlines()[0]
            return [Outcome(server, cell, said, time.monotonic() - began, str(error)) for cell in cells]
        try:
            for number, cell in enumerate(cells):
                work = Path(folder) / "work"
                work.mkdir()
                trial = Trial(place, f"c{number}", work)
                began = time.monotonic()
                try:
                    CELLS[cell](trial)
                    said = PASS
                except Wrong as wrong:
                    said = str(wrong)
                except Exception as error:
                    # Such as an answer that the server's own client does not understand: it is the cell's outcome too.
                    said = f"{type(error).__name__}: {error}".splitlines()[0]
                finally:
                    trial.close()
                log = "" if said == PASS else place.log
                outcomes.append(Outcome(server, cell, said, time.monotonic() - began, log))
                shutil.rmtree(work)
        finally:
            place.close()
    return outcomes
