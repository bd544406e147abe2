"""`tidegate --version`: the version, the commit of a release, and the features."""

import json
import re
import subprocess
import tomllib

import pytest

from harness import ROOT

COMMIT = "8f4547cfd2a1b0c39e5a7f6d4c3b2a1908f7e6d5"


def test_it_says_the_version_and_the_features(tidegate):
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    run = tidegate("--version")
    assert run.exit == 0 and run.err == "", run
    first, features = run.text.splitlines()
    assert re.fullmatch(rf"tidegate {re.escape(version)}( \(commit [0-9a-f]{{40}}(-dirty)?\))?", first), run
    assert {"azure", "gcs", "gcs-grpc", "prefix", "s3"} <= set(features.removeprefix("features: ").split()), run
    assert tidegate("-V").text == f"{first}\n"


@pytest.fixture(scope="module")
def build_script(tmp_path_factory):
    """`build_script(folder, commit)` is what the build script of the program tells cargo, run in `folder`."""
    program = tmp_path_factory.mktemp("built") / "build-script"
    source = ROOT / "crates/tidegate-cli/build.rs"
    subprocess.run(["rustc", "--edition", "2024", "-o", program, source], check=True, timeout=60, cwd=ROOT)

    def run(folder, commit=None):
        env = {"CARGO_PKG_VERSION": "1.2.3"} | ({} if commit is None else {"TIDEGATE_COMMIT": commit})
        run = subprocess.run([program], cwd=folder, env=env, check=True, timeout=10, capture_output=True, text=True)
        *watched, version = run.stdout.splitlines()
        return version.removeprefix("cargo::rustc-env=TIDEGATE_VERSION="), watched

    return run


def test_a_working_tree_names_no_commit_and_is_not_built_again(build_script, tmp_path):
    version, watched = build_script(tmp_path)
    assert version == "1.2.3"
    # A file that is not there would have cargo run the script at every build.
    assert watched == ["cargo::rerun-if-changed=build.rs", "cargo::rerun-if-env-changed=TIDEGATE_COMMIT"]


def test_a_release_names_its_commit(build_script, tmp_path):
    assert build_script(tmp_path, COMMIT)[0] == f"1.2.3 (commit {COMMIT})"
    assert build_script(tmp_path, "")[0] == "1.2.3"


@pytest.mark.parametrize(
    "git, commit",
    [({"sha1": COMMIT}, COMMIT), ({"sha1": COMMIT, "dirty": True}, f"{COMMIT}-dirty")],
)
def test_a_packaged_crate_names_the_commit_that_cargo_noted(build_script, tmp_path, git, commit):
    note = {"git": git, "path_in_vcs": "crates/tidegate-cli"}
    (tmp_path / ".cargo_vcs_info.json").write_text(json.dumps(note, indent=2))
    version, watched = build_script(tmp_path)
    assert version == f"1.2.3 (commit {commit})"
    assert "cargo::rerun-if-changed=.cargo_vcs_info.json" in watched


def test_a_packaged_crate_without_git_names_no_commit(build_script, tmp_path):
    (tmp_path / ".cargo_vcs_info.json").write_text('{"path_in_vcs": ""}')
    assert build_script(tmp_path)[0] == "1.2.3"
