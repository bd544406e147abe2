"""The embedded server under s5cmd and rclone, as people use them."""

import os
import subprocess

import pytest

from harness import TOOLS

MIB = 1 << 20


def run(server, *command):
    done = subprocess.run(command, env=server.env(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture
def s5cmd(server):
    return lambda *command: run(server, TOOLS / "s5cmd", "--endpoint-url", server.url, *command)


@pytest.fixture
def rclone(server, tmp_path):
    config = tmp_path / "rclone.conf"
    config.write_text(
        "[dev]\ntype = s3\nprovider = Other\naccess_key_id = tidegate\nsecret_access_key = tidegate\n"
        f"region = us-east-1\nendpoint = {server.url}\nforce_path_style = true\n"
    )
    return lambda *command: run(server, TOOLS / "rclone", "--config", config, "--retries", "1", *command)


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    for path, size in {"a.bin": 12 * MIB + 5, "b/c 1.txt": 10, "b/d.txt": 0, "ü/e.bin": MIB}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(os.urandom(size))
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_s5cmd(server, s3, name, s5cmd, tree, tmp_path):
    s5cmd("cp", "--part-size", "5", f"{tree}/", f"s3://{name}/t/")
    assert server.counts()["requests"]["CompleteMultipartUpload"] == 1
    listed = s5cmd("ls", f"s3://{name}/t/*")
    assert len(listed.splitlines()) == 4 and "b/c 1.txt" in listed
    s5cmd("cp", f"s3://{name}/t/*", str(tmp_path / "back"))
    assert contents(tmp_path / "back") == contents(tree)
    s5cmd("cp", f"s3://{name}/t/a.bin", f"s3://{name}/copy.bin")
    assert "0 B" not in s5cmd("du", f"s3://{name}/*")
    s5cmd("sync", f"{tree}/", f"s3://{name}/t/")
    s5cmd("rm", f"s3://{name}/*")
    s5cmd("rb", f"s3://{name}")


def test_rclone(server, name, rclone, tree, tmp_path):
    small = ["--s3-chunk-size", "5Mi", "--s3-upload-cutoff", "5Mi"]
    rclone("copy", *small, str(tree), f"dev:{name}/t")
    rclone("check", "--download", str(tree), f"dev:{name}/t")
    # Sizes and hashes as rclone sees them: it must not take our ETags for MD5s.
    rclone("check", str(tree), f"dev:{name}/t")
    before = server.counts()["requests"]
    rclone("sync", *small, str(tree), f"dev:{name}/t")
    after = server.counts()["requests"]
    assert after["PutObject"] == before["PutObject"], "nothing had changed"
    rclone("copy", f"dev:{name}/t", str(tmp_path / "back"))
    assert contents(tmp_path / "back") == contents(tree)
    rclone("copyto", f"dev:{name}/t/a.bin", f"dev:{name}/copy.bin")
    piped = subprocess.run(
        [TOOLS / "rclone", "--config", tmp_path / "rclone.conf", "rcat", *small, f"dev:{name}/piped"],
        input=b"x" * (11 * MIB),
        env=server.env(),
        capture_output=True,
        timeout=120,
    )
    assert piped.returncode == 0, piped.stderr
    assert rclone("cat", f"dev:{name}/piped") == "x" * (11 * MIB)
    rclone("purge", f"dev:{name}")
