"""The Java library: its own tests against the embedded server and MinIO, on Java 17 and, where it is installed, a later one.

`JAVA_LIBRARY` names the native library, and `JAVA_TEST_LIBRARY` one that panics and forks where a test wants it; scripts/test
builds both.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import ROOT
from harness.command import clean_env
from harness.s3 import Bucket
from harness.servers import Embedded, Minio

BINDING = ROOT / "bindings/java"
LIBRARY = ROOT / os.environ.get("JAVA_LIBRARY", "target/debug/libtidegate_java.so")
TEST_LIBRARY = ROOT / os.environ.get("JAVA_TEST_LIBRARY", "target/debug/java-tests/libtidegate_java.so")

# Requests that are carried out and never answered, and other faults, by the keys that they are of.
HELD = {
    "UploadPart": "hold-part",
    "PutObject": "hold-put",
    "HeadObject": "hold-head",
    "GetObject": "hold-get",
    "DeleteObject": "hold-delete",
}
UNAVAILABLE = {"error": {"status": 500, "code": "InternalError"}}
FAULTS = [{"operation": name, "action": "hold_answer", "key_prefix": keys} for name, keys in HELD.items()]
FAULTS += [
    {"operation": "UploadPart", "action": UNAVAILABLE, "key_prefix": "refused-part"},
    {"operation": "PutObject", "action": UNAVAILABLE, "key_prefix": "refused-put"},
    {"operation": "GetObject", "action": {"end_response": {"after_bytes": 300_000}}, "key_prefix": "torn", "times": 1},
    {"operation": "GetObject", "action": UNAVAILABLE, "key_prefix": "torn", "skip": 1},
    {"operation": "GetObject", "action": {"end_response": {"after_bytes": 300_000}}, "key_prefix": "cut", "times": 1},
    {"operation": "GetObject", "action": UNAVAILABLE, "key_prefix": "cut", "skip": 1, "times": 3},
    {"operation": "HeadObject", "action": UNAVAILABLE, "key_prefix": "refused-head"},
    {"operation": "GetObject", "action": {"corrupt_response": {"at": 5}}, "key_prefix": "corrupt"},
]
# As often as an impatient engine asks.
COMPLETE = {"operation": "CompleteMultipartUpload", "action": UNAVAILABLE, "times": 2}
FAULTS += [
    {**COMPLETE, "key_prefix": keys}
    for keys in ("stuck-once", "stuck-lost", "stuck-journal", "stuck-job/0", "stuck-end/1")
]
# Bytes of a session: over HTTP an append, over gRPC one of two calls.
APPEND = "storage.resumable.append|storage.v2.BidiWriteObject|storage.v2.WriteObject"
FAULTS.append({"operation": APPEND, "action": "lose_answer", "key_prefix": "lost-answers"})


def jdks():
    """The homes of the JDK on PATH and of the newest one beside it."""
    default = Path(shutil.which("javac")).resolve().parent.parent
    others = sorted(default.parent.glob("*-25-*/bin/java"))
    return [default, *(path.parent.parent for path in others[:1])]


def run(*command, limit=300, **options):
    """Runs a command to its end; its output is what a failure shows."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=limit, **options)
    assert ended.returncode == 0, f"{command[0]} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="session")
def jars():
    """The jars, from the library that is built, and the classes of the tests."""
    run(BINDING / "build", "--library", LIBRARY, env=clean_env())
    return BINDING / "target/jars"


@pytest.fixture(scope="session")
def natives(jars):
    (jar,) = jars.glob("tidegate-natives-*-linux-*.jar")
    return jar


@pytest.fixture
def servers(tmp_path):
    """What Servers.java reads of the environment. Faults that happen once need a new server for each JDK."""
    started = {"embedded": Embedded(tmp_path), "minio": Minio(tmp_path)}
    started["embedded"].control("PUT", "knobs", {"faults": FAULTS})
    said = {"TIDEGATE_JAVA_SERVERS": ",".join(started)}
    for name, server in started.items():
        endpoint = server.endpoint
        reached = (endpoint.url, endpoint.access_key, endpoint.secret_key, Bucket(endpoint).name)
        said[f"TIDEGATE_JAVA_{name.upper()}"] = " ".join(reached)
    yield said
    Bucket.made.clear()
    for server in started.values():
        server.stop()


@pytest.mark.parametrize("jdk", jdks(), ids=lambda jdk: jdk.name)
def test_junit(jdk, servers, natives):
    said = {**servers, "TIDEGATE_JAVA_TEST_LIBRARY": str(TEST_LIBRARY), "TIDEGATE_JAVA_NATIVES": str(natives)}
    # The classes are those that `jars` has compiled.
    command = ["mvn", "--batch-mode", "--no-transfer-progress", "-pl", "tidegate", "surefire:test"]
    settings = [f"-Dtidegate.library={LIBRARY}", f"-Djvm={jdk}/bin/java", "-DtrimStackTrace=false"]
    said = run(*command, *settings, cwd=BINDING, env=clean_env(said), limit=400)
    count = re.findall(r"Tests run: (\d+), Failures: 0, Errors: 0, Skipped: (\d+)", said)[-1]
    assert int(count[0]) > 170, said
    print(f"{jdk.name}: {count[0]} tests, {count[1]} of them not for this version")


def blocks():
    """The programs and fragments of docs/JAVA.md."""
    return re.findall(r"```java\n(.*?)```", (ROOT / "docs/JAVA.md").read_text(), re.DOTALL)


def test_the_guide_is_short():
    assert len((ROOT / "docs/JAVA.md").read_text().split()) <= 1500


def test_the_first_program_of_the_guide_uploads(jars, tmp_path):
    (tmp_path / "Greet.java").write_text(blocks()[0])
    (tmp_path / "objects").mkdir()
    run("java", "-cp", f"{jars}/*", tmp_path / "Greet.java", tmp_path / "objects", cwd=tmp_path, env=clean_env())
    assert (tmp_path / "objects/greeting.txt").read_text() == "hello, tide\n"


def test_the_other_fragments_of_the_guide_compile(jars, tmp_path):
    needed = ["io.tidegate.*", "java.io.InputStream", "java.io.OutputStream", "java.nio.ByteBuffer"]
    needed += ["java.nio.channels.WritableByteChannel", "java.nio.file.Path", "java.util.List", "java.util.Optional"]
    head = "".join(f"import {name};\n" for name in needed)
    fragments = blocks()[1:]
    assert fragments
    for number, fragment in enumerate(fragments):
        body = f"class Fragment{number} {{ void run(Store store, byte[] bytes) throws Exception {{\n{fragment}\n}} }}\n"
        (tmp_path / f"Fragment{number}.java").write_text(head + body)
    run("javac", "-cp", f"{jars}/*", "-d", tmp_path, *tmp_path.glob("*.java"), env=clean_env())


def test_the_example_publishes_what_a_command_prints_only_if_it_succeeds(jars, tmp_path):
    (tmp_path / "objects").mkdir()

    def upload(key, *command):
        program = ["java", "-cp", f"{jars}/*", ROOT / "examples/java/Upload.java", tmp_path / "objects", key]
        return subprocess.run([*program, *command], env=clean_env(), timeout=120).returncode

    assert upload("whole", "seq", "100000") == 0
    assert (tmp_path / "objects/whole").read_text() == "".join(f"{number}\n" for number in range(1, 100_001))
    assert upload("whole", "echo", "again") == 3
    assert upload("torn", "sh", "-c", "seq 100000; exit 1") == 1
    assert not (tmp_path / "objects/torn").exists()


def test_the_library_exports_what_the_jvm_calls_and_stays_loaded():
    symbols = run("nm", "-D", "--defined-only", LIBRARY).splitlines()
    exported = {line.split()[-1] for line in symbols}
    native = (BINDING / "tidegate/src/main/java/io/tidegate/Native.java").read_text()
    methods = set(re.findall(r"static native [\w\[\]]+ (\w+)\(", native))
    assert exported == {"JNI_OnLoad"} | {f"Java_io_tidegate_Native_{name}" for name in methods}
    dynamic = run("readelf", "-d", LIBRARY)
    assert "NODELETE" in dynamic
    needed = set(re.findall(r"Shared library: \[([^\]]+)\]", dynamic))
    assert needed <= {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
