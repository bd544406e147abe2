"""Runs the fault suite and prints its table: `python -m faults` from the folder tests/."""

import argparse
import multiprocessing
import signal
import sys
import time
from collections import deque
from multiprocessing.connection import wait

from harness.command import binary
from harness.servers import tool

from .cases import CASES, Case
from .jobs import faces_binary
from .one import Report
from .plan import JOBS, READS, possible
from .stores import STORES
from .table import markdown
from .verdict import WRONG
from .worker import work

# Lines of a trace that are shown of a run that failed.
TRACED = 25


def arguments():
    parser = argparse.ArgumentParser(
        prog="python -m faults", description="The fault suite; see tests/faults/README.md."
    )
    parser.add_argument(
        "--runs", type=int, default=180, metavar="N", help="how many, over all cases and servers (default: 180)"
    )
    parser.add_argument(
        "--seconds", type=float, default=240, metavar="LIMIT", help="begin no run after so long (default: 240)"
    )
    parser.add_argument("--seed", default="1", help="what the parameters of all runs are drawn from (default: 1)")
    parser.add_argument(
        "--only", action="append", metavar="CASE", help="a case, such as kill_restart or latency-up; may be given again"
    )
    parser.add_argument("--job", action="append", choices=JOBS, help="this kind of upload or read; may be given again")
    parser.add_argument("--server", choices=STORES, help="this server only")
    parser.add_argument(
        "--at-once",
        type=int,
        default=2,
        metavar="N",
        help="servers of each kind, each with one run at a time (default: 2)",
    )
    parser.add_argument("--replay", metavar="RUN", help="one run again, by its name; with --runs, that often")
    parser.add_argument(
        "--trace", action="store_true", help="show what the program said that it does, of every run and all of it"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a run on stdout instead of the table")
    parser.add_argument("--list", action="store_true", help="list the cases")
    parsed = parser.parse_args()
    for case in parsed.only or []:
        if case not in CASES:
            parser.error(f"no such case: {case} (there are: {', '.join(CASES)})")
    if parsed.replay and (parsed.replay.count(".") != 3 or parsed.replay.split(".")[2] not in CASES):
        parser.error(f"no such run: {parsed.replay} (a run is SEED.SERVER.CASE.NUMBER)")
    if "." in parsed.seed:
        parser.error("a seed has no dot in it")
    return parsed


def names(options) -> dict[str, deque[str]]:
    """The runs of each kind of server: all cases once, then all of them again."""
    if options.replay:
        repeats = options.runs if "--runs" in sys.argv else 1
        return {options.replay.split(".")[1]: deque([options.replay] * repeats)}
    kinds = [
        (server, case)
        for case in options.only or CASES
        for server in ([options.server] if options.server else STORES)
        if is_tried(server, CASES[case], options.job)
    ]
    queues = {server: deque() for server, _ in kinds}
    for number in range(options.runs if kinds else 0):
        turn, at = divmod(number, len(kinds))
        server, case = kinds[at]
        queues[server].append(f"{options.seed}.{server}.{case}.{turn}")
    return queues


def is_tried(server: str, case: Case, jobs: list[str] | None) -> bool:
    """The embedded server stands in for none that is real, but where reads are all that is asked for."""
    if case.embedded_only:
        return server == "embedded" and bool(possible(server, case, jobs))
    is_ordinary = server != "embedded" or case.reads_only or set(jobs or JOBS) <= set(READS)
    return is_ordinary and bool(possible(server, case, jobs))


class Pool:
    """Worker processes, and the runs that they are at."""

    def __init__(self, options, queues):
        self._queues = queues
        self._deadline = time.monotonic() + options.seconds
        self._context = multiprocessing.get_context("spawn")
        self._jobs = options.job
        self._workers = {}
        for kind, queue in queues.items():
            for _ in range(min(options.at_once, len(queue))):
                self._start(kind)

    def _start(self, kind):
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=work, args=(kind, theirs, self._jobs))
        process.start()
        theirs.close()
        self._workers[ours] = (process, kind)
        self._next(ours)

    def _next(self, connection):
        queue = self._queues[self._workers[connection][1]]
        late = time.monotonic() > self._deadline
        connection.send(queue.popleft() if queue and not late else None)

    def reports(self):
        """Reports as they come; one that comes a second time has been found out late."""
        while self._workers:
            for connection in wait(list(self._workers)):
                process, kind = self._workers[connection]
                try:
                    said = connection.recv()
                except EOFError:
                    process.join()
                    raise SystemExit(f"faults: the worker for {kind} ended with {process.exitcode}") from None
                if isinstance(said, Report):
                    yield said
                    self._next(connection)
                    continue
                yield from said
                del self._workers[connection]
                connection.close()
                process.join()

    def close(self):
        """Ends what is still under way, on a Ctrl-C or an error."""
        for connection, (process, _) in self._workers.items():
            process.terminate()
            # One that was in trouble of its own just then has missed that, and asks for more.
            connection.close()
        for process, _ in self._workers.values():
            process.join()


def tell(report: Report, options):
    if options.json:
        print(report.json(), flush=True)
    if report.trouble:
        print(f"\n{report.id}: done again: {report.trouble}", file=sys.stderr, flush=True)
    if report.kind == WRONG or options.replay or options.trace:
        print(f"\n{story(report, options.trace)}", file=sys.stderr, flush=True)


def story(report: Report, whole: bool) -> str:
    """What a run came to; of one that failed also how, and how to do it again."""
    lines = [f"{report.id}: {report.kind}; {report.plan}", *(f"  {reason}" for reason in report.why)]
    lines.append(f"  exit {report.exit} after {report.seconds} s, stderr: {report.err.strip()}")
    trace = report.trace.splitlines()
    if whole:
        lines += trace
    if report.kind == WRONG:
        # The library's faces keep none.
        if trace and not whole:
            lines += ["  the program's trace ends:", *trace[-TRACED:]]
        lines += [
            f"  the server's log ends: {report.log}",
            f"  again: python -m faults --replay {report.id} --job {report.job}",
        ]
    return "\n".join(lines)


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.list:
        print("\n".join(CASES))
        return 0
    for program in (binary(), faces_binary()):
        if not program.exists():
            print(f"faults: {program} is not there: scripts/test --only release faults builds it", file=sys.stderr)
            return 2
    for name in ("toxiproxy-server", "minio", "versitygw", "azurite-blob"):
        tool(name)
    began = time.monotonic()
    reports: dict[int, Report] = {}
    by_id: dict[str, int] = {}
    pool = Pool(options, names(options))
    try:
        for report in pool.reports():
            late = report.kind == WRONG and not options.replay and report.id in by_id
            at = by_id[report.id] if late else len(reports)
            by_id[report.id], reports[at] = at, report
            tell(report, options)
    finally:
        pool.close()
    done = list(reports.values())
    wrong = [report for report in done if report.kind == WRONG]
    if not options.json:
        print(markdown(done))
        struck = sum(report.struck for report in done)
        again = sum(bool(report.trouble) for report in done)
        print(
            f"\n{len(done)} runs in {time.monotonic() - began:.0f} s; the fault struck before the end in {struck} of them;",
            end=" ",
        )
        print(f"{again} were done again because the suite itself failed.")
        # Told again: of what a machine did alone, only the end may be seen.
        for report in wrong:
            print(f"\n{story(report, whole=False)}")
    return 1 if wrong or not done else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
