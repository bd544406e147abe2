"""--preserve: files keep their modification time and their permissions in the metadata of objects, as rclone, s3cmd and s3fs
write them."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from harness import MIB, TOOLS
from harness.process import until
from harness.s3 import REGION, Bucket
from test_download_resume import noted

QUIET = ("--progress", "never")
TIME = 1_000_000_000_123_456_789
WHOLE = 1_000_000_000_000_000_000
FILES = {"a": (10, 0o640, TIME), "b/empty": (0, 0o755, WHOLE), "b/large": (9 * MIB, 0o602, TIME + 1)}


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for name, (size, mode, time) in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        path.chmod(mode)
        os.utime(path, ns=(time, time))
    return root


def facts(root):
    """Size, permissions and time of the files below a directory."""
    found = {path: path.stat() for path in sorted(root.rglob("*")) if path.is_file()}
    return {str(path.relative_to(root)): (s.st_size, s.st_mode & 0o7777, s.st_mtime_ns) for path, s in found.items()}


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_a_tree_goes_up_and_comes_down_as_it_was(tidegate, on, tree, tmp_path, command):
    args = ["-r"] if command == "cp" else []
    run = tidegate(command, *args, "--preserve", f"{tree}/", on.url("t/"), *QUIET, env=on.env)
    assert run.exit == 0 and run.err == "", run
    kept = on.head("t/a")["Metadata"]
    assert (kept["mtime"], kept["mode"]) == ("1000000000.123456789", "100640")
    assert on.head("t/b/empty")["Metadata"]["mtime"] == "1000000000"
    # The store carries them to its copies.
    assert tidegate("cp", "-r", on.url("t/"), on.url("u/"), *QUIET, env=on.env).exit == 0
    run = tidegate(command, *args, "--preserve", on.url("u/"), f"{tmp_path}/down/", *QUIET, env=on.env)
    assert run.exit == 0 and run.err == "", run
    assert facts(tmp_path / "down") == FILES
    run = tidegate(command, *args, on.url("u/"), f"{tmp_path}/plain/", *QUIET, env=on.env)
    assert run.exit == 0 and "left out: metadata (3 objects)" in run.err, run
    assert all(time > TIME + 10**9 for _, _, time in facts(tmp_path / "plain").values())


def test_an_unchanged_tree_takes_one_request_an_object(tidegate, embedded_bucket, counts, tree, tmp_path):
    on, down = embedded_bucket, tmp_path / "down"
    assert tidegate("sync", "--preserve", tree, on.url("t"), env=on.env).exit == 0
    assert tidegate("sync", "--preserve", on.url("t"), down, env=on.env).exit == 0
    counts.reset()
    run = tidegate("sync", "--preserve", on.url("t"), down, env=on.env)
    assert run.exit == 0 and run.err == "3 objects unchanged\n", run
    assert counts() == {"ListObjectsV2": 1, "HeadObject": 3}
    run = tidegate("check", "--preserve", on.url("t"), down, env=on.env)
    assert run.exit == 0 and "no difference" in run.err, run
    assert tidegate("check", on.url("t"), down, env=on.env).text.count("newer") == 3
    # A file with another time is no longer that of the object.
    os.utime(down / "a", ns=(TIME, TIME - 1))
    assert tidegate("check", "--preserve", on.url("t"), down, env=on.env).text.split() == ["newer", "a"]
    run = tidegate("sync", "--preserve", on.url("t"), down, env=on.env)
    assert run.exit == 0 and "2 objects unchanged" in run.err and facts(down) == FILES, run
    # Upwards the listings tell.
    counts.reset()
    run = tidegate("sync", "--preserve", tree, on.url("t"), env=on.env)
    assert run.err == "3 objects unchanged\n" and counts() == {"ListObjectsV2": 1}, run


def test_without_a_time_in_the_metadata(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    on.put("t/plain", b"1")
    on.put("t/odd", b"1", Metadata={"mtime": "yesterday", "mode": "40755"})
    run = tidegate("sync", "--preserve", on.url("t"), tmp_path / "sync", *QUIET, env=on.env)
    assert run.exit == 0 and run.err.count("\n") == 1, run
    assert "warning: --preserve ignored 2 values in the metadata" in run.err, run
    listed = on.client.list_objects_v2(Bucket=on.name)["Contents"]
    for entry in listed:
        assert int((tmp_path / "sync" / entry["Key"][2:]).stat().st_mtime) == int(entry["LastModified"].timestamp())
    assert tidegate("sync", "--preserve", on.url("t"), tmp_path / "sync", env=on.env).err == "2 objects unchanged\n"


def test_the_users_metadata_wins(tidegate, embedded_bucket, tree):
    on = embedded_bucket
    run = tidegate("cp", "--preserve", "--metadata", "mtime=5", tree / "a", on.url("k"), *QUIET, env=on.env)
    assert run.exit == 0, run
    kept = on.head("k")["Metadata"]
    assert (kept["mtime"], kept["mode"]) == ("5", "100640")


def test_a_journaled_upload_keeps_them(tidegate, embedded_bucket, tree, journal):
    on = embedded_bucket
    run = tidegate("cp", "--preserve", "--journal", journal, tree / "b/large", on.url("k"), *QUIET, env=on.env)
    assert run.exit == 0, run
    kept = on.head("k")["Metadata"]
    assert (kept["mtime"], kept["mode"]) == ("1000000000.12345679", "100602")


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_from_disk_to_disk(tidegate, tree, tmp_path, command):
    args = ["-r"] if command == "cp" else []
    run = tidegate(command, *args, "--preserve", f"{tree}/", f"{tmp_path}/copy/", *QUIET)
    assert run.exit == 0 and run.err == "" and facts(tmp_path / "copy") == FILES, run
    assert tidegate("cp", "--preserve", tree / "a", tmp_path / "one", *QUIET).exit == 0
    assert (tmp_path / "one").stat().st_mtime_ns == TIME
    assert tidegate("sync", "--preserve", tree, tmp_path / "copy").err == "3 objects unchanged\n"


def test_a_resumed_download_has_them(tidegate, minio, proxy_to, make_file, tmp_path):
    proxy = proxy_to(minio.address)
    proxy.bandwidth(8_000_000, "downstream")
    bucket = Bucket(minio.endpoint)
    path, _ = make_file(40 * MIB)
    bucket.put("k", path.read_bytes(), Metadata={"mtime": "1000000000.5", "mode": "100604"})
    folder = tmp_path / "to"
    folder.mkdir()
    args = ("cp", "--preserve", bucket.url("k"), folder / "out", *QUIET)
    run = tidegate.start(*args, "--concurrency", "2", env=minio.endpoint.at(proxy.url).env)
    until("a chunk is there", lambda: noted(folder) >= 1, 30)
    os.kill(run.pid, signal.SIGKILL)
    run.wait(10)
    assert tidegate(*args, env=bucket.env).exit == 0
    assert facts(folder) == {"out": (40 * MIB, 0o604, 1_000_000_000_500_000_000)}


def test_google_has_them(tidegate, google_bucket, tree, tmp_path):
    google = google_bucket
    for args in [(tree, google.url("t")), (google.url("t"), tmp_path / "down")]:
        run = tidegate("sync", "--preserve", *args, *google.options, *QUIET, env=google.env)
        assert run.exit == 0, run
    assert facts(tmp_path / "down") == FILES
    run = tidegate("sync", "--preserve", google.url("t"), tmp_path / "down", *google.options, env=google.env)
    assert run.err == "3 objects unchanged\n", run


@pytest.fixture
def rclone(minio, tmp_path):
    config = tmp_path / "rclone.conf"
    endpoint = minio.endpoint
    config.write_text(
        f"[s3]\ntype = s3\nprovider = Minio\naccess_key_id = {endpoint.access_key}\n"
        f"secret_access_key = {endpoint.secret_key}\nregion = {REGION}\nendpoint = {endpoint.url}\n"
    )

    def run(*args):
        command = [TOOLS / "rclone", "--config", config, *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr

    return run


def test_rclone_and_we_understand_each_other(tidegate, bucket, rclone, tree, tmp_path):
    rclone("copy", "--metadata", str(tree), f"s3:{bucket.name}/theirs")
    kept = bucket.head("theirs/a")["Metadata"]
    assert re.fullmatch(r"100640", kept["mode"]) and kept["mtime"] == "1000000000.123456789", kept
    run = tidegate("cp", "-r", "--preserve", bucket.url("theirs/"), f"{tmp_path}/ours/", *QUIET, env=bucket.env)
    assert run.exit == 0 and facts(tmp_path / "ours") == FILES, run
    assert tidegate("sync", "--preserve", tree, bucket.url("u"), *QUIET, env=bucket.env).exit == 0
    rclone("copy", "--metadata", f"s3:{bucket.name}/u", str(tmp_path / "back"))
    assert facts(tmp_path / "back") == FILES


def test_metadata_of_other_tools(tidegate, embedded_bucket, tmp_path):
    on = embedded_bucket
    s3cmd = "atime:1500000001/ctime:1500000002/gid:0/gname:root/mode:33188/mtime:1500000000/uid:0/uname:root"
    on.put("t/s3cmd", b"1", Metadata={"s3cmd-attrs": s3cmd})
    on.put("t/s3fs", b"1", Metadata={"mode": "33152", "mtime": "1500000000", "uid": "0"})
    assert tidegate("cp", "-r", "--preserve", on.url("t/"), f"{tmp_path}/d/", *QUIET, env=on.env).exit == 0
    time = 1_500_000_000_000_000_000
    assert facts(tmp_path / "d") == {"s3cmd": (1, 0o644, time), "s3fs": (1, 0o600, time)}
    shutil.rmtree(tmp_path / "d")
