"""Spark in local mode through the Hadoop file system and the committer, with the Hadoop that Spark has.

Needs `scripts/install spark spark-hadoop-cloud`. `SPARK_KILLS` drivers are killed at random moments.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import time

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

    def __init__(self, endpoint):
        self.uri, settings = s3(endpoint)
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

    def assert_ended(self, path):
        left = [key for key in self.bucket.keys(f"{path}/") if "__tidegate_" in key]
        sessions = self.bucket.client.list_multipart_uploads(Bucket=self.bucket.name).get("Uploads", [])
        assert (left, sessions) == ([], []), "a job has left something"


@pytest.fixture
def spark(compiled, tmp_path):  # noqa: F811
    server = Embedded(tmp_path)
    try:
        yield Spark(server.endpoint)
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


def test_killed_drivers(spark):
    """Each job is killed as a whole, driver and tasks, at a random moment of its write."""
    chance, began = random.Random(os.environ.get("SPARK_SEED", "1")), time.monotonic()
    spark.run("write-parquet", "whole")
    took, seen = time.monotonic() - began, {"not begun": 0, "begun": 0, "complete": 0}
    for number in range(KILLS):
        path = f"rows-{number}"
        process = spark.start("write-parquet", path)
        try:
            # Half of the kills meet the commit, which begins when the first file may be visible.
            if chance.random() < 0.5:
                while process.poll() is None and not any("commit.json" in key for key in spark.bucket.keys(f"{path}/")):
                    time.sleep(0.002)
                time.sleep(chance.random() * 0.02)
            else:
                time.sleep(took * (0.4 + 0.6 * chance.random()))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        has_begun = any("commit.json" in key for key in spark.bucket.keys(f"{path}/"))
        is_complete = spark.bucket.exists(f"{path}/_SUCCESS")
        if not has_begun and not is_complete:
            assert spark.visible(path) == [], "files are visible before the commit"
            ended = spark.tidegate("abandon", "--job", path=path)
            # 3: the driver was killed before it had set up the job.
            assert ended.exit in (0, 3), ended
            seen["not begun"] += 1
            assert spark.visible(path) == []
            spark.run("write-parquet", path)
        elif has_begun:
            ended = spark.tidegate("commit", "--job", path=path)
            assert ended.exit == 0, ended
            seen["begun"] += 1
        else:
            seen["complete"] += 1
        assert spark.has_every_row_once("parquet", path), path
        spark.assert_ended(path)
    print(f"\n{KILLS} drivers killed: {seen}")
