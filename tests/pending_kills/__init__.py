"""Kills programs between the preparation of an upload and its commit, and asks the store what is there.

A round prepares uploads with `tidegate cp --prepare`, each killed at a random moment or after it has written its file.
Then other programs commit the one half of the files, twice at once and one of them killed in the middle, and abandon the
other half. Looked at from outside, by the store's own client:

- before the commits, no object is visible;
- after them, each committed object is whole, and no abandoned one is there;
- after a sweep, once the lifetimes are over, neither sessions nor records are left.
"""

import contextlib
import hashlib
import json
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from harness.command import CommandLine
from harness.s3 import Bucket

KIB = 1 << 10
OWN = ".tidegate/"


class Wrong(AssertionError):
    """A promise that was not kept."""


@dataclass
class Kills:
    """What the programs of a round have come to."""

    killed: int = 0
    prepared: int = 0
    committed: int = 0
    abandoned: int = 0
    # Sets that the store left without an upload, see docs/PENDING.md.
    lost: int = 0


def sessions(bucket, may_lose=False) -> list:
    """The unfinished uploads that the store lists. Azure has none: it discards what was not committed by itself. After a cut
    completion, a store that `may_lose` an upload lists it, and its other requests do not know it."""
    if not isinstance(bucket, Bucket):
        return []
    pages = bucket.client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket.name)
    listed = [(entry["Key"], entry["UploadId"]) for page in pages for entry in page.get("Uploads", [])]
    return [key for key, upload in listed if not may_lose or is_there(bucket, key, upload)]


def is_there(bucket, key, upload) -> bool:
    """Whether the store knows the upload."""
    try:
        bucket.client.list_parts(Bucket=bucket.name, Key=key, UploadId=upload)
    except bucket.client.exceptions.NoSuchUpload:
        return False
    return True


def visible(bucket) -> list:
    return [key for key in bucket.keys() if not key.startswith(OWN)]


def expect(condition, what):
    if not condition:
        raise Wrong(what)


def round_of_kills(bucket, folder: Path, kills: int, seed: int, lifetime: int, options=()) -> Kills:
    """Runs one round in an empty bucket. `lifetime` is in seconds: longer than the round's preparations and commits take."""
    chance, tidegate, seen = random.Random(seed), CommandLine(), Kills()
    settings = {"env": bucket.env}
    contents, files = {}, {}
    pace = 0.2
    try:
        while seen.killed < kills:
            key = f"k/{len(contents)}"
            # No byte, an object that one request would hold, and several parts with a tail that is no whole chunk.
            contents[key] = chance.randbytes(chance.choice((0, 10, 300 * KIB + 77, (5 << 20) + 9001)))
            files[key] = folder / f"{len(contents)}.json"
            command = ("cp", "-", bucket.url(key), "--prepare", files[key], "--lifetime", f"{lifetime}s")
            # Google's conditions go to a session that is appended to.
            only = ("--create-only",) if chance.random() < 0.3 else ()
            started = time.monotonic()
            run = tidegate.start(*command, *only, "--part-size", "5MiB", *options, stdin=contents[key], **settings)
            if chance.random() < 0.7:
                time.sleep(chance.random() * pace * 1.2)
                kill(run)
            ended = run.wait(60)
            if ended.exit == 0:
                pace = 0.9 * pace + 0.1 * (time.monotonic() - started)
                continue
            expect(ended.exit in (-signal.SIGKILL, 1), ended)
            seen.killed += 1
        last = time.time()
        # Every program that prepared is dead by now; of some, the file was not written.
        prepared = [key for key, file in files.items() if file.exists() and is_whole(file)]
        seen.prepared = len(prepared)
        expect(visible(bucket) == [], f"visible before a commit: {visible(bucket)}")
        expect(prepared, "no upload was prepared")
        chance.shuffle(prepared)
        committed, abandoned = prepared[: len(prepared) // 2], prepared[len(prepared) // 2 :]
        commit_all(tidegate, [files[key] for key in committed], chance, settings)
        seen.committed = len(committed)
        for key in committed:
            there = bucket.sha256(key)
            expect(there == hashlib.sha256(contents[key]).hexdigest(), f"{key} is torn")
        if abandoned:
            ended = tidegate("abandon", *(files[key] for key in abandoned), **settings)
            expect(ended.exit == 0, ended)
            again = tidegate("commit", *(files[key] for key in abandoned), "--json", **settings)
            expect(again.exit != 0 and again.text == "", f"an abandoned upload was committed: {again}")
        seen.abandoned = len(abandoned)
        expect(sorted(visible(bucket)) == sorted(committed), "other objects are visible than were committed")
        # A killed program may have left a record that nobody knows of, until its lifetime is over.
        wait_until(last + lifetime + 2)
        swept = tidegate("sweep", bucket.url(), "--older-than", "0s", **settings)
        expect(swept.exit == 0 or "nothing can be swept" in swept.err, swept)
        expect(sessions(bucket) == [], f"sessions are left: {sessions(bucket)}")
        left = [key for key in bucket.keys() if key.startswith(OWN)]
        expect(left == [], f"records are left: {left}")
        return seen
    finally:
        tidegate.stop()


def kills_in_a_set(bucket, folder: Path, objects: int, kills: int, seed: int, pace: float, may_lose=False) -> Kills:
    """Kills programs that publish one set of `objects` uploads, each within `pace` seconds, until `kills` were killed or the
    set is complete. Then another one ends it, from the store alone if its intent is there. A store that `may_lose` an upload
    whose completion is cut may leave a set that can only be given up."""
    chance, tidegate, seen = random.Random(seed), CommandLine(), Kills()
    settings = {"env": bucket.env, "timeout": 120}
    keys = [f"s/{number}" for number in range(objects)]
    files = [folder / f"set-{seed}-{number}.json" for number in range(objects)]
    contents = {key: chance.randbytes(chance.choice((0, 10, 5000))) for key in keys}
    pointer = bucket.url("pointer.json")
    try:
        for key, file in zip(keys, files, strict=True):
            ended = tidegate("cp", "-", bucket.url(key), "--prepare", file, stdin=contents[key], **settings)
            expect(ended.exit == 0, ended)
        seen.prepared = objects
        for _ in range(kills):
            run = tidegate.start("commit", "--manifest", pointer, *files, env=bucket.env)
            time.sleep(chance.random() * pace)
            kill(run)
            if run.wait(60).exit == 0:
                break
            seen.killed += 1
            there = bucket.keys()
            began = any(key.startswith(f"{OWN}manifests/") for key in there)
            shown = [key for key in there if not key.startswith(OWN)]
            # Its pointer comes last, and the intent goes after that.
            if "pointer.json" in shown:
                expect(
                    sorted(shown) == sorted([*keys, "pointer.json"]),
                    f"a reader of the pointer sees {len(shown)} objects",
                )
            elif not began:
                expect(shown == [], f"visible before the intent: {shown}")
        began = any(key.startswith(f"{OWN}manifests/") for key in bucket.keys())
        ended = tidegate("commit", "--manifest", pointer, *([] if began else files), **settings)
        if may_lose and "cannot be completed without this upload" in ended.err:
            expect(seen.killed > 0, f"an upload was lost without a kill: {ended}")
            uploads = {key: json.loads(file.read_text())["bytes"]["id"] for key, file in zip(keys, files, strict=True)}
            lost = [key for key in keys if key not in bucket.keys() and not is_there(bucket, key, uploads[key])]
            expect(lost != [], f"the store has every upload or its object: {ended}")
            give_up_a_set(tidegate, bucket, pointer, contents, settings)
            seen.lost = 1
            return seen
        expect(ended.exit == 0, ended)
        expect(sorted(bucket.keys()) == sorted([*keys, "pointer.json"]), "the set is not whole, or something is left")
        for key in chance.sample(keys, min(10, objects)):
            expect(bucket.sha256(key) == hashlib.sha256(contents[key]).hexdigest(), f"{key} is torn")
        seen.committed = objects
        return seen
    finally:
        tidegate.stop()


def give_up_a_set(tidegate, bucket, pointer, contents, settings):
    """Ends a set that has lost an upload. What is visible is whole, and there is no pointer, no session and no record."""
    again = tidegate("commit", "--manifest", pointer, **settings)
    expect(again.exit != 0, f"the upload was not lost: {again}")
    ended = tidegate("abandon", "--manifest", pointer, **settings)
    expect(ended.exit == 0, ended)
    left = bucket.keys()
    expect("pointer.json" not in left and len(left) < len(contents), f"a set that was given up is there: {left}")
    for key in left:
        expect(key in contents, f"{key} is left")
        expect(bucket.sha256(key) == hashlib.sha256(contents[key]).hexdigest(), f"{key} is torn")
    expect(sessions(bucket, may_lose=True) == [], f"sessions are left: {sessions(bucket, may_lose=True)}")


def kill(run):
    with contextlib.suppress(ProcessLookupError):
        os.kill(run.pid, signal.SIGKILL)


def is_whole(file: Path) -> bool:
    try:
        json.loads(file.read_text())
    except ValueError:
        return False
    return True


def commit_all(tidegate, files, chance, settings):
    """Two programs commit the same uploads at once. One is killed in the middle, and what is left is committed again."""
    if not files:
        return
    one = tidegate.start("commit", *files, **settings)
    other = tidegate.start("commit", *reversed(files), **settings)
    time.sleep(chance.random() * 0.05 * len(files))
    kill(one)
    one.wait(60)
    ended = other.wait(300)
    expect(ended.exit == 0, ended)
    again = tidegate("commit", *files, timeout=300, **settings)
    expect(again.exit == 0, again)


def wait_until(moment: float):
    while (left := moment - time.time()) > 0:
        time.sleep(min(left, 1.0))
