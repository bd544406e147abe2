"""The C interface: programs in C against the embedded server, directories and memory.

`C_LIBRARIES` names the folder with libtidegate_c.so and libtidegate_c.a, and `C_PANICS` one with a library that has
`tg_test_panic`; scripts/test builds both.
"""

import os
import re
import shutil
import socket
import subprocess
import tomllib
from pathlib import Path

import pytest

from harness import ROOT
from harness.command import clean_env
from harness.s3 import Bucket
from harness.servers import Embedded

HERE = Path(__file__).resolve().parent
BINDING = ROOT / "bindings/c"
BUILT = ROOT / os.environ.get("C_LIBRARIES", "target/debug")
PANICS = ROOT / os.environ.get("C_PANICS", "target/debug")
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
SOURCES = [HERE / f"{name}.c" for name in ("main", "check", "every", "errors", "cancel", "rules", "steps")]
TESTS = [name for name in re.findall(r"TEST\((\w+)\)", (HERE / "main.c").read_text()) if not name.startswith("step_")]

# Requests that are carried out and never answered, and other faults, by the keys that they are of.
HELD = {
    "UploadPart": "hold-part",
    "PutObject": "hold-put",
    "HeadObject": "hold-head",
    "GetObject": "hold-get",
    "CompleteMultipartUpload": "hold-complete",
    "AbortMultipartUpload": "hold-abort",
}
FAULTS = [{"operation": name, "action": "hold_answer", "key_prefix": keys} for name, keys in HELD.items()]
FAULTS += [
    {
        "operation": "UploadPart",
        "action": {"reset_request": {"after_bytes": 300_000}},
        "key_prefix": f"reset-{number}",
        "times": 1,
    }
    for number in range(1, 6)
]
FAULTS += [{"operation": "GetObject", "action": {"corrupt_response": {"at": 5}}, "key_prefix": "corrupt"}]


def run(*command, limit=120, **options):
    """Runs a command to its end; its output is what a failure shows."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=limit, **options)
    assert ended.returncode == 0, f"{command[0]} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """What bindings/c/install installs, from the libraries that are built."""
    prefix = tmp_path_factory.mktemp("prefix")
    run(BINDING / "install", "--from", BUILT, prefix)
    return prefix


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """The tests, with sanitizers of gcc, and a library that panics where a test wants it."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "libtidegate.so.1").symlink_to(PANICS / "libtidegate_c.so")
    sanitizers = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    include = ["-I", BINDING / "include", "-DPANICS", "-D_GNU_SOURCE"]
    library = [folder / "libtidegate.so.1", f"-Wl,-rpath,{folder}", "-pthread"]
    run("gcc", "-std=c99", *WARNINGS, *sanitizers, *include, *SOURCES, *library, "-o", folder / "suite")
    return folder / "suite"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Embedded(tmp_path_factory.mktemp("server"))
    server.control("PUT", "knobs", {"faults": FAULTS})
    yield server
    server.stop()


@pytest.fixture
def env(server, tmp_path):
    """What the programs have in their environment: a bucket of their own, and a directory."""
    for name in ("objects", "journals", "fork-journals", "spool"):
        (tmp_path / name).mkdir()
    bucket = Bucket(server.endpoint)
    said = {"ENDPOINT": server.url, "BUCKET": f"s3://{bucket.name}", "DIRECTORY": str(tmp_path)}
    return clean_env({**said, "UBSAN_OPTIONS": "print_stacktrace=1"})


@pytest.mark.parametrize("name", TESTS)
def test_rule(suite, env, name):
    run(suite, name, env=env)


def test_another_process_commits(suite, env):
    run(suite, "step_prepare", env=env)
    both = [subprocess.Popen([suite, "step_commit"], env=env) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    run(suite, "step_commit", env=env)


def test_another_process_resumes(suite, env):
    run(suite, "step_persist", env=env)
    run(suite, "step_resume", env=env)


def test_a_program_exits_with_open_writers(suite, env, server):
    run(suite, "step_exit_with_open_writers", env=env, limit=30)
    bucket = env["BUCKET"].removeprefix("s3://")
    assert "Contents" not in server.endpoint.client().list_objects_v2(Bucket=bucket)


@pytest.mark.parametrize("step", ["step_call_in_an_exit_handler", "step_exit_in_a_callback"])
def test_a_program_makes_calls_while_it_exits(suite, env, step):
    run(suite, step, env=env, limit=60)
    # The handler's last act: an exit status of 0 does not say that it ran.
    assert (Path(env["DIRECTORY"]) / "exit").read_text() == "done"


@pytest.mark.parametrize(
    "compiler", [["gcc", "-std=c99", "-x", "c"], ["g++", "-std=c++17", "-x", "c++"]], ids=["c99", "cxx17"]
)
def test_the_header_compiles_alone(compiler, tmp_path):
    header = BINDING / "include/tidegate.h"
    run(*compiler, *WARNINGS, "-fsyntax-only", "-include", header, "-", input="int unused;\n")


def test_the_header_is_one_of_cxx(prefix, tmp_path):
    library = [prefix / "lib/libtidegate.so.1", f"-Wl,-rpath,{prefix}/lib"]
    program = tmp_path / "program"
    run("g++", "-std=c++17", *WARNINGS, "-I", prefix / "include", HERE / "header.cc", *library, "-o", program)
    run(program)


def test_exactly_tg_functions_are_exported(prefix):
    symbols = run("nm", "-D", "--defined-only", prefix / "lib/libtidegate.so.1").splitlines()
    exported = {line.split()[-1] for line in symbols}
    declared = set(re.findall(r"\b(tg_\w+)\(", (prefix / "include/tidegate.h").read_text())) - {"tg_test_panic"}
    # Types of functions are no functions.
    declared -= {"tg_done", "tg_release"}
    assert exported == declared


def test_the_library_has_a_name_and_stays_loaded(prefix):
    dynamic = run("readelf", "-d", prefix / "lib/libtidegate.so.1")
    assert "Library soname: [libtidegate.so.1]" in dynamic
    assert "NODELETE" in dynamic
    needed = set(re.findall(r"Shared library: \[([^\]]+)\]", dynamic))
    assert needed <= {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def blocks(language):
    """The examples of docs/C.md in a language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs/C.md").read_text(), re.DOTALL)


def compiled(prefix, source, program, *how):
    """Compiles a program with what pkg-config says."""
    pkg_config = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    flags = run("pkg-config", *how, "--cflags", "--libs", "tidegate", env=pkg_config).split()
    run("gcc", "-std=c99", "-D_POSIX_C_SOURCE=200809L", *WARNINGS, source, *flags, "-pthread", "-o", program)


def with_library(prefix, env):
    return {**env, "LD_LIBRARY_PATH": str(prefix / "lib")}


def test_the_first_example_of_the_guide_uploads(prefix, env, server, tmp_path):
    (program, source) = (tmp_path / "upload", tmp_path / "upload.c")
    source.write_text(blocks("c")[0])
    compiled(prefix, source, program)
    url = f"{env['DIRECTORY']}/objects"
    run(program, url, "greeting.txt", env=with_library(prefix, env), input="hello, tide\n" * 1000)
    assert (Path(url) / "greeting.txt").read_text() == "hello, tide\n" * 1000


def test_the_other_examples_of_the_guide_compile(prefix, tmp_path):
    others = blocks("c")[1:]
    assert others
    for number, block in enumerate(others):
        source = tmp_path / f"{number}.c"
        source.write_text(f"#include <stdio.h>\n#include <tidegate.h>\n{block}")
        run("gcc", "-std=c99", *WARNINGS, "-Wno-unused-function", "-I", prefix / "include", "-fsyntax-only", source)


@pytest.mark.parametrize("how", [[], ["--static"]], ids=["shared", "static"])
def test_read_ranges_by_pkg_config(prefix, env, tmp_path, how):
    program = tmp_path / "read_ranges"
    if how:
        # With a prefix that has the static library alone.
        shared = list((prefix / "lib").glob("libtidegate.so*"))
        aside = tmp_path / "aside"
        aside.mkdir()
        for path in shared:
            path.rename(aside / path.name)
    try:
        compiled(prefix, ROOT / "examples/c/read_ranges.c", program, *how)
    finally:
        if how:
            for path in shared:
                (aside / path.name).rename(path)
    (Path(env["DIRECTORY"]) / "objects/table").write_bytes(bytes(range(256)))
    ranges = ["0-3", "250-255"]
    environment = env if how else with_library(prefix, env)
    said = run(program, f"{env['DIRECTORY']}/objects", "table", *ranges, env=environment)
    assert said == "0-3: 00010203\n250-255: fafbfcfdfeff\n"


def test_cmake_finds_both_libraries(prefix, env, tmp_path):
    build = tmp_path / "build"
    run("cmake", "-S", ROOT / "examples/c", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    (Path(env["DIRECTORY"]) / "objects/table").write_bytes(b"0123456789")
    for name in ("read_ranges", "read_ranges_static"):
        said = run(build / name, f"{env['DIRECTORY']}/objects", "table", "1-2", env=env)
        assert said == "1-2: 3132\n"


VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


@pytest.fixture
def moved(prefix, tmp_path):
    """What was installed, at another place, as a package manager or an archive leaves it."""
    return shutil.copytree(prefix, tmp_path / "elsewhere", symlinks=True)


def test_what_is_installed_may_be_moved(moved, env, tmp_path):
    program = tmp_path / "read_ranges"
    compiled(moved, ROOT / "examples/c/read_ranges.c", program)
    pkg_config = {**os.environ, "PKG_CONFIG_PATH": str(moved / "lib/pkgconfig")}
    for name, folder in (("includedir", "include"), ("libdir", "lib")):
        said = run("pkg-config", f"--variable={name}", "tidegate", env=pkg_config).strip()
        assert Path(said).resolve() == (moved / folder).resolve()
    build = tmp_path / "build"
    run("cmake", "-S", ROOT / "examples/c", "-B", build, f"-DCMAKE_PREFIX_PATH={moved}")
    run("cmake", "--build", build)
    (Path(env["DIRECTORY"]) / "objects/table").write_bytes(b"0123456789")
    for built, environment in ((program, with_library(moved, env)), (build / "read_ranges", env)):
        assert run(built, f"{env['DIRECTORY']}/objects", "table", "1-2", env=environment) == "1-2: 3132\n"


def versions():
    """Versions that a program may ask CMake for, and whether this one will do."""
    major, minor, patch = map(int, VERSION.split("."))
    yield f"{major}.{minor}", True
    yield VERSION, True
    yield f"{VERSION} EXACT", True
    yield f"{major}.{minor}.{patch + 1}", False
    yield f"{major + 1}.0", False
    yield f"{major}.{minor + 1}", False
    if patch > 0:
        yield f"{major}.{minor}.{patch - 1}", True
    # Before 1.0, the second number says what is compatible; from then on, the first one.
    if minor > 0:
        yield f"{major}.{minor - 1}", major > 0
    if major > 0:
        yield f"{major - 1}.{minor}", False


@pytest.mark.parametrize(("asked", "is_found"), [*versions()])
def test_cmake_is_asked_for_a_version(prefix, tmp_path, asked, is_found):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(asks C)\n"
        f"find_package(Tidegate {asked} QUIET)\nmessage(STATUS found=${{Tidegate_FOUND}})\n"
    )
    said = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert f"found={int(is_found)}" in said


def test_an_upload_from_a_socket(prefix, env, server, tmp_path):
    program = tmp_path / "from_socket"
    compiled(prefix, ROOT / "examples/c/upload_from_socket.c", program)
    url = f"{env['DIRECTORY']}/objects"
    sent = os.urandom(3_000_000)
    # A sender that goes away in the middle leaves no object.
    for name, bytes_sent, status in (("received", len(sent), 0), ("torn", 1000, 1)):
        command = [program, url, name]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=with_library(prefix, env), stdout=pipe, stderr=pipe, text=True) as started:
            port = int(started.stdout.readline().split()[-1])
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(len(sent).to_bytes(8, "big") + sent[:bytes_sent])
            assert started.wait(60) == status
    assert (Path(url) / "received").read_bytes() == sent
    assert not (Path(url) / "torn").exists()


def test_every_function_has_a_manual_page(prefix):
    pages = {path.name: path.read_text() for path in (prefix / "share/man/man3").iterdir()}
    assert pages["tg_writer.3"].startswith(".TH tg_writer 3")
    for name in re.findall(r"^tg_\w+|\*(tg_\w+)\(", (prefix / "include/tidegate.h").read_text(), re.MULTILINE):
        if name and name not in ("tg_done", "tg_release"):
            assert any(f".B {name}\n" in page for page in pages.values()), name
