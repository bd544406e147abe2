"""`cp --journal`: the directories and disks that journals are in, and directories that are copied through them."""

import os

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.lines import one_sentence
from harness.process import until
from harness.s3 import Bucket
from journals import CP, PART, listed


def test_bad_directories_are_named(tidegate, embedded_bucket, journal, make_file):
    path, _ = make_file(100)
    cp = ("cp", path, embedded_bucket.url("k"))
    one_sentence(tidegate(*cp, "--journal", "/nowhere/at/all", env=embedded_bucket.env), "/nowhere/at/all", exit=2)
    one_sentence(tidegate(*cp, "--journal", path, env=embedded_bucket.env), path, exit=2)
    one_sentence(tidegate(*cp, "--strategy", "journal", env=embedded_bucket.env), "--journal", exit=2)
    one_sentence(tidegate(*cp, "--strategy", "put", "--journal", journal, env=embedded_bucket.env), "--journal", exit=2)
    one_sentence(tidegate("journal", "ls", "/nowhere/at/all"), "/nowhere/at/all", exit=3)
    copy = tidegate(
        "cp", embedded_bucket.url("a"), embedded_bucket.url("k"), "--journal", journal, env=embedded_bucket.env
    )
    one_sentence(copy, "--journal", exit=2)
    embedded_bucket.assert_untouched("k")


def test_a_journal_directory_is_not_copied_through_itself(tidegate, embedded_bucket, tmp_path):
    source = tmp_path / "source"
    journal = source / "journal"
    journal.mkdir(parents=True)
    (source / "file").write_bytes(b"x")
    for copied in (source, journal):
        run = tidegate("cp", "-r", copied, embedded_bucket.url("d/"), "--journal", journal, env=embedded_bucket.env)
        one_sentence(run, "--journal", journal, "which is to be copied", exit=2)
    embedded_bucket.assert_untouched("d/file")


def test_a_link_to_it_is_not_entered(tidegate, embedded_bucket, journal, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    link = source / "link"
    link.symlink_to(journal)
    cp = ("cp", "-r", source, embedded_bucket.url("d/"), "--journal", journal)
    assert tidegate(*cp, env=embedded_bucket.env).exit == 0
    assert embedded_bucket.keys() == []
    link.unlink()
    (source / "file").write_bytes(b"x")
    assert tidegate(*cp, env=embedded_bucket.env).exit == 0
    assert embedded_bucket.keys() == ["d/source/file"]


def test_a_directory_that_was_killed_goes_on(tidegate, embedded, embedded_bucket, journal, tmp_path, proxy_to):
    proxy = proxy_to(embedded.address)
    proxy.latency(150)
    env = embedded.endpoint.at(proxy.url).env
    source = tmp_path / "source"
    source.mkdir()
    for number in range(60):
        (source / f"{number}").write_bytes(os.urandom(number * 20_000))
    cp = ("cp", "-r", f"{source}/", embedded_bucket.url("d/"), *CP, "--journal", journal)
    run = tidegate.start(*cp, env=env)
    until("some are in journals", lambda: len(list(journal.glob("*.journal"))) >= 20)
    run.killed()
    run = tidegate(*cp, env=env)
    assert run.exit == 0, run
    for file in source.iterdir():
        assert embedded_bucket.get(f"d/{file.name}") == file.read_bytes(), file
    assert [file.name for file in journal.iterdir() if not file.name.endswith(".unborn")] == []


def test_a_directory_sees_a_journal_that_is_begun_meanwhile(
    tidegate, embedded, embedded_bucket, journal, tmp_path, proxy_to
):
    proxy = proxy_to(embedded.address)
    proxy.latency(1500)
    env = embedded.endpoint.at(proxy.url).env
    source = tmp_path / "source"
    source.mkdir()
    for number in range(70):
        (source / f"{number}").write_bytes(b"theirs")
    # 64 are in flight at once, in the order of their names; this one waits for its turn.
    last = max(entry.name for entry in os.scandir(source))
    cp = (*CP, "--journal", journal)
    tree = tidegate.start("cp", "-r", f"{source}/", embedded_bucket.url("d/"), *cp, env=env)
    until("some are in journals", lambda: len(list(journal.glob("*.journal"))) >= 30)
    with open_pipe() as pipe:
        one = tidegate.start("cp", "-", embedded_bucket.url(f"d/{last}"), *cp, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(b"ours")
        pipe.join()
        result = tree.wait(60)
        assert result.exit == 1 and "1 of 70 objects" in result.err, result
        assert "another process writes this object" in result.err and f"process {one.pid}" in result.err, result
        pipe.end()
        assert one.wait(30).exit == 0
    assert embedded_bucket.get(f"d/{last}") == b"ours"
    assert [file.name for file in journal.iterdir() if not file.name.endswith(".unborn")] == []


def test_a_file_that_changes_while_it_is_read_is_not_published(
    tidegate, embedded, embedded_bucket, make_file, mounted, proxy_to
):
    path, _ = make_file(16 * PART)
    folder = mounted("size=32M")
    proxy = proxy_to(embedded.address)
    proxy.bandwidth(20_000_000)
    env = embedded.endpoint.at(proxy.url).env
    # The disk holds the reader up until the store has taken some of it.
    with open(path, "r+b") as source:
        run = tidegate.start(
            "cp", path, embedded_bucket.url("k"), *CP, "--journal", folder, "--concurrency", "1", env=env
        )
        # A new journal is renamed meanwhile.
        until(
            "it is being read",
            lambda: any(f.stat().st_size > MIB for f in folder.iterdir() if f.suffix != ".unborn"),
        )
        source.seek(0)
        source.write(b"other bytes")
        source.flush()
        os.fsync(source.fileno())
    result = run.wait(60)
    one_sentence(result, path, "changed", "nothing was published", exit=1)
    assert not embedded_bucket.exists("k")
    [left] = listed(tidegate, folder)
    assert left["state"] == "cut", left


def test_a_disk_that_can_not_be_written_is_named(tidegate, embedded_bucket, mounted, make_file):
    path, _ = make_file(100)
    folder = mounted("size=1M,ro")
    run = tidegate("cp", path, embedded_bucket.url("k"), "--journal", folder, env=embedded_bucket.env)
    one_sentence(run, folder, "read-only", exit=4)
    embedded_bucket.assert_untouched("k")


def test_an_object_larger_than_the_journal_s_disk_goes_through_it(tidegate, embedded_bucket, mounted, make_file):
    path, digest = make_file(40 * PART + 12345)
    folder = mounted("size=48M")
    run = tidegate(
        "cp", path, embedded_bucket.url("k"), *CP, "--journal", folder, "--concurrency", "2", env=embedded_bucket.env
    )
    assert run.exit == 0, run
    assert embedded_bucket.sha256("k") == digest
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("size", ["48M", "12M"])
def test_an_object_larger_than_the_journal_s_disk_goes_through_it_to_a_resumable_upload(
    tidegate, google_bucket, google_counts, mounted, make_file, size
):
    counts = google_counts
    path, digest = make_file(40 * PART + 12345)
    folder = mounted(f"size={size}")
    run = tidegate(
        "cp",
        path,
        google_bucket.url("k"),
        *CP,
        *google_bucket.options,
        "--journal",
        folder,
        env=google_bucket.env,
        timeout=120,
    )
    assert run.exit == 0, run
    assert google_bucket.sha256("k") == digest
    assert list(folder.iterdir()) == []
    assert counts()["storage.resumable.start"] == 1, counts()


def test_a_full_disk_and_a_store_that_is_down_are_an_error_and_nothing_is_lost(
    tidegate, embedded, journal, mounted, proxy_to, make_file
):
    bucket = Bucket(embedded.endpoint)
    path, digest = make_file(8 * PART + 12345)
    folder = mounted("size=16M")
    proxy = proxy_to(embedded.address)
    proxy.cut()
    env = embedded.endpoint.at(proxy.url).env
    cp = ("cp", path, bucket.url("k"), *CP, "--journal", folder)
    # The disk is waited for, for a minute.
    run = tidegate(*cp, "--attempts", "2", env=env, timeout=120)
    one_sentence(run, folder, "no space", "tidegate journal", exit=1)
    assert run.seconds > 55, run
    proxy.mend()
    run = tidegate(*cp, env=env)
    assert run.exit == 0, run
    assert bucket.sha256("k") == digest
    assert list(folder.iterdir()) == []
