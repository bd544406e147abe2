"""Programs that were compiled with the header of the version before run with the library of today.

`before/` keeps that header, and a program that was written for it. A release copies its header there, and the
program stays as it is, unless TG_ABI_VERSION has changed: then both are written anew.
"""

import os
import re

from c.test_c import BINDING, HERE, WARNINGS, prefix, run, with_library  # noqa: F401

BEFORE = HERE / "before"


def declared(header):
    """What a header declares, without comments and line breaks: constants, types and functions, by their names."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.DOTALL)
    constants = {name: value.strip() for name, value in re.findall(r"^#define (TG_[A-Z]\w+)(.*)$", text, re.MULTILINE)}
    code = re.sub(r"^#.*$", "", text, flags=re.MULTILINE).replace('extern "C" {', "")
    code = " ".join(code.split())
    structs = dict(re.findall(r"typedef struct (tg_\w+) \{(.*?)\} tg_\w+;", code))
    code = re.sub(r"typedef struct tg_\w+ \{.*?\} tg_\w+;", "", code)
    others = {re.search(r"(tg_\w+)\)?(?: ?\(|$)", line)[1]: line.strip() for line in code.split(";") if "tg_" in line}
    return {**constants, **structs, **others}


def test_what_the_version_before_declared_is_declared():
    before, today = declared(BEFORE / "tidegate.h"), declared(BINDING / "include/tidegate.h")
    assert before["TG_KIND_NOT_FOUND"] == "1"
    assert before["tg_delete"] == "struct tg_error *tg_delete(struct tg_store *store, struct tg_str key)"
    functions = re.findall(r"\b(tg_\w+)\(", (BEFORE / "tidegate.h").read_text())
    assert len(functions) > 80
    assert set(functions) <= set(before)
    assert set(before) <= set(today)
    # A caller says how much of it it knows.
    assert today["tg_progress"].startswith(before["tg_progress"].rstrip())
    changed = {name for name in before if before[name] != today[name]} - {"tg_progress"}
    assert not changed


def test_a_program_of_the_version_before_runs(prefix, tmp_path):  # noqa: F811
    program = tmp_path / "program"
    options = ["-D_POSIX_C_SOURCE=200809L", *WARNINGS, "-I", BEFORE]
    run("gcc", "-std=c99", *options, BEFORE / "program.c", prefix / "lib/libtidegate.so.1", "-o", program)
    run(program, env=with_library(prefix, os.environ))
