"""`gs://` at default options on an emulator without uploads in parts: the embedded server, answering as fake-gcs-server."""

import pytest

from harness import MIB
from harness.lines import one_sentence

QUIET = ("--progress", "never")
REFUSED = "CreateMultipartUpload"


@pytest.fixture
def emulator(embedded, embedded_bucket, knobs):
    knobs(fake_gcs_server=True)
    return {"STORAGE_EMULATOR_HOST": embedded.address}


def appended(count):
    return {"storage.resumable.start": 1, "storage.resumable.append": count}


@pytest.mark.parametrize("from_pipe", [False, True], ids=["file", "pipe"])
def test_a_large_object_goes_through_a_resumable_upload(
    tidegate, emulator, embedded_bucket, counts, make_file, from_pipe
):
    # More than five parts of 16 MiB, the last of them no multiple of what may be appended.
    path, digest = make_file(82 * MIB + 77)
    url = f"gs://{embedded_bucket.name}/k"
    counts.reset()
    if from_pipe:
        with open(path, "rb") as source:
            run = tidegate("cp", "-", url, "-v", *QUIET, stdin=source, env=emulator)
    else:
        run = tidegate("cp", path, url, "-v", *QUIET, env=emulator)
    assert run.exit == 0, run
    assert "no uploads in parts" in run.err and "does not tell" in run.err, run
    assert counts() == {REFUSED: 1, **appended(6)}
    assert embedded_bucket.sha256("k") == digest


def test_many_objects_ask_once(tidegate, emulator, embedded_bucket, counts, make_file):
    path, digest = make_file(17 * MIB)
    keys = [f"gs://{embedded_bucket.name}/t/{name}" for name in range(4)]
    counts.reset()
    # One after the other, in one process.
    commands = "".join(f"cp {path} {key}\n" for key in keys)
    run = tidegate("run", "-", "--parallel", "1", stdin=commands.encode(), env=emulator)
    assert run.exit == 0, run
    # The first object was to go in four parts; the others are cut for what the server has.
    assert counts() == {REFUSED: 1, "storage.resumable.start": 4, "storage.resumable.append": 4 + 3 * 2}
    assert {embedded_bucket.sha256(f"t/{name}") for name in range(4)} == {digest}


def test_create_only_holds(tidegate, emulator, embedded_bucket, make_file):
    path, digest = make_file(17 * MIB)
    url = f"gs://{embedded_bucket.name}/k"
    assert tidegate("cp", path, url, "--create-only", *QUIET, env=emulator).exit == 0
    run = tidegate("cp", path, url, "--create-only", *QUIET, env=emulator)
    one_sentence(run, url, "exist", exit=1)
    assert embedded_bucket.sha256("k") == digest


def test_a_journal_sends_whole_chunks(tidegate, emulator, embedded_bucket, counts, make_file, tmp_path):
    path, digest = make_file(82 * MIB + 77)
    journal = tmp_path / "journal"
    journal.mkdir()
    counts.reset()
    options = ("--journal", journal, *QUIET)
    run = tidegate("cp", path, f"gs://{embedded_bucket.name}/k", *options, env=emulator)
    assert run.exit == 0, run
    assert "storage.resumable.query" not in counts(), "a question publishes what is there"
    assert embedded_bucket.sha256("k") == digest
    assert list(journal.iterdir()) == []
