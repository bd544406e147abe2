"""Fixtures that several files of this suite share."""

import subprocess

import pytest

from harness.s3 import Bucket


@pytest.fixture(params=["minio", "versitygw", "embedded"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def on(server):
    """A new bucket on each server."""
    return Bucket(server.endpoint)


@pytest.fixture
def journal(tmp_path):
    folder = tmp_path / "journal"
    folder.mkdir()
    return folder


@pytest.fixture
def mounted(tmp_path):
    """`mounted(option)` is a small disk, gone after the test."""
    folders = []

    def mount(options):
        folder = tmp_path / f"disk{len(folders)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tidegate-test", folder]
        run = subprocess.run(command, capture_output=True, text=True, timeout=10)
        if run.returncode:
            pytest.skip(f"this user may not mount a small disk: {run.stderr.strip()}")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", "-l", folder], check=True, timeout=10)
