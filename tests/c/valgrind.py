"""The tests of the C interface under valgrind, which sees what gcc's sanitizers do not: uses of memory inside the library,
and bytes that were never set. Some twenty times slower: `scripts/test --only valgrind`, by night.
"""

import pytest

from c.test_c import (  # noqa: F401
    BINDING,
    PANICS,
    SOURCES,
    TESTS,
    WARNINGS,
    env,
    run,
    server,
)

VALGRIND = ["valgrind", "--quiet", "--error-exitcode=99", "--fair-sched=yes"]
# Memory that nothing points to any more. What the library keeps for the life of the process is no leak.
LEAKS = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """The tests without sanitizers, which valgrind does not bear."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "libtidegate.so.1").symlink_to(PANICS / "libtidegate_c.so")
    include = ["-I", BINDING / "include", "-DPANICS", "-D_GNU_SOURCE"]
    library = [folder / "libtidegate.so.1", f"-Wl,-rpath,{folder}", "-pthread"]
    run("gcc", "-std=c99", *WARNINGS, "-g", *include, *SOURCES, *library, "-o", folder / "suite")
    return folder / "suite"


@pytest.mark.parametrize("name", TESTS)
def test_rule(suite, env, name):  # noqa: F811
    # A forked child leaves its parent's handles in memory, as it must.
    leaks = [] if "forked" in name else LEAKS
    run(*VALGRIND, *leaks, suite, name, env=env, limit=600)
