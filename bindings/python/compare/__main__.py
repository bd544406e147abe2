"""`python -m compare`: see README.md."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PYTHON.parents[1] / "tests"), str(PYTHON / "python")]
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"

from .bench import Bench, Run, roomy_folder  # noqa: E402
from .jobs import JOBS  # noqa: E402
from .libraries import LIBRARIES  # noqa: E402
from .table import settings, table  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m compare", description="Tidegate beside other libraries for S3.")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB", help=", ".join(JOBS))
    parser.add_argument(
        "--libraries",
        nargs="+",
        choices=LIBRARIES,
        default=list(LIBRARIES),
        metavar="LIBRARY",
        help=", ".join(LIBRARIES),
    )
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; the table has that of the median time")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of each job's size, for trying out")
    parser.add_argument("--json", action="store_true", help="print each run as a line of JSON instead of the table")
    parser.add_argument("--settings", action="store_true", help="print how each library is used, and end")
    return parser.parse_args()


def measured(given: argparse.Namespace) -> Iterator[Run]:
    """Each run as it ends. Libraries take turns, so that what changes on the machine meets all of them."""
    with roomy_folder() as folder:
        print(f"files and objects are below {folder}", file=sys.stderr)
        bench = Bench(Path(folder), given.scale)
        try:
            for job in given.jobs:
                with bench.prepared(job) as prepared:
                    for _ in range(given.repeat):
                        for library in given.libraries:
                            yield prepared.run(library)
        finally:
            bench.stop()


def main() -> int:
    given = arguments()
    if given.settings:
        print(settings(given.libraries))
        return 0
    runs = []
    for run in measured(given):
        runs.append(run)
        said = run.outcome if isinstance(run.outcome, str) else f"{run.outcome.seconds:.2f} s"
        print(f"{run.job} {run.library}: {said}", file=sys.stderr)
        if given.json:
            print(run.line(), flush=True)
    if not given.json:
        print(table(runs))
    return 1 if any(isinstance(run.outcome, str) for run in runs) else 0


if __name__ == "__main__":
    # Ends as Ctrl-C does: servers are stopped and their files removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
