"""`--create-only`: an object that is there stays as it is, however late it appeared."""

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.lines import one_sentence
from harness.process import until

PART = 5 * MIB


@pytest.mark.parametrize("size", [10, 2 * PART + 1])
def test_the_second_writer_fails_and_changes_nothing(tidegate, any_bucket, make_file, size):
    path, digest = make_file(size)
    options = ("--create-only", "--part-size", "5MiB", "--progress", "never")
    first = tidegate("cp", path, any_bucket.url("once"), *options, "--json", env=any_bucket.env)
    assert first.exit == 0, first
    assert any_bucket.sha256("once") == digest

    other, _ = make_file(size + 5)
    second = tidegate("cp", other, any_bucket.url("once"), *options, env=any_bucket.env)
    one_sentence(second, any_bucket.url("once"), "exist", exit=1)
    assert any_bucket.sha256("once") == digest
    assert any_bucket.sessions("once") == []


def test_an_object_that_appears_during_the_upload_is_kept(tidegate, any_bucket):
    with open_pipe() as pipe:
        options = ("--create-only", "--part-size", "5MiB", "--progress", "never")
        run = tidegate.start("cp", "-", any_bucket.url("raced"), *options, stdin=pipe.stdin, env=any_bucket.env)
        pipe.started()
        pipe.send(b"a" * (2 * PART))
        until("the upload has stored a part", lambda: any_bucket.parts("raced") >= 1)
        any_bucket.put("raced", b"the winner")
        pipe.send(b"a" * 10)
        pipe.end()
        result = run.wait()
    one_sentence(result, any_bucket.url("raced"), "exist", exit=1)
    assert any_bucket.get("raced") == b"the winner"
    assert any_bucket.sessions("raced") == []
