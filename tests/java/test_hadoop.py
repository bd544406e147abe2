"""tidegate-hadoop: Hadoop's own contract tests, and ours, on each kind of store.

`HADOOP_VERSION=3.5.0` takes another version of Hadoop than the first. Which of Hadoop's tests do not run, and why, is in
bindings/java/hadoop/src/test/not-run.txt: a test that is skipped and not named there is a failure, and so is the reverse.
"""

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest

from harness.azure import ACCOUNT, KEY, Container
from harness.command import clean_env
from harness.s3 import Bucket
from harness.servers import Azurite, Embedded, Minio

from .test_java import BINDING, LIBRARY

MODULE = BINDING / "hadoop"
NOT_RUN = MODULE / "src/test/not-run.txt"
VERSION = os.environ.get("HADOOP_VERSION", "3.4.2")
STORES = ["s3", "google", "azure", "minio"]
CLASSES = "io.tidegate.hadoop"

UNAVAILABLE = {"error": {"status": 500, "code": "InternalError"}}
STALL = {"stall_response": {"after_bytes": 50_000, "ms": 300_000}}
# What StoreFaults in Java meets, by keys.
FAULTS = [
    {"operation": "UploadPart|PutObject", "action": UNAVAILABLE, "key_prefix": "refused-write"},
    {"operation": "CopyObject|UploadPartCopy", "action": UNAVAILABLE, "key_prefix": "refused-copy/new/5"},
    {"operation": "GetObject", "action": "hold_answer", "key_prefix": "held-read"},
    {"operation": "GetObject", "action": STALL, "key_prefix": "stalled-read"},
    {"operation": "UploadPart", "action": UNAVAILABLE, "key_prefix": "job-refused/part"},
    {"operation": "PutObject", "action": UNAVAILABLE, "key_prefix": "job-stuck/__tidegate_one/tasks/", "times": 2},
    {"operation": "AbortMultipartUpload", "action": UNAVAILABLE, "key_prefix": "job-kept/part-0", "times": 2},
    {"operation": "GetObject", "action": {"corrupt_response": {"at": 5}}, "key_prefix": "corrupt-read"},
]
CUT = {"operation": "CompleteMultipartUpload", "action": UNAVAILABLE, "times": 2}
CUT_JOBS = ("job-cut", "job-left", "job-master", "job-deleted", "job-above/out", "job-beside")
FAULTS += [{**CUT, "key_prefix": f"{directory}/part-1"} for directory in CUT_JOBS]
LATE = {"operation": "CopyObject|UploadPartCopy", "action": {"delay_ms": 5000}}
FAULTS += [{**LATE, "key_prefix": f"{name}-copy/new/0"} for name in ("late", "interrupted", "taken", "across")]


def maven(*arguments, limit, env=None):
    contract = "junit4" if VERSION < "3.5" else "junit5"
    settings = ["-Phadoop", "-pl", "tidegate,hadoop", f"-Dhadoop.version={VERSION}", f"-Dhadoop.contract={contract}"]
    command = ["mvn", "--batch-mode", "--no-transfer-progress", *settings, *arguments]
    return subprocess.run(command, cwd=BINDING, env=clean_env(env), capture_output=True, text=True, timeout=limit)


@pytest.fixture(scope="module")
def compiled():
    """The classes and the tests."""
    run = maven("test-compile", limit=900)
    assert run.returncode == 0, run.stdout


def settings_of(scheme):
    """The settings that have Hadoop take a scheme's paths to Tidegate."""
    return {
        f"fs.{scheme}.impl": f"{CLASSES}.TidegateFileSystem",
        f"fs.AbstractFileSystem.{scheme}.impl": f"{CLASSES}.TidegateFs",
    }


def text_of(settings):
    """Settings as TestStore.java reads them."""
    return "\n".join(f"{name}={value}" for name, value in settings.items())


def reach_s3(endpoint):
    """The settings that users of S3A have."""
    return {
        "fs.s3a.endpoint": endpoint.url.removeprefix("http://"),
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": endpoint.access_key,
        "fs.s3a.secret.key": endpoint.secret_key,
    }


def s3(endpoint):
    """A bucket of an S3 endpoint, and one of its name and `-2`."""
    bucket = Bucket(endpoint).name
    Bucket(endpoint, f"{bucket}-2")
    return f"s3a://{bucket}", settings_of("s3a") | reach_s3(endpoint)


def reach_google(endpoint):
    return {"fs.tidegate.endpoint_url": endpoint.url, "fs.tidegate.anonymous": "true"}


def google(endpoint):
    return f"gs://{Bucket(endpoint).name}", settings_of("gs") | reach_google(endpoint)


def azure(endpoint):
    reached = {"fs.tidegate.endpoint_url": f"{endpoint.url}/{ACCOUNT}", "fs.tidegate.account_key": KEY}
    return f"abfs://{Container(endpoint).name}@{ACCOUNT}.dfs.core.windows.net", settings_of("abfs") | reached


@pytest.fixture
def reached(request, tmp_path):
    """The environment that leads the tests to an empty bucket of the store."""
    start, reach = {
        "s3": (Embedded, s3),
        "google": (Embedded, google),
        "azure": (Azurite, azure),
        "minio": (Minio, s3),
    }[request.param]
    server = start(tmp_path)
    try:
        if request.param == "s3":
            server.control("PUT", "knobs", {"faults": FAULTS})
        uri, settings = reach(server.endpoint)
        yield request.param, {"TIDEGATE_HADOOP_URI": uri, "TIDEGATE_HADOOP_SETTINGS": text_of(settings)}
    finally:
        Bucket.made.clear()
        server.stop()


def results_of(store, env, *arguments):
    """Runs tests against a store. Yields each test's class, name and result."""
    reports = MODULE / "target/reports" / store
    shutil.rmtree(reports, ignore_errors=True)
    chosen = ["-DskipTests", "-Dhadoop.skipTests=false", f"-Dtidegate.test.store={store}", *arguments]
    settings = [f"-Dtidegate.library={LIBRARY}", "-DtrimStackTrace=false"]
    run = maven(*settings, *chosen, "test", limit=580, env=env)
    assert run.returncode == 0, run.stdout
    for report in reports.glob("TEST-*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            name = re.match(r"\w+", case.get("name"))[0]
            result = "passed" if case.find("skipped") is None else "skipped"
            yield case.get("classname").removeprefix(f"{CLASSES}."), name, result


def named(store):
    """The tests that skip themselves on a store, as not-run.txt has them: on all, or on the one that it names."""
    found = re.findall(r"^#- (?:(\w+): )?(\S+)#(\S+)$", NOT_RUN.read_text(), re.MULTILINE)
    return {(where, name) for only, where, name in found if only in ("", store)}


@pytest.mark.parametrize("reached", STORES, indirect=True)
def test_contracts(compiled, reached):
    store, env = reached
    counts, skipped = {}, set()
    for where, name, result in results_of(store, env):
        counts.setdefault(where, Counter())[result] += 1
        if result == "skipped":
            skipped.add((where, name))
    print(f"\n{'Hadoop ' + VERSION + ' on ' + store:60}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for where, count in sorted(counts.items()):
        print(f"{where:60}{count['passed']:8}{0:8}{count['skipped']:8}")
    assert sum(count["passed"] for count in counts.values()) > 375
    assert skipped == named(store)


@pytest.mark.parametrize("reached", ["s3"], indirect=True)
def test_faults_requests_and_the_guide(compiled, reached):
    store, env = reached
    results = list(results_of(store, env, "-Dtest=Store*", "-Dsurefire.failIfNoSpecifiedTests=false"))
    assert len(results) == 36 and all(result == "passed" for *_, result in results), results


def test_the_guide_is_short():
    assert len((BINDING.parent.parent / "docs/HADOOP.md").read_text().split()) <= 1500
