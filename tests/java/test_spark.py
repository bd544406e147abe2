"""Spark in local mode through the Hadoop file system and the committer, with the Hadoop that Spark has.

Needs `scripts/install spark spark-hadoop-cloud`. `SPARK_KILLS` jobs are killed.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter

import pytest

from harness import TOOLS
from harness.command import CommandLine, clean_env
from harness.s3 import Bucket
from harness.servers import Embedded

from .test_hadoop import CLASSES, MODULE, compiled, s3  # noqa: F401
from .test_java import BINDING, LIBRARY

KILLS = int(os.environ.get("SPARK_KILLS", "4"))
ROWS = 200_000
CLOUD = "org.apache.spark.internal.io.cloud"
# As docs/HADOOP.md has them.
COMMITTER = {
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": f"{CLASSES}.TidegateCommitterFactory",
    "spark.sql.sources.commitProtocolClass": f"{CLOUD}.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": f"{CLOUD}.BindingParquetOutputCommitter",
}


class Spark:
    """Runs Spark programs against a bucket of a server."""

    def __init__(self, server):
        self.server = server
        self.uri, settings = s3(server.endpoint)
        self.bucket = Bucket.made[-2]
        jars = [
            BINDING / "tidegate/target/classes",
            MODULE / "target/classes",
            TOOLS / "spark-hadoop-cloud.jar",
        ]
        self.settings = COMMITTER | {f"spark.hadoop.{name}": value for name, value in settings.items()}
        self.settings |= {
            "spark.driver.extraClassPath": ":".join(map(str, jars)),
            "spark.driver.extraJavaOptions": f"-Dtidegate.library={LIBRARY}",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "1g",
        }

    def start(self, what, path):
        command = [TOOLS.parent / "spark/bin/python", BINDING.parent.parent / "tests/java/spark_job.py"]
        arguments = [what, f"{self.uri}/{path}", str(ROWS), json.dumps(self.settings)]
        # A session of its own, so that a kill meets the JVM beside the Python program.
        return subprocess.Popen(
            [*command, *arguments],
            env=clean_env({"SPARK_LOCAL_IP": "127.0.0.1"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, what, path):
        process = self.start(what, path)
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
        return out

    def has_every_row_once(self, kind, path):
        read = json.loads(self.run(f"read-{kind}", path).splitlines()[-1])
        return read == {"count": ROWS, "sum": ROWS * (ROWS - 1) // 2}

    def tidegate(self, *arguments, path):
        return CommandLine()(*arguments, self.bucket.url(path), env=self.bucket.env)

    def visible(self, path):
        """The files that a reader of the directory sees."""
        keys = [key.removeprefix(f"{path}/") for key in self.bucket.keys(f"{path}/")]
        return [key for key in keys if not key.startswith("_")]

    def records(self, path):
        """The records of the uploads of tasks."""
        return [key for key in self.bucket.keys(f"{path}/__tidegate_") if "/attempts/" in key]

    def is_begun(self, path):
        """Whether the intent or the pointer of the job's set is there: from then on files may be visible."""
        intents = self.bucket.keys(f".tidegate/manifests/{path}/")
        return bool(intents) or any(key.endswith("/commit.json") for key in self.bucket.keys(f"{path}/__tidegate_"))

    def recovered(self, path, by_overwriting):
        """Has the job of a killed driver completed, or given up and written again; returns how far it was."""
        visible, is_complete = self.visible(path), self.bucket.exists(f"{path}/_SUCCESS")
        if self.is_begun(path):
            ended = self.tidegate("commit", "--job", path=path)
            assert ended.exit == 0, ended
            return "half visible" if len(visible) < len(self.visible(path)) else "all visible"
        if is_complete:
            return "complete"
        assert visible == [], "files are visible before the commit"
        if not by_overwriting:
            ended = self.tidegate("abandon", "--job", path=path)
            assert ended.exit == 0, ended
            self.assert_ended(path)
        # Spark deletes the directory first, and with it gives up the job that it has.
        self.run("write-parquet", path)
        return "not begun"

    def assert_ended(self, path):
        left = [key for key in self.bucket.keys(f"{path}/") if "__tidegate_" in key]
        left += self.bucket.keys(".tidegate/")
        sessions = self.bucket.client.list_multipart_uploads(Bucket=self.bucket.name).get("Uploads", [])
        assert (left, sessions) == ([], []), "a job has left something"


@pytest.fixture
def spark(compiled, tmp_path):  # noqa: F811
    server = Embedded(tmp_path)
    try:
        yield Spark(server)
    finally:
        Bucket.made.clear()
        server.stop()


@pytest.mark.parametrize("kind", ["parquet", "partitions", "text", "rdd"])
def test_spark_reads_what_it_has_written(spark, kind):
    spark.run(f"write-{kind}", "rows")
    success = json.loads(spark.bucket.get("rows/_SUCCESS"))
    files = spark.visible("rows")
    assert len(success["objects"]) == len(files) > 1, "the committer has not committed the job"
    assert spark.has_every_row_once(kind, "rows")
    spark.assert_ended("rows")


@pytest.mark.parametrize("moment", ["write", "commit"])
def test_killed_drivers(spark, moment):
    """A job is killed as a whole, driver and tasks: while tasks write, or when some files are visible and others are not."""
    chance, seen = random.Random(os.environ.get("SPARK_SEED", "1")), Counter()
    for number in range(KILLS // 2):
        path = f"rows-{number}"
        if moment == "commit":
            # The first files are published at once, the others so late that the kill comes before.
            late = {"operation": "CompleteMultipartUpload", "action": {"delay_ms": 4000}, "skip": 1 + number % 6}
            spark.server.control("PUT", "knobs", {"faults": [late]})
        process = spark.start("write-parquet", path)
        try:
            has_come = spark.records if moment == "write" else spark.visible
            while not has_come(path):
                assert process.poll() is None, process.communicate()
                time.sleep(0.005)
            if moment == "write":
                time.sleep(chance.random() * 3)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        spark.server.control("PUT", "knobs", {"faults": []})
        seen[spark.recovered(path, by_overwriting=number % 2 == 1)] += 1
        assert spark.has_every_row_once("parquet", path), path
        spark.assert_ended(path)
    print(f"\nkilled during the {moment}: {dict(seen)}")
    wanted = "not begun" if moment == "write" else "half visible"
    assert seen[wanted] > 0, "no kill has met the moment that it was for"
