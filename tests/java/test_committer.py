"""The committer of tidegate-hadoop: its driver and its tasks are JVMs, which are killed at random moments.

`COMMITTER_KILLS` is how many are killed on each store. What a job publishes without kills, CommitterTest in Java has.
"""

import os

import pytest

from harness.command import CommandLine
from harness.process import until
from harness.s3 import Bucket, GoogleBucket
from harness.servers import Embedded, Minio
from job_kills import Pace, kills_of_jobs

from .test_hadoop import MODULE, maven, reach_google, reach_s3, settings_of, text_of
from .test_java import LIBRARY

KILLS = int(os.environ.get("COMMITTER_KILLS", "6"))
# A JVM takes half of the processor time to start with these.
QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
STORES = {
    "s3": (Embedded, lambda server: Bucket(server.endpoint), "s3", reach_s3),
    "google": (Embedded, lambda server: GoogleBucket(server.endpoint, "http"), "gs", reach_google),
    "minio": (Minio, lambda server: Bucket(server.endpoint), "s3", reach_s3),
}


class Committer(CommandLine):
    """Starts CommitterProcess, which takes the arguments of the example of jobs in Rust. A start returns when the JVM has
    loaded all, so that kills meet the work."""

    def __init__(self, options, settings):
        super().__init__("java")
        self._options = [f"@{options}", "io.tidegate.hadoop.CommitterProcess"]
        self._settings = {"TIDEGATE_HADOOP_SETTINGS": text_of(settings)}

    def start(self, *arguments, env=None, **given):
        run = super().start(*self._options, *arguments, env={**(env or {}), **self._settings}, **given)
        until("the JVM has started", lambda: run.ended or "started" in run.output_so_far())
        return run


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """The file of the JVM's options, with the class path of the tests."""
    folder = tmp_path_factory.mktemp("options")
    file = folder / "path"
    build = ["test-compile", "dependency:build-classpath", f"-Dmdep.outputFile={file}", "-Dmdep.includeScope=test"]
    run = maven(*build, limit=900)
    assert run.returncode == 0, run.stdout
    own = [MODULE / "target/test-classes", MODULE / "target/classes"]
    path = ":".join([*map(str, own), file.read_text()])
    (folder / "options").write_text("\n".join([*QUICK, f"-Dtidegate.library={LIBRARY}", "-cp", path]))
    return folder / "options"


@pytest.mark.parametrize("store", STORES)
def test_kills_of_tasks_and_drivers(options, store, tmp_path):
    start, bucket, scheme, reach = STORES[store]
    server = start(tmp_path)
    settings = settings_of(scheme) | reach(server.endpoint)
    try:
        seen = kills_of_jobs(
            lambda: bucket(server),
            KILLS,
            seed=1,
            may_lose=store == "minio",
            job=lambda: Committer(options, settings),
            pace=Pace(executor=0.6, driver=0.6),
        )
    finally:
        Bucket.made.clear()
        server.stop()
    print(f"\n{store}: {seen}")
    assert seen.executors > 0 and seen.committed > 0, seen
