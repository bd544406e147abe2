"""Files in a journal directory that are damaged, of a later version, or no journals."""

import pytest

from harness import MIB
from harness.lines import one_sentence
from journals import left_behind, listed


def without_slots(journal):
    """Of a journal's bytes, both notes of where it begins are bad."""
    return journal[:4096] + bytes(2 * 4096) + journal[3 * 4096 :]


def of_a_later_version(journal):
    """What version 2 may begin with: its number and a checksum of that are where they were."""
    head = journal[:8] + b"\2" + journal[9:32]
    return head + crc32c(head).to_bytes(4, "little") + journal[36:]


def of_another_kind(journal):
    return b"whatever" + journal[8:]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_a_journal_that_is_damaged_or_newer_is_named(tidegate, embedded_bucket, journal):
    # Each write is durable before the next: but for the last one, all of it is known to have been whole.
    left_behind(tidegate, embedded_bucket, journal, b"a" * (4 * MIB), options=("--durability", "write"))
    [file] = journal.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:21_000] + bytes([whole[21_000] ^ 1]) + whole[21_001:])
    run = tidegate("journal", "verify", journal)
    assert run.exit == 1 and str(file) in run.err and "damaged" in run.err, run
    file.write_bytes(without_slots(whole))
    [left] = listed(tidegate, journal)
    assert left["state"] == "damaged" and "damaged at byte" in left["problem"] and "url" not in left, left
    run = tidegate("journal", "show", journal, left["id"])
    one_sentence(run, file, "damaged", exit=1)
    newer = of_a_later_version(whole)
    file.write_bytes(newer)
    run = tidegate("journal", "ls", journal)
    assert run.exit == 0 and file.name.removesuffix(".journal") in run.text, run
    [left] = listed(tidegate, journal)
    assert left["state"] == "newer" and "version 2" in left["problem"], left
    run = tidegate("journal", "resume", journal, env=embedded_bucket.env)
    assert run.exit == 1 and str(file) in run.err and "version 2" in run.err, run
    assert file.read_bytes() == newer
    file.write_bytes(b"no journal" * 10_000)
    [left] = listed(tidegate, journal)
    assert left["state"] == "unreadable" and "is not a journal" in left["problem"], left


@pytest.mark.parametrize("how", [without_slots, of_a_later_version, of_another_kind])
def test_a_journal_that_can_not_be_read_can_be_forgotten(tidegate, embedded_bucket, journal, how):
    left_behind(tidegate, embedded_bucket, journal, b"a" * MIB)
    [file] = journal.iterdir()
    bad = how(file.read_bytes())
    file.write_bytes(bad)
    run = tidegate("journal", "abort", journal, "--all", env=embedded_bucket.env)
    assert run.exit == 1 and str(file) in run.err, run
    assert file.read_bytes() == bad
    run = tidegate("journal", "abort", journal, "--all", "--forget", env=embedded_bucket.env)
    assert run.exit == 0 and "ended 1 upload" in run.text, run
    assert list(journal.iterdir()) == []
