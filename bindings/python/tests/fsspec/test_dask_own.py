"""Dask's own tests of S3, run from the installed package with `s3` taken over."""

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
#: Those that cannot pass, each with the reason.
FAILS: dict[str, str] = {}


@pytest.fixture
def moto(tmp_path):
    """The server that Dask's tests ask, by their plugin. They start one too, at a port that may be taken, and wait only
    some seconds for its answer."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    server = Server("moto", command, tmp_path / "moto.log")
    server.url = f"http://127.0.0.1:{port}/"
    try:
        server.wait_ready(lambda: answers(f"{server.url}moto-api/"), timeout=60)
        yield server
    finally:
        server.stop()


def test_dask_s3(moto, tmp_path):
    report = tmp_path / "report.xml"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    python_path = os.pathsep.join([os.environ["PYTHONPATH"], str(HERE)])
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--pyargs", "dask.bytes.tests.test_s3"),
            *("-p", "dask_s3", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--tb=short", f"--junitxml={report}"),
        ],
        cwd=tmp_path,
        env=clean_env({"PATH": path, "PYTHONPATH": python_path, "DASK_S3_URL": moto.url}),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert moto.running, moto.log_end()
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = {case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None}
    skipped = {case.get("name") for case in cases if case.find("skipped") is not None}
    assert failed == set(FAILS), run.stdout[-20_000:]
    assert len(cases) - len(skipped) - len(failed) >= 30, run.stdout[-20_000:]
