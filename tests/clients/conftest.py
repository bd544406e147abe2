"""The embedded server by itself, one process a storage, under clients that no one here wrote."""

import json
import subprocess
import urllib.error
import urllib.request
import uuid

import boto3
import pytest
from botocore.config import Config

from harness.command import binary, clean_env
from harness.process import die_with_parent


class DevServer:
    def __init__(self, *options):
        # The example program of tidegate-dev is the server and nothing else.
        program = [binary()] if binary().name == "serve" else [binary(), "serve"]
        if "--storage" not in options:
            options = ("--storage", "memory", *options)
        self._process = subprocess.Popen(
            [*program, "--listen", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE,
            text=True,
            env=clean_env(),
            preexec_fn=die_with_parent,
        )
        line = self._process.stdout.readline()
        assert line.startswith("listening on "), line
        self.url = line.split()[-1]
        self.pid = self._process.pid

    def stop(self):
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()

    def control(self, method, what, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/_tidegate/{what}", method=method, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def knobs(self, **knobs):
        return self.control("PUT", "knobs", knobs)

    def counts(self):
        return self.control("GET", "counts")

    def client(self, **config):
        config = {"retries": {"total_max_attempts": 1, "mode": "standard"}, "max_pool_connections": 32, **config}
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id="tidegate",
            aws_secret_access_key="tidegate",
            region_name="us-east-1",
            config=Config(**config),
        )

    def env(self):
        return clean_env(
            {"AWS_ACCESS_KEY_ID": "tidegate", "AWS_SECRET_ACCESS_KEY": "tidegate", "AWS_REGION": "us-east-1"}
        )


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """`start(option, …)` is a server of the test's own."""
    started = []

    def run(*options):
        server = DevServer(*options)
        started.append(server)
        return server

    yield run
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def _servers(start, tmp_path_factory):
    return {
        "memory": start("--storage", "memory"),
        "disk": start("--storage", f"disk:{tmp_path_factory.mktemp('storage')}"),
    }


@pytest.fixture(params=["memory", "disk"])
def server(request, _servers):
    """Both servers that keep bytes, in turn, with knobs and counts at nothing."""
    server = _servers[request.param]
    server.knobs()
    server.control("DELETE", "counts")
    return server


@pytest.fixture
def s3(server):
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def name(s3):
    """A new bucket."""
    bucket = f"bucket-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=bucket)
    return bucket
