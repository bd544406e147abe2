"""Copies lines from a queue, here a file, into an object, and acknowledges each by its number. However often the program is
killed, a later run continues, and the object has every line that was acknowledged. Credentials and endpoint come from the
environment.

python journaled_ingest.py QUEUE s3://bucket/events.log JOURNAL_DIRECTORY
"""

import sys

import tidegate


def writer_of(url: str, journal: str) -> tidegate.Writer | None:
    """The upload that an earlier run has left, or a new one; `None` if it was finished."""
    for left in tidegate.recover(journal):
        if left.url == url:
            if left.problem is not None:
                sys.exit(f"{left.path}: {left.problem}")
            resumed = left.resume()
            return resumed if isinstance(resumed, tidegate.Writer) else None
    return tidegate.open(url, "wb", strategy="journal", journal=journal)


def main(queue: str, url: str, journal: str) -> None:
    file = writer_of(url, journal)
    if file is None:
        print("finished by an earlier run")
        return
    with open(queue, "rb") as lines, file:
        # All bytes that were acknowledged are in the journal, and perhaps some more: not always whole lines.
        lines.seek(file.tell())
        for line in lines:
            file.write(line)
            # From here on it survives a crash of the program and of the machine.
            print(f"acknowledged {file.tell()}", flush=True)
    print(f"published {file.object.size}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
