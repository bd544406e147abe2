"""The headers of C++: programs against the embedded server, directories and memory, and Velox's files."""

import os
import re
import subprocess

import pytest

from c.test_c import BUILT, WARNINGS, prefix, run, with_library  # noqa: F401
from harness import ROOT
from harness.command import clean_env
from harness.s3 import Bucket
from harness.servers import Embedded

HERE = ROOT / "tests/cpp"
INCLUDE = ["-I", ROOT / "bindings/c/include", "-I", ROOT / "bindings/cpp"]
OF_VELOX = ['-DTIDEGATE_VELOX_INTERFACE="velox_interface.h"', "-I", HERE]
STRICT = [option for option in WARNINGS if option != "-pedantic"]
# Each program: its source, the standard, and more options.
PROGRAMS = {
    "cxx17": ("every.cc", "17", []),
    "cxx23": ("every.cc", "23", []),
    "velox": ("velox.cc", "20", OF_VELOX),
}
# What only std::span and std::expected can test.
OF_LATER = {"spans", "expected"}


def names(source):
    return re.findall(r"^TEST\((\w+)\)", (HERE / source).read_text(), re.MULTILINE)


TESTS = [
    (program, name)
    for program, (source, standard, _) in PROGRAMS.items()
    for name in names(source)
    if not name.startswith("step_") and (standard != "17" or name not in OF_LATER)
]

FAULTS = [
    {
        "operation": "PutObject|UploadPart",
        "action": {"error": {"status": 403, "code": "AccessDenied"}},
        "key_prefix": "refused",
    },
    {"operation": "UploadPart", "action": "hold_answer", "key_prefix": "hold-part"},
    {"operation": "PutObject", "action": "hold_answer", "key_prefix": "hold-put"},
    {"operation": "GetObject", "action": "hold_answer", "key_prefix": "hold-get"},
    {"operation": "GetObject", "action": {"corrupt_response": {"at": 5}}, "key_prefix": "corrupt"},
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The tests, compiled at the same time, with sanitizers of gcc."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "libtidegate.so.1").symlink_to(BUILT / "libtidegate_c.so")
    sanitizers = ["-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    library = [folder / "libtidegate.so.1", f"-Wl,-rpath,{folder}", "-pthread"]
    compilers = {}
    for name, (source, standard, options) in PROGRAMS.items():
        command = ["g++", f"-std=c++{standard}", *STRICT, *sanitizers, *INCLUDE, *options, HERE / source, *library]
        pipe = subprocess.PIPE
        compilers[name] = subprocess.Popen([*command, "-o", folder / name], stdout=pipe, stderr=pipe, text=True)
    said = {name: compiler.communicate(timeout=240) for name, compiler in compilers.items()}
    for name, compiler in compilers.items():
        assert compiler.returncode == 0, f"{name}: {said[name]}"
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Embedded(tmp_path_factory.mktemp("server"))
    server.control("PUT", "knobs", {"faults": FAULTS})
    yield server
    server.stop()


@pytest.fixture
def env(server, tmp_path):
    """What the programs have in their environment: a bucket of their own, and a directory."""
    for name in ("objects", "journals"):
        (tmp_path / name).mkdir()
    bucket = Bucket(server.endpoint)
    said = {"ENDPOINT": server.url, "BUCKET": f"s3://{bucket.name}", "DIRECTORY": str(tmp_path)}
    return clean_env({**said, "UBSAN_OPTIONS": "print_stacktrace=1"})


@pytest.mark.parametrize(("program", "name"), TESTS, ids=lambda value: value)
def test_rule(programs, env, program, name):
    run(programs / program, name, env=env)


def test_another_process_commits(programs, env):
    run(programs / "cxx17", "step_prepare", env=env)
    both = [subprocess.Popen([programs / "cxx17", "step_commit"], env=env) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    run(programs / "cxx17", "step_commit", env=env)


def test_another_process_resumes(programs, env):
    run(programs / "cxx17", "step_persist", env=env)
    run(programs / "cxx17", "step_resume", env=env)


def test_static_destructors_make_calls(programs, env, tmp_path):
    run(programs / "cxx17", "step_static_destructors", env=env)
    # The destructor's last act: an exit status of 0 does not say that it ran.
    assert (tmp_path / "late").read_text() == "done"


@pytest.mark.parametrize("header", ["tidegate.hpp", "tidegate_velox.hpp"])
def test_the_headers_compile_alone_and_twice(header):
    """As C++20, with the interfaces of an older Velox, and without a copy of anything in two files."""
    source = f'#include "{header}"\n#include "{header}"\nint unused;\n'
    options = [*STRICT, *INCLUDE, *OF_VELOX, "-DVELOX_INTERFACE_OLDER", "-Wnon-virtual-dtor", "-Wshadow"]
    run("g++", "-std=c++20", *options, "-fsyntax-only", "-x", "c++", "-", input=source)


def blocks(language):
    """The examples of docs/CPP.md in a language."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs/CPP.md").read_text(), re.DOTALL)


def test_the_first_example_of_the_guide_uploads(prefix, env, server, tmp_path):  # noqa: F811
    """Built by CMake from what bindings/c/install installs."""
    source, build = tmp_path / "upload.cc", tmp_path / "build"
    source.write_text(blocks("cpp")[0])
    run("cmake", "-S", HERE, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DSOURCE={source}")
    run("cmake", "--build", build)
    url = f"{env['DIRECTORY']}/objects"
    run(build / "program", url, "greeting.txt", env=env, input="hello, tide\n" * 1000)
    assert (tmp_path / "objects/greeting.txt").read_text() == "hello, tide\n" * 1000
    failed = subprocess.run([build / "program", "s4://bucket", "a"], env=env, input=b"", capture_output=True)
    assert failed.returncode == 1
    assert b"s4://bucket" in failed.stderr


def test_cmake_links_programs_of_cxx_with_threads(prefix, tmp_path):  # noqa: F811
    """A std::future needs them, where they are no part of the C library."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(asks CXX)\nfind_package(Tidegate REQUIRED)\n"
        'get_target_property(links Tidegate::cpp INTERFACE_LINK_LIBRARIES)\nmessage(STATUS "links=${links}")\n'
        "if(NOT TARGET Threads::Threads)\n  message(FATAL_ERROR none)\nendif()\n"
    )
    said = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    assert "links=Tidegate::tidegate;Threads::Threads" in said


def test_the_other_examples_of_the_guide_run(prefix, env, tmp_path):  # noqa: F811
    """By what pkg-config says. Each block is a function, which `main` calls on a store in memory."""
    others = blocks("cpp")[1:]
    called = [re.search(r"^\w[\w:<> ]* (\w+)\(", block, re.MULTILINE)[1] for block in others]
    assert called == ["read_footer", "write_lines", "hand_over", "use_velox"]
    source, program = tmp_path / "others.cc", tmp_path / "others"
    main = """
        int main() {
            auto store = tidegate::Engine::shared().open("memory://guide");
            store.put("table", "0123456789");
            if (read_footer(store, "table") != "6789") return 1;
            write_lines(store, "lines");
            if (store.get("lines") != "line 1\\nline 2\\nline 3\\n") return 2;
            hand_over(store, "handed");
            if (store.get("handed") != "bytes of a task") return 3;
            use_velox("memory://guide/velox");
            return store.get("velox") == "bytes" ? 0 : 4;
        }
    """
    source.write_text("#include <iostream>\n" + "\n".join(others) + main)
    pkg_config = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", "tidegate", env=pkg_config).split()
    run("g++", "-std=c++20", *STRICT, *OF_VELOX, source, *flags, "-pthread", "-o", program)
    run(program, env=with_library(prefix, env))


def test_the_benchmark_prints_its_table(env):
    table = run(ROOT / "bindings/cpp/bench/run", "8", env={**env, "TIDEGATE_BUILT": str(BUILT)}).splitlines()
    assert table[0] == "| size | synchronous | asynchronous | times as fast |"
    assert [line.split("|")[1].strip() for line in table[2:]] == ["4 MiB", "8 MiB"]


def test_the_guide_is_short():
    assert len((ROOT / "docs/CPP.md").read_text().split()) <= 900
