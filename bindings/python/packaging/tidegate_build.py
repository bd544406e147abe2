"""The build backend of the package: maturin's, after the command line was built and put beside the extension."""

import os
import shutil
import subprocess
from pathlib import Path

import maturin
from maturin import build_sdist, get_requires_for_build_sdist

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

_PACKAGE = Path(__file__).resolve().parents[1]
_WORKSPACE = _PACKAGE.parents[1]
#: What pyproject.toml names as the files that a wheel installs beside the package.
_SCRIPTS = _PACKAGE / "data" / "scripts"


def _add_command_line():
    """Puts the program `tidegate` beside the extension: the one that TIDEGATE_PROGRAM names, otherwise one built here. A
    source distribution has the library only: without TIDEGATE_PROGRAM it installs no program."""
    shutil.rmtree(_SCRIPTS, ignore_errors=True)
    _SCRIPTS.mkdir(parents=True)
    program = os.environ.get("TIDEGATE_PROGRAM")
    if program is None:
        if not (_WORKSPACE / "crates" / "tidegate-cli").is_dir():
            return
        subprocess.run(["cargo", "build", "--locked", "--release", "-p", "tidegate-cli"], cwd=_WORKSPACE, check=True)
        # A relative directory is one of the workspace, where cargo ran.
        program = _WORKSPACE / os.environ.get("CARGO_TARGET_DIR", "target") / "release" / "tidegate"
    shutil.copy2(program, _SCRIPTS / "tidegate")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _add_command_line()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _add_command_line()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def get_requires_for_build_wheel(config_settings=None):
    _SCRIPTS.mkdir(parents=True, exist_ok=True)
    return maturin.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings=None):
    _SCRIPTS.mkdir(parents=True, exist_ok=True)
    return maturin.get_requires_for_build_editable(config_settings)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    _SCRIPTS.mkdir(parents=True, exist_ok=True)
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def prepare_metadata_for_build_editable(metadata_directory, config_settings=None):
    _SCRIPTS.mkdir(parents=True, exist_ok=True)
    return maturin.prepare_metadata_for_build_editable(metadata_directory, config_settings)
