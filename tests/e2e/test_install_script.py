"""`scripts/install.sh`, against a folder that a web server on this machine publishes."""

import hashlib
import io
import os
import platform
import subprocess
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness import ROOT

SCRIPT = ROOT / "scripts/install.sh"
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
OWN = f"{platform.machine()}-unknown-linux-gnu"
# What a release has here in place of the program, which `python -m pytest packages` installs.
PROGRAM = "#!/bin/sh\necho tidegate 0.1.0\n"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def release(tmp_path):
    """A folder with the archives of a release and their sums, and the address where it is published."""
    folder = tmp_path / "release"
    folder.mkdir()
    for target in TARGETS:
        write_archive(folder, target, PROGRAM)
    write_sums(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def write_archive(folder, target, program):
    name = f"tidegate-0.1.0-{target}"
    entry = tarfile.TarInfo(f"{name}/tidegate")
    entry.mode, entry.size = 0o755, len(program)
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as archive:
        archive.addfile(entry, io.BytesIO(program.encode()))


def write_sums(folder):
    archives = sorted(folder.glob("*.tar.gz"))
    sums = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in archives)
    (folder / "SHA256SUMS").write_text("".join(sums))


@pytest.fixture
def install(tmp_path):
    """`install(arguments…, PREFIX=…, path=…)` runs the script for somebody whose home is empty."""
    home = tmp_path / "home"
    home.mkdir()

    def run(*arguments, path=None, piped=False, **env):
        before = f"{path}:" if path else ""
        return subprocess.run(
            ["sh", "-s", "--", *arguments] if piped else ["sh", SCRIPT, *arguments],
            input=SCRIPT.read_text() if piped else "",
            env={"HOME": str(home), "PATH": before + os.environ["PATH"], **env},
            capture_output=True,
            text=True,
            timeout=60,
        )

    run.home = home
    return run


def refused(install, run, *words):
    """One sentence, and nothing is there."""
    assert run.returncode == 1 and run.stdout == "", run
    assert run.stderr.startswith("install.sh: ") and run.stderr.endswith("; nothing was installed\n"), run
    assert run.stderr.count("\n") == 1 and all(word in run.stderr for word in words), run
    assert [path for path in install.home.rglob("*") if path.is_file()] == [], run


def only(tmp_path, *names):
    """A folder for PATH with these programs of the system, and no others."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in names:
        [found] = [path for path in (f"/bin/{name}", f"/usr/bin/{name}") if os.path.exists(path)][:1]
        (folder / name).symlink_to(found)
    return str(folder)


def fake(tmp_path, name, text):
    folder = tmp_path / "fakes"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("piped", [False, True])
def test_it_installs_the_program_for_this_machine(install, release, piped):
    _, url = release
    run = install(f"{url}/", piped=piped)
    assert run.returncode == 0 and run.stderr == "", run
    program = install.home / ".local/bin/tidegate"
    assert program.read_text() == PROGRAM
    assert run.stdout.startswith("tidegate 0.1.0") and f"installed: {program}\n" in run.stdout, run
    assert "is not on PATH" in run.stdout, run
    assert [path.name for path in program.parent.iterdir()] == ["tidegate"]
    # Over the program that is there.
    assert install(url).returncode == 0


def test_the_address_and_the_place_may_be_variables(install, release, tmp_path):
    _, url = release
    there = tmp_path / "opt"
    run = install(TIDEGATE_URL=url, PREFIX=str(there), path=there / "bin")
    assert run.returncode == 0 and "not on PATH" not in run.stdout, run
    assert (there / "bin/tidegate").stat().st_mode & 0o111
    assert list(install.home.iterdir()) == []


def test_wget_will_do(install, release, tmp_path):
    tools = (
        "sh",
        "wget",
        "tar",
        "gzip",
        "sha256sum",
        "mktemp",
        "uname",
        "grep",
        "wc",
        "cut",
        "rm",
        "mkdir",
        "cp",
        "mv",
        "head",
    )
    run = install(release[1], PATH=only(tmp_path, *tools, "chmod"))
    assert run.returncode == 0, run
    assert (install.home / ".local/bin/tidegate").exists()


def test_another_sum_is_refused(install, release):
    folder, url = release
    archive = folder / f"tidegate-0.1.0-{OWN}.tar.gz"
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    refused(
        install,
        install(url),
        archive.name,
        "is not what SHA256SUMS says",
        hashlib.sha256(archive.read_bytes()).hexdigest(),
    )


def test_an_unknown_machine_is_named(install, release, tmp_path):
    path = fake(tmp_path, "uname", "case $1 in -s) echo Linux ;; *) echo riscv64 ;; esac")
    refused(install, install(release[1], path=path), "no program for the processor riscv64", "x86_64 and aarch64")
    path = fake(tmp_path, "uname", "echo Darwin")
    refused(install, install(release[1], path=path), "for Linux, and this is Darwin")


def test_a_release_without_this_machine_is_named(install, release):
    folder, url = release
    (folder / f"tidegate-0.1.0-{OWN}.tar.gz").unlink()
    write_sums(folder)
    refused(install, install(url), f"{url}/SHA256SUMS has no archive for {OWN}")


def test_two_versions_in_one_folder_are_refused(install, release):
    folder, url = release
    archive = folder / f"tidegate-0.1.0-{OWN}.tar.gz"
    archive.with_name(f"tidegate-0.2.0-{OWN}.tar.gz").write_bytes(archive.read_bytes())
    write_sums(folder)
    refused(install, install(url), "several archives")


def test_no_address_and_a_wrong_one(install, release):
    refused(install, install(), "give the address of the release")
    refused(install, install(release[1], "more"), "one argument is expected")
    run = install(f"{release[1]}/elsewhere")
    assert run.returncode == 1 and run.stderr.endswith(
        f"{release[1]}/elsewhere/SHA256SUMS could not be fetched; nothing was installed\n"
    )


def test_a_program_that_does_not_run_is_not_installed(install, release):
    folder, url = release
    write_archive(folder, OWN, "#!/bin/sh\nexit 1\n")
    write_sums(folder)
    refused(install, install(url), "the program does not run on this machine")


def test_everybody_can_run_it_whatever_the_mask(install, release):
    _, url = release
    before = os.umask(0o077)
    try:
        run = install(url)
    finally:
        os.umask(before)
    assert run.returncode == 0, run
    assert (install.home / ".local/bin/tidegate").stat().st_mode & 0o777 == 0o755


def test_a_directory_in_its_place_stays(install, release):
    _, url = release
    (install.home / ".local/bin/tidegate").mkdir(parents=True)
    refused(install, install(url), "is a directory")


def test_a_password_is_not_printed(install):
    run = install("http://me:s3cret@127.0.0.1:1")
    assert run.returncode == 1 and "install.sh: http://127.0.0.1:1/SHA256SUMS could not be fetched" in run.stderr, run
    assert "s3cret" not in run.stderr
