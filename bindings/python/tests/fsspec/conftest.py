"""Fixtures of the tests of the file systems: every kind of store, and a folder in each."""

import secrets
import sys

import entry_points
import pytest

from harness.azure import Container
from harness.gcs import JsonBucket
from harness.process import Server, free_port
from harness.s3 import Bucket
from harness.servers import answers

entry_points.describe()

import fsspec  # noqa: E402
from places import Place, s3_options  # noqa: E402

fsspec.process_entries()


@pytest.fixture
def moto(tmp_path):
    """The server that other packages' own tests of S3 ask, by our plugins. They start one too, at a port that may be
    taken, and wait only some seconds for its answer."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    server = Server("moto", command, tmp_path / "moto.log")
    server.url = f"http://127.0.0.1:{port}/"
    try:
        server.wait_ready(lambda: answers(f"{server.url}moto-api/"), timeout=60)
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def on_minio(minio):
    return Place("tidegates3", s3_options(minio.endpoint), Bucket(minio.endpoint).name)


@pytest.fixture(scope="session")
def on_embedded(embedded):
    """Google's protocol on the embedded server."""
    bucket = Bucket(embedded.endpoint)
    return Place("tidegategs", {"endpoint_url": embedded.url, "token": "anon"}, bucket.name)


@pytest.fixture(scope="session")
def on_fake_gcs(fake_gcs):
    return Place("tidegategs", {"endpoint_url": fake_gcs.url, "token": "anon"}, JsonBucket(fake_gcs.url).name)


@pytest.fixture(scope="session")
def on_azurite(azurite):
    options = {"connection_string": azurite.endpoint.connection}
    return Place("tidegateaz", options, Container(azurite.endpoint).name)


@pytest.fixture
def on_disk(tmp_path):
    return Place("tidegatefile", {}, str(tmp_path))


@pytest.fixture
def in_memory():
    return Place("tidegatememory", {}, secrets.token_hex(6))


@pytest.fixture(params=["on_minio", "on_embedded", "on_fake_gcs", "on_azurite", "on_disk", "in_memory"])
def place(request):
    """Each kind of store."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def fs(place):
    return place.fs(skip_instance_cache=True)


@pytest.fixture
def folder(place):
    return place.folder()
