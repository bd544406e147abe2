"""Keys that are spread over prefixes: `prefix` and `--prefixed`, seen from the store's side by boto3."""

import hashlib
import zlib

import pytest

from harness import MIB
from harness.feed import open_pipe
from harness.lines import one_sentence
from harness.process import until

CP = ("--progress", "never")


def place(key, count):
    """Where docs/PREFIXES.md has a key: the first bits of its SHA-256."""
    bits = "".join(f"{byte:08b}" for byte in hashlib.sha256(key.encode()).digest())
    return f"{bits[: max(count.bit_length() - 1, 1)]}/{key}"


def keys(bucket, prefix=""):
    pages = bucket.client.get_paginator("list_objects_v2").paginate(Bucket=bucket.name, Prefix=prefix)
    return sorted(found["Key"] for page in pages for found in page.get("Contents", ()))


@pytest.fixture
def root(tidegate, any_bucket):
    """A root of 16 prefixes, and how the program is told of it."""
    run = tidegate("prefix", "init", any_bucket.url("tables"), "--count", "16", "--json", env=any_bucket.env)
    assert run.exit == 0, run
    assert run.json == [{"type": "layout", "url": any_bucket.url("tables"), "naming": "base2", "count": 16}], run
    return any_bucket


def test_objects_are_where_the_document_has_them(tidegate, root, tmp_path):
    spread = ("--prefixed", root.url("tables"))
    for number in range(20):
        (tmp_path / f"part-{number}").write_text(f"bytes of {number}")
    run = tidegate("cp", "-r", f"{tmp_path}/", root.url("tables/t/"), *spread, *CP, env=root.env)
    assert run.exit == 0, run
    names = sorted(f"t/part-{number}" for number in range(20))
    expected = sorted(f"tables/{place(name, 16)}" for name in names)
    assert [key for key in keys(root) if ".tidegate-prefixes/" not in key] == expected
    assert len({key.split("/")[1] for key in expected}) > 5

    listed = tidegate("ls", "-r", root.url("tables/t/"), "--json", *spread, env=root.env)
    assert [line["url"] for line in listed.json] == [root.url(f"tables/{name}") for name in names], listed
    above = tidegate("ls", root.url("tables/"), "--json", *spread, env=root.env)
    assert [line["url"] for line in above.json] == [root.url("tables/t/")], above
    shown = tidegate("prefix", "show", root.url("tables"), "t/part-7", env=root.env)
    assert shown.text.strip() == root.url(f"tables/{place('t/part-7', 16)}"), shown

    cat = tidegate("cat", root.url("tables/t/part-7"), "--range", "9-", *spread, env=root.env)
    assert (cat.exit, cat.text) == (0, "7"), cat
    stat = tidegate("stat", root.url("tables/t/part-7"), "--json", *spread, env=root.env)
    assert (stat.json[0]["url"], stat.json[0]["size"]) == (root.url("tables/t/part-7"), 10), stat
    back = tmp_path / "back"
    run = tidegate("cp", "-r", root.url("tables/t/"), f"{back}/", *spread, *CP, env=root.env)
    assert run.exit == 0 and len(list(back.iterdir())) == 20, run

    again = tidegate(
        "cp", tmp_path / "part-0", root.url("tables/t/part-0"), "--create-only", *spread, *CP, env=root.env
    )
    one_sentence(again, "t/part-0", "object", exit=1)
    run = tidegate("rm", root.url("tables/t/part-0"), *spread, env=root.env)
    assert run.exit == 0 and f"tables/{place('t/part-0', 16)}" not in keys(root), run
    run = tidegate("rm", "-r", root.url("tables/t"), *spread, env=root.env)
    assert run.exit == 0 and "removed 19 objects" in run.err, run
    assert all(".tidegate-prefixes/" in key for key in keys(root))


def test_another_count_is_migrated_to(tidegate, root, tmp_path):
    url, env = root.url("tables"), root.env
    big = tmp_path / "big"
    big.write_bytes(b"0123456789abcdef" * (11 * MIB // 16))
    run = tidegate(
        "cp", big, f"{url}/big", "--prefixed", url, "--part-size", "5MiB", "--metadata", "who=me", *CP, env=env
    )
    assert run.exit == 0, run
    for name in ("a", "b", "c"):
        run = tidegate("cp", "-", f"{url}/{name}", "--prefixed", url, *CP, stdin=name.encode(), env=env)
        assert run.exit == 0, run
    changed = tidegate("prefix", "migrate", url, "--count", "64", "--later", "--json", env=env)
    assert changed.exit == 0 and changed.json[0]["older"] == {"naming": "base2", "count": 16}, changed
    refused = tidegate("prefix", "migrate", url, "--count", "4", "--later", env=env)
    one_sentence(refused, "run `tidegate prefix migrate` first", exit=(1, 2))

    # Under both layouts: read, overwritten, removed, and not made a second time.
    assert tidegate("cat", f"{url}/a", "--prefixed", url, env=env).text == "a"
    taken = tidegate("cp", "-", f"{url}/a", "--create-only", "--prefixed", url, *CP, stdin=b"x", env=env)
    assert taken.exit == 1, taken
    assert tidegate("cp", "-", f"{url}/b", "--prefixed", url, *CP, stdin=b"new", env=env).exit == 0
    assert tidegate("rm", f"{url}/c", "--prefixed", url, env=env).exit == 0
    listed = tidegate("ls", "-r", url, "--json", "--prefixed", url, env=env)
    assert [(line["url"], line["size"]) for line in listed.json] == [
        (f"{url}/a", 1),
        (f"{url}/b", 3),
        (f"{url}/big", big.stat().st_size),
    ], listed

    done = tidegate("prefix", "migrate", url, "--now", "--json", env=env)
    assert done.exit == 0, done
    line = done.json[0]
    assert (line["count"], line.get("older"), line["moved"], line["removed"]) == (64, None, 2, 3), done
    left = [key for key in keys(root) if ".tidegate-prefixes/" not in key]
    assert left == sorted(f"tables/{place(name, 64)}" for name in ("a", "b", "big"))
    assert root.get(f"tables/{place('b', 64)}") == b"new"
    assert root.get(f"tables/{place('big', 64)}") == big.read_bytes()
    moved = root.client.head_object(Bucket=root.name, Key=f"tables/{place('big', 64)}")
    assert moved["Metadata"]["who"] == "me"
    nothing = tidegate("prefix", "migrate", url, env=env)
    assert nothing.exit == 0 and "moved 0 objects" in nothing.text, nothing


def test_data_that_is_spread_already_is_taken_over(tidegate, embedded_bucket):
    url, env = embedded_bucket.url("hummock"), embedded_bucket.env
    for number in (1, 101, 4711):
        name = zlib.crc32(number.to_bytes(8, "big")) % 256
        embedded_bucket.put(f"hummock/{name}/{number}.data", str(number).encode())
    run = tidegate("prefix", "init", url, "--count", "256", "--naming", "decimal-id", env=env)
    assert run.exit == 0, run
    assert tidegate("cat", f"{url}/4711.data", "--prefixed", url, env=env).text == "4711"
    listed = tidegate("ls", "-r", url, "--json", "--prefixed", url, env=env)
    assert [line["url"] for line in listed.json] == [f"{url}/{key}" for key in ("1.data", "101.data", "4711.data")], (
        listed
    )


def test_what_can_not_be_meant_is_refused(tidegate, root):
    url, env = root.url("tables"), root.env
    for arguments, code, said in (
        (("prefix", "init", url, "--count", "12"), 2, "8 or 16"),
        (("prefix", "init", url, "--count", "32"), 2, "16 prefixes"),
        (("prefix", "init", "somewhere/", "--count", "4"), 2, "directory"),
        (("prefix", "show", root.url("other")), 3, "prefix init"),
        (("cat", root.url("other/a"), "--prefixed", url), 2, "below"),
        (("cat", f"{url}/none", "--prefixed", url), 3, f"{url}/none"),
        (("stat", root.url("other/x"), "--prefixed", root.url("other")), 3, "prefix init"),
    ):
        run = tidegate(*arguments, env=env)
        one_sentence(run, said, exit=code)
    same = tidegate("prefix", "init", url, "--count", "16", env=env)
    assert same.exit == 0, same
    root.put("tables/.tidegate-prefixes/00000002.json", b'{"format":2}')
    newer = tidegate("cat", f"{url}/a", "--prefixed", url, env=env)
    one_sentence(newer, "use a newer one", exit=1)


def test_a_journal_goes_on_where_its_upload_began(tidegate, root, tmp_path):
    url, env, journals = root.url("tables"), root.env, tmp_path / "journals"
    journals.mkdir()
    journaled = (f"{url}/big", "--prefixed", url, "--journal", journals, "--part-size", "5MiB", *CP)
    with open_pipe() as pipe:
        run = tidegate.start("cp", "-", *journaled, stdin=pipe.stdin, env=env)
        pipe.started()
        pipe.send(b"a" * (11 * MIB))
        until("a part is stored", lambda: root.parts(f"tables/{place('big', 16)}") >= 1)
        run.killed()
    again = tidegate("cp", "-", *journaled, stdin=b"a" * (11 * MIB) + b"b", env=env)
    assert again.exit == 0, again
    assert root.get(f"tables/{place('big', 16)}") == b"a" * (11 * MIB) + b"b"
    assert list(journals.iterdir()) == []
