"""The package's files import each other in one direction: imports in functions and those for type checkers count too."""

import ast
import graphlib
from pathlib import Path

import tidegate

PACKAGE = Path(tidegate.__file__).parent
#: `Tidegate.open` makes a store, and a store has a `Tidegate`.
PAIR = ("tidegate._tide", "tidegate._store")


def modules():
    for path in PACKAGE.rglob("*.py"):
        parts = ("tidegate", *path.relative_to(PACKAGE).with_suffix("").parts)
        yield ".".join(parts).removesuffix(".__init__"), path


def imported(name, path, known):
    """The files of the package that a file imports."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        source = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            inner = f"{source}.{alias.name}"
            # `from . import _native` imports the extension, which is no file here.
            if inner in known or (source in known and alias.name != "_native"):
                yield inner if inner in known else source


def test_no_imports_go_in_circles():
    known = dict(modules())
    graph = {name: set(imported(name, path, known)) for name, path in known.items()}
    assert len(graph) > 30
    assert PAIR[1] in graph[PAIR[0]]
    graph[PAIR[0]].remove(PAIR[1])
    # Raises `CycleError`, with the files.
    graphlib.TopologicalSorter(graph).prepare()
