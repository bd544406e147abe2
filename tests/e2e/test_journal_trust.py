"""Files in a journal directory that somebody else may have put there."""

import os
import pwd
import shutil

import pytest

from harness import MIB
from journals import CP, left_behind, listed

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")


@needs_root
def test_another_users_journal_is_shown_refused_and_the_others_go_on(tidegate, embedded_bucket, journal):
    bucket = embedded_bucket
    left_behind(tidegate, bucket, journal, b"a" * MIB)
    [own] = listed(tidegate, journal)
    theirs = journal / "0000000000000000-aaaaaaaa.journal"
    shutil.copy(own["file"], theirs)
    nobody = pwd.getpwnam("nobody")
    os.chown(theirs, nobody.pw_uid, nobody.pw_gid)
    os.mkfifo(journal / "0000000000000000-bbbbbbbb.journal")
    states = {left["id"]: left["state"] for left in listed(tidegate, journal)}
    assert sorted(states.values()) == ["cut", "refused", "refused"], states
    shown = tidegate("journal", "ls", journal)
    assert f"belongs to user {nobody.pw_uid}" in shown.text and "a named pipe" in shown.text, shown
    for command in (("resume", journal), ("verify", journal), ("abort", journal, theirs.stem)):
        run = tidegate("journal", *command, env=bucket.env)
        assert run.exit == 1 and f"belongs to user {nobody.pw_uid}" in run.err, run
    assert theirs.exists()
    # Its name is not that of the upload in it.
    run = tidegate("journal", "ls", journal, "--owner", "nobody", "--json")
    [copied] = [left for left in run.json if left["id"] == theirs.stem]
    assert copied["state"] == "damaged" and "another upload" in copied["problem"], copied
    run = tidegate("cp", "-", bucket.url("k"), *CP, "--journal", journal, stdin=b"a" * MIB + b"b", env=bucket.env)
    assert run.exit == 0, run


@needs_root
def test_owner_names_a_user_whose_journals_are_used(tidegate, embedded_bucket, journal):
    bucket, data = embedded_bucket, b"a" * MIB
    left_behind(tidegate, bucket, journal, data)
    [left] = listed(tidegate, journal)
    os.chown(left["file"], pwd.getpwnam("nobody").pw_uid, -1)
    cp = ("cp", "-", bucket.url("k"), *CP, "--journal", journal, "--json")
    run = tidegate(*cp, "--owner", "nobody", stdin=data + b"b", env=bucket.env)
    assert run.exit == 0 and run.json[0]["bytes"] == len(data) + 1, run
    assert list(journal.iterdir()) == []
    run = tidegate(*cp, "--owner", "no such user", stdin=data, env=bucket.env)
    assert run.exit == 2 and "no user of that name" in run.err, run
