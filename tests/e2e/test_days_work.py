"""A day's work with nothing but what README.md and --help name, from an empty account to an empty account. What each step
did is looked at by boto3 and curl."""

import datetime
import os
import re
import subprocess

import pytest

from harness import MIB, ROOT
from harness.command import CommandLine, clean_env
from harness.s3 import Endpoint
from trees import below, plant


class Day:
    """A shell's worth of commands in one directory. Each must be one that README.md or --help names."""

    def __init__(self, endpoint: Endpoint, folder):
        self.folder, self.env = folder, endpoint.env
        self._client = endpoint.client()
        self._commands = CommandLine()
        named = self._commands("--help").text + (ROOT / "README.md").read_text()
        self._known = set(re.findall(r"(?m)^  (\w+)  ", named)) | set(re.findall(r"tidegate (\w+) ", named))

    def tidegate(self, line, stdin=None, exit=0):
        """Runs `tidegate LINE` with its words split at spaces."""
        words = line.split()
        assert words[0] in self._known, f"a newcomer finds no `{words[0]}`"
        help = self._commands(words[0], "--help").text
        for option in (word for word in words if re.match("--?[a-z]", word)):
            assert re.search(rf"(?m)^ +(-., )?{option}\b|^ +{option}, ", help), f"a newcomer finds no {option}"
        run = self._commands(*words, env=self.env, cwd=self.folder, stdin=stdin)
        assert run.exit == exit, run
        return run

    def held(self, bucket, prefix=""):
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return {key: self._client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def buckets(self):
        return {bucket["Name"] for bucket in self._client.list_buckets()["Buckets"]}

    def close(self):
        self._commands.stop()


@pytest.fixture
def day(server, tmp_path):
    day = Day(server.endpoint, tmp_path)
    yield day
    day.close()


def test_a_days_work(day):
    bucket = f"days-work-{os.getpid()}-{os.urandom(4).hex()}"
    url, folder = f"s3://{bucket}", day.folder
    today = datetime.datetime.now(datetime.UTC).date()
    yesterday = today - datetime.timedelta(days=1)

    # In the morning: a bucket, and a directory in it.
    day.tidegate(f"mb {url}")
    assert bucket in day.buckets()
    assert bucket in day.tidegate("ls").text
    photos = {"one.jpg": os.urandom(3000), "trip/two.jpg": os.urandom(6 * MIB), "trip/notes é.txt": b"notes"}
    plant(folder / "photos", photos)
    day.tidegate(f"cp -r photos {url}/")
    assert day.held(bucket) == {f"photos/{name}": body for name, body in photos.items()}
    assert re.search(r"(?m) 3000 one\.jpg$", day.tidegate(f"ls {url}/photos/").text)
    size = sum(map(len, photos.values()))
    assert day.tidegate(f"du {url}/photos").text.split()[:2] == [str(size), "3"]
    assert "6.0 MiB" in day.tidegate(f"du -H {url}").text

    # Work: a new file, a changed one, one that is gone.
    (folder / "photos/one.jpg").write_bytes(b"changed")
    (folder / "photos/new.jpg").write_bytes(b"new")
    (folder / "photos/trip/two.jpg").unlink()
    planned = day.tidegate(f"sync photos {url}/photos --delete --dry-run").text.splitlines()
    assert len(planned) == 3 and len(day.held(bucket)) == 3
    day.tidegate(f"sync photos {url}/photos --delete")
    photos = {"one.jpg": b"changed", "new.jpg": b"new", "trip/notes é.txt": b"notes"}
    assert day.held(bucket) == {f"photos/{name}": body for name, body in photos.items()}

    # Elsewhere: the same again, and proof of it.
    day.tidegate(f"sync {url}/photos elsewhere")
    assert below(folder / "elsewhere") == photos
    day.tidegate(f"check --size-only photos {url}/photos")
    day.tidegate(f"check --checksum elsewhere {url}/photos")
    (folder / "elsewhere/new.jpg").write_bytes(b"NEW")
    assert "new.jpg" in day.tidegate(f"check --checksum elsewhere {url}/photos", exit=1).text

    # Yesterday's files go into the archive.
    for name in (f"{yesterday}-a.log", f"{yesterday}-b.log", f"{today}-a.log"):
        day.tidegate(f"cp - {url}/logs/{name}", stdin=name.encode())
    planned = day.tidegate(f"mv --dry-run {url}/logs/{yesterday}-*.log {url}/archive/").text
    assert planned.count("copy ") == planned.count("remove ") == 2
    day.tidegate(f"mv {url}/logs/{yesterday}-*.log {url}/archive/")
    assert set(day.held(bucket, "logs/")) == {f"logs/{today}-a.log"}
    assert day.held(bucket, "archive/") == {
        f"archive/{yesterday}-{letter}.log": f"{yesterday}-{letter}.log".encode() for letter in "ab"
    }

    # A link for somebody without an account.
    link = day.tidegate(f"presign {url}/photos/one.jpg --expires 10min").text.strip()
    curl = ["curl", "-sS", "--fail", "--noproxy", "*", link]
    assert subprocess.run(curl, capture_output=True, timeout=20, check=True, env=clean_env()).stdout == b"changed"

    # A dump through a pipe, and a look into its middle.
    dump = os.urandom(12 * MIB + 5)
    day.tidegate(f"cp - {url}/dumps/db.sql", stdin=dump)
    assert day.held(bucket, "dumps/") == {"dumps/db.sql": dump}
    assert day.tidegate(f"cat {url}/dumps/db.sql").out == dump
    assert day.tidegate(f"cat {url}/dumps/db.sql --range 9000000-9000999").out == dump[9_000_000:9_001_000]
    assert str(len(dump)) in day.tidegate(f"stat {url}/dumps/db.sql").text

    # In the evening: what is old or large goes, after a look at what that is.
    assert day.tidegate(f"rm -r {url}/ --older-than 1h --dry-run").text == ""
    planned = day.tidegate(f"rm -r {url}/ --min-size 1MiB --dry-run").text
    assert planned == f"remove {url}/dumps/db.sql\n" and day.held(bucket, "dumps/")
    day.tidegate(f"rm -r {url}/ --min-size 1MiB")
    assert not day.held(bucket, "dumps/") and len(day.held(bucket)) == 6
    day.tidegate(f"rm {url}/archive/*.log")
    assert not day.held(bucket, "archive/")

    # And the bucket, which is not removed while something is in it.
    day.tidegate(f"rb {url}", exit=1)
    assert len(day.held(bucket)) == 4
    day.tidegate(f"rm -r {url}")
    day.tidegate(f"sweep {url}/")
    day.tidegate(f"rb {url}")
    assert bucket not in day.buckets()
