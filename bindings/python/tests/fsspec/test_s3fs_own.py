"""s3fs's own tests on Tidegate's class. They come with s3fs's source distribution, and take up to half an hour:

    pip download --no-deps --no-binary :all: s3fs==2026.9.0 && tar -xzf s3fs-2026.9.0.tar.gz
    S3FS_TESTS=$PWD/s3fs-2026.9.0/s3fs/tests python -m pytest tests/fsspec/test_s3fs_own.py

`s3fs_own.json` has each test that fails, with the reason. "OPEN" begins the reason of those that nobody has judged yet."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from harness.command import clean_env
from harness.process import Server, free_port
from harness.servers import answers

HERE = Path(__file__).parent
FAILS = json.loads((HERE / "s3fs_own.json").read_text())
#: On a busy machine they fail, elsewhere they pass.
SLOW = {name for name, why in FAILS.items() if why.startswith("moto was too slow")}


@pytest.mark.skipif("S3FS_TESTS" not in os.environ, reason="S3FS_TESTS does not name the folder of s3fs's tests")
def test_s3fs(tmp_path):
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    server = Server("moto", command, tmp_path / "moto.log")
    url, report = f"http://127.0.0.1:{port}/", tmp_path / "report.xml"
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(HERE)]),
        "S3FS_TESTS": os.environ["S3FS_TESTS"],
        "S3FS_URL": url,
        "AWS_ACCESS_KEY_ID": "user",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        server.wait_ready(lambda: answers(f"{url}moto-api/"), timeout=60)
        run = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "--pyargs", "s3fs.tests.test_s3fs", "-p", "s3fs_swapped", "-q"),
                *("-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", f"--junitxml={report}"),
            ],
            cwd=tmp_path,
            env=clean_env(environment),
            capture_output=True,
            text=True,
            timeout=3600,
        )
    finally:
        server.stop()
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None}
    assert failed - SLOW == set(FAILS) - SLOW, run.stdout[-20_000:]
    assert len(cases) > 200, run.stdout[-20_000:]
