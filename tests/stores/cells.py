"""The columns of the table: each is one thing that users do, at default options."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from harness import KIB, MIB
from harness.feed import open_pipe
from harness.process import until

from .trial import Trial, Wrong, content

PART = 16 * MIB
OLD = 1_000_000_000  # 2001


def up_and_down(size: int) -> Callable[[Trial], None]:
    """A file there and back."""

    def cell(on: Trial):
        source = on.file("source", size)
        on.run("cp", source, on.url("k"))
        on.is_stored("k", content(size))
        on.has_keys("k")
        on.run("cp", on.url("k"), on.work / "target")
        on.same("what came back", (on.work / "target").read_bytes(), content(size))

    return cell


def cat_range(on: Trial):
    data = content(3 * MIB + 7)
    on.bucket.put(on.key("k"), bytes(data))
    end = len(data)
    for asked, wanted in [
        ("0-0", data[:1]),
        ("100000-2500000", data[100_000:2_500_001]),
        (f"{end - 5}-", data[end - 5 :]),
        (f"{MIB}-{2 * end}", data[MIB:]),
    ]:
        on.same(f"--range {asked}", on.run("cat", on.url("k"), "--range", asked).out, bytes(wanted))
    on.same("the whole", on.run("cat", on.url("k")).out, bytes(data))


def ls(on: Trial):
    sizes = {"a": 0, "b/1": 3, "b/c/2": 70 * KIB, "sp ace/ü+%25": 1}
    for name, size in sizes.items():
        on.bucket.put(on.key(name), bytes(content(size)))
    begin = len(on.url())
    listed = on.run("ls", "-r", on.url(), "--json").json
    on.same("ls -r", {entry["url"][begin:]: entry["size"] for entry in listed}, sizes)
    listed = on.run("ls", on.url("b/"), "--json").json
    on.same("ls", sorted(entry["url"][begin:] for entry in listed), ["b/1", "b/c/"])


def rm(on: Trial):
    for name in ("one", "tree/a", "tree/b/c", "stays"):
        on.bucket.put(on.key(name), b"bytes")
    on.run("rm", on.url("one"))
    on.has_keys("tree/a", "tree/b/c", "stays")
    on.run("rm", "-r", on.url("tree/"))
    on.has_keys("stays")


def sync(on: Trial):
    """Up and down, and each again, when there is nothing left to be copied."""
    sizes = {"empty": 0, "small": 70 * KIB, "d/parts": PART + 1}
    for name, size in sizes.items():
        # Some servers list times in whole seconds: a file of the same second might be newer, and is copied again.
        os.utime(on.file(f"tree/{name}", size), (OLD, OLD))
    tree, back = on.work / "tree", on.work / "back"
    for source, target in [(tree, on.url()), (on.url(), back)]:
        # The same holds for an object that was written in the second of its download.
        second = int(time.time())
        until("the second is over", lambda second=second: time.time() > second + 1)
        for names in (sorted(sizes), []):
            ran = on.run("sync", source, target, "--json")
            copies = [line["source"] for line in ran.json if line["type"] == "copy"]
            on.same(
                "copied by sync", sorted(copied.removeprefix(f"{source}".rstrip("/") + "/") for copied in copies), names
            )
    for name, size in sizes.items():
        on.is_stored(name, content(size))
        on.same(name, (back / name).read_bytes(), content(size))
    on.has_keys(*sizes)


def create_only(size: int) -> Callable[[Trial], None]:
    """The second writer is refused, and what the first one wrote stays."""

    def cell(on: Trial):
        first, second = on.file("first", size), on.file("second", size + 1)
        on.run("cp", first, on.url("k"), "--create-only")
        on.is_stored("k", content(size))
        refused = on.run("cp", second, on.url("k"), "--create-only", exit=1)
        if "an object exists there" not in refused.err:
            raise Wrong(on.first_line(refused.err))
        on.is_stored("k", content(size))
        on.has_keys("k")

    return cell


def journal(on: Trial):
    """`kill -9` in the middle of a pipe, and the same command again."""
    folder, data = on.work / "journal", content(40 * MIB)
    folder.mkdir()
    half = data[: 24 * MIB + 777]
    command = ("cp", "-", on.url("k"), "--journal", folder)
    with open_pipe() as pipe:
        run = on.start(*command, stdin=pipe.stdin)
        pipe.started()
        pipe.send(half)
        until("the journal has it", lambda: run.ended or journaled(on, folder) == len(half), 60)
        if run.ended:
            raise Wrong(on.first_line(run.wait().said))
        run.killed()
    on.is_absent("k")
    on.run(*command, stdin=bytes(data))
    on.is_stored("k", data)
    on.has_keys("k")
    on.same("left in the journal's folder", [path.name for path in folder.iterdir()], [])


def journaled(on: Trial, folder: Path) -> int:
    """How many bytes are in the journal that a process has yet, by a copy of it."""
    copy = on.work / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, ignore=lambda _, names: [name for name in names if not name.endswith(".journal")])
    return sum(left["bytes"] for left in on.run("journal", "ls", copy, "--json").json)


# A feature of `doctor`, and what commands with `-v` say of a server that lacks it: where the protocol lacks the feature,
# they say nothing of the server.
NOTICES = {
    "ranges": ["returns whole objects instead of ranges"],
    "checksum": ["does not tell the checksums of objects", "keeps no CRC", "does not compare the bytes"],
    "upload in parts": ["has no uploads in parts"],
    "list of unfinished uploads": ["does not list unfinished uploads"],
    "resumable upload": ["does not tell how much of an unfinished upload it has"],
    "copy in the store": ["makes no copies itself"],
    "bulk delete": ["has no removals of many objects"],
}
PROTOCOL_LACKS = {
    "s3": {"resumable upload"},
    "gs": {"bulk delete", "list of unfinished uploads"},
    "az": {"bulk delete", "list of unfinished uploads", "resumable upload"},
}


def doctor(on: Trial):
    """What it says of a server is what the other commands say there. It leaves nothing."""
    on.bucket.put(on.key("there"), b"bytes")
    ran = on.start("doctor", on.url(), "--json").wait(60)
    findings = {line["feature"]: line for line in ran.json}
    is_broken = any(line["state"] == "broken" for line in findings.values())
    on.same("the exit code of doctor", ran.exit, 1 if is_broken else 0)
    on.has_keys("there")
    scheme = on.url().split("://")[0]
    if scheme not in PROTOCOL_LACKS:
        return
    small, large = on.file("small", 70 * KIB), on.file("large", PART + 1)
    said = "".join(
        on.run(*command, "-v").err
        for command in [
            ("cp", large, on.url("large")),
            ("cp", small, on.url("small")),
            ("cp", on.url("small"), on.url("copy")),
            ("cat", on.url("large"), "--range", "5-9"),
            ("sessions", "ls", on.url()),
            ("rm", "-r", on.url()),
        ]
    )
    on.has_keys()
    for feature in (feature for feature in NOTICES if feature not in PROTOCOL_LACKS[scheme]):
        found = findings[feature]
        is_lacking = found["state"] in ("missing", "broken")
        if feature == "checksum":
            # Of objects that are uploaded in parts, the check of those uploads tells.
            is_lacking |= "keeps no checksum" in findings["upload in parts"].get("message", "")
        if feature == "upload in parts":
            is_lacking = found["state"] == "missing"
        if feature == "resumable upload":
            # They work, and the message says what they lack.
            is_lacking = NOTICES[feature][0] in found.get("message", "")
        told = any(notice in said for notice in NOTICES[feature])
        if told != is_lacking:
            raise Wrong(
                f"doctor says `{feature}` {found['state']}, and the commands {'do' if told else 'do not'} tell of a lack"
            )


CELLS: dict[str, Callable[[Trial], None]] = {
    "cp 0 B": up_and_down(0),
    "cp 16 MiB + 1": up_and_down(PART + 1),
    "cp 100 MiB": up_and_down(100 * MIB),
    "cat --range": cat_range,
    "ls": ls,
    "rm": rm,
    "sync": sync,
    "cp --create-only": create_only(70 * KIB),
    "cp --create-only, parts": create_only(PART + 1),
    "cp --journal, kill -9": journal,
    "doctor": doctor,
}
