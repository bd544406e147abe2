"""The package's entry points, for tests that import it from its sources: as an installation would describe them."""

import os
import sys
import tempfile
import tomllib
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[2]
_FOLDER = tempfile.TemporaryDirectory(prefix="tidegate-entry-points-")


def describe():
    """Makes importlib find them, here and in processes that are started from here."""
    declared = tomllib.loads((_PROJECT / "pyproject.toml").read_text())["project"]["entry-points"]
    description = Path(_FOLDER.name) / "tidegate-0.dist-info"
    description.mkdir()
    (description / "METADATA").write_text("Metadata-Version: 2.1\nName: tidegate\nVersion: 0\n")
    lines = []
    for group, points in declared.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (description / "entry_points.txt").write_text("\n".join(lines))
    places = [_FOLDER.name, str(_PROJECT / "python")]
    sys.path[:0] = places
    os.environ["PYTHONPATH"] = os.pathsep.join([*places, *filter(None, [os.environ.get("PYTHONPATH")])])
