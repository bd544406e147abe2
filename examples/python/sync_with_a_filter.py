"""Makes one tree like another, for some of its names, with a progress bar:

python sync_with_a_filter.py photos s3://bucket/photos '*.jpg'
"""

import sys

import tidegate


def main(source: str, target: str, pattern: str) -> None:
    run = tidegate.trees.sync(source, target, include=pattern)
    for event in run:
        if event.kind in ("failed", "warning"):
            print(f"\r{event.message}")
        progress = run.progress()
        of = "" if progress.expected is None else f" of {progress.expected}"
        print(f"\r{progress.bytes}{of} bytes, {progress.objects} of {progress.found} objects", end="")
    report = run.report()
    print(f"\n{report.copied} copied, {report.unchanged} unchanged")


if __name__ == "__main__":
    main(*sys.argv[1:])
