"""Each artefact: installed, and used."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
import time
import venv
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.process import Server, free_port
from harness.s3 import Bucket
from packages.conftest import AARCH64, QEMU, ROOT, TOOLS, rows, sh

CHIPS = {"amd64": "x86_64", "arm64": "aarch64"}
IMAGE_USER = 65532
MOST_IMAGE_BYTES = 25_000_000

#: What a Python program does first, and how long after its start.
FIRST_STEPS = """
import sys, tidegate
url, options = sys.argv[1], dict(word.split("=", 1) for word in sys.argv[2:])
with tidegate.open(url, "w", **options) as file:
    file.write("hello, tide")
assert tidegate.open(url, **options).read() == "hello, tide"
"""

#: The file system of Arrow that the wheel has, and no other.
ARROW_STEPS = """
import sys, pyarrow, pyarrow.parquet, tidegate.arrow
url, options = sys.argv[1], dict(word.split("=", 1) for word in sys.argv[2:])
table, files = pyarrow.table({"n": range(1000)}), tidegate.arrow.filesystem(url, **options)
pyarrow.parquet.write_table(table, "table.parquet", filesystem=files)
assert pyarrow.parquet.read_table("table.parquet", filesystem=files).equals(table)
"""


def test_the_sums_are_those_of_the_files(release):
    sh("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=release.folder)
    named = {line.split("  ", 1)[1] for line in (release.folder / "SHA256SUMS").read_text().splitlines()}
    assert named == {path.name for path in release.folder.iterdir() if path.is_file()} - {"SHA256SUMS"}


def test_the_inventory_names_the_crates(release):
    bom = json.loads(release.file("tidegate-{version}.cdx.json").read_text())
    assert bom["bomFormat"] == "CycloneDX" and bom["metadata"]["component"]["version"] == release.version
    names = {component["name"] for component in bom["components"]}
    assert {"tidegate", "tidegate-cli", "tidegate-python", "tokio", "rustls", "ring", "pyo3"} <= names
    # What only tests and build scripts use is not shipped.
    assert not {"proptest", "cc", "tidegate-sim"} & names
    texts = release.file("THIRD-PARTY-LICENSES.txt").read_text()
    assert "\ntokio " in texts and "Permission is hereby granted" in texts


def test_the_formula_names_the_archives(release):
    """No more can be said of it here: there is no Homebrew."""
    formula = release.file("tidegate.rb").read_text()
    for chip in CHIPS.values():
        archive = release.file(f"tidegate-{{version}}-{chip}-unknown-linux-gnu.tar.gz")
        assert f'/{archive.name}"\n' in formula and hashlib.sha256(archive.read_bytes()).hexdigest() in formula


@pytest.mark.parametrize("chip", CHIPS.values())
def test_the_archive(release, use, make_installed, tmp_path, chip):
    """The one for this processor by `install.sh`, from a web server."""
    archive = release.file(f"tidegate-{{version}}-{chip}-unknown-linux-gnu.tar.gz")
    began = time.monotonic()
    if chip == "x86_64":
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=release.folder))
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            sh("sh", release.file("install.sh"), url, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
        finally:
            server.shutdown()
            server.server_close()
        start, where = [tmp_path / ".local/bin/tidegate"], "a home, by install.sh"
    else:
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path, filter="data")
        start = [QEMU, "-L", AARCH64, tmp_path / archive.name.removesuffix(".tar.gz") / "tidegate"]
        where = "a folder, qemu-user"
    use(make_installed(start), archive, where, began)


@pytest.fixture(scope="module")
def chroot(tmp_path_factory):
    """A small Debian that has never seen Tidegate."""
    root = tmp_path_factory.mktemp("debian")
    tool = TOOLS / "debootstrap/usr"
    env = {**os.environ, "DEBOOTSTRAP_DIR": str(tool / "share/debootstrap")}
    sh(tool / "sbin/debootstrap", "--variant=minbase", "bookworm", root, env=env, timeout=900)
    yield root
    shutil.rmtree(root)


def test_the_deb_in_a_chroot(release, use, make_installed, chroot):
    deb = release.file("tidegate_{version}_amd64.deb")
    shutil.copy(deb, chroot / "tmp")
    began = time.monotonic()
    sh("chroot", chroot, "dpkg", "--install", f"/tmp/{deb.name}")
    (chroot / "work").mkdir()
    use(
        make_installed(["chroot", chroot, "/usr/bin/tidegate"], chroot / "work", "/work"),
        deb,
        "Debian 12, chroot",
        began,
    )
    files = sh("chroot", chroot, "dpkg", "--listfiles", "tidegate").splitlines()
    for path in (
        "/usr/bin/tidegate",
        "/usr/share/man/man1/tidegate-cp.1.gz",
        "/usr/share/doc/tidegate/copyright",
    ):
        assert path in files and (chroot / path[1:]).exists(), path
    sh("chroot", chroot, "dpkg", "--purge", "tidegate")
    assert not (chroot / "usr/bin/tidegate").exists()


def test_the_deb_for_aarch64(release, use, make_installed, tmp_path):
    deb = release.file("tidegate_{version}_arm64.deb")
    root = tmp_path / "root"
    shutil.copytree(AARCH64, root, symlinks=True)
    (root / "var/lib/dpkg/updates").mkdir(parents=True)
    (root / "var/lib/dpkg/status").touch()
    began = time.monotonic()
    # The C library is there, but no package manager has put it there.
    force = ("--force-architecture", "--force-depends")
    sh("dpkg", f"--root={root}", f"--log={tmp_path}/log", *force, "--install", deb)
    start = [QEMU, "-L", root, root / "usr/bin/tidegate"]
    use(make_installed(start), deb, "an empty root, qemu-user", began)


def own_python(folder):
    venv.create(folder, with_pip=True)
    return [folder / "bin/python"]


def emulated_python(folder):
    """A Python for aarch64 with an environment of its own."""
    python = AARCH64 / "usr/bin/python3.11"
    # Its pip is that of Debian: a new process, which installing one takes, would not be emulated.
    sh(QEMU, "-L", AARCH64, python, "-m", "venv", "--without-pip", folder, timeout=300)
    return [QEMU, "-L", AARCH64, folder / "bin/python"]


@pytest.mark.parametrize("chip, prepare", [("x86_64", own_python), ("aarch64", emulated_python)])
def test_the_wheel_in_a_new_environment(release, use, make_installed, embedded, tmp_path, chip, prepare):
    wheel = release.file(f"tidegate-{{version}}-*_{chip}.whl")
    assert f"manylinux2014_{chip}" in wheel.name
    folder = tmp_path / "venv"
    began = time.monotonic()
    python = prepare(folder)
    env = dict(os.environ)
    if chip == "aarch64":
        [pip] = AARCH64.glob("usr/share/python-wheels/pip-*.whl")
        env["PYTHONPATH"] = str(pip)
    sh(*python, "-m", "pip", "install", "--disable-pip-version-check", "--no-index", wheel, env=env, timeout=300)

    bucket = Bucket(embedded.endpoint)
    settings = {"endpoint_url": embedded.endpoint.url, "access_key": embedded.endpoint.access_key}
    settings |= {"secret_key": embedded.endpoint.secret_key, "region": "us-east-1"}
    words = [f"{name}={value}" for name, value in settings.items()]
    sh(*python, "-c", FIRST_STEPS, bucket.url("hello.txt"), *words)
    emulator = python[:-1]
    where = "a new venv, qemu-user" if emulator else "a new venv"
    use(make_installed([*emulator, folder / "bin/tidegate"]), wheel, where, began)
    if not emulator:
        arrow = re.search(r"^pyarrow==.*$", (ROOT / "scripts/requirements.txt").read_text(), re.MULTILINE)[0]
        sh(*python, "-m", "pip", "install", "--disable-pip-version-check", arrow, timeout=300)
        sh(*python, "-W", "error", "-c", ARROW_STEPS, bucket.url(""), *words)
        # With its own program, not the one under test.
        env = {name: value for name, value in os.environ.items() if name != "TIDEGATE_BIN"}
        sh(*python, ROOT / "scripts/wheel-check", wheel, env=env)


@pytest.mark.parametrize("chip", CHIPS.values())
def test_the_c_library(release, tmp_path, chip):
    """A program in C, compiled with what the archive holds."""
    archive = release.file(f"tidegate-c-{{version}}-{chip}-unknown-linux-gnu.tar.gz")
    began = time.monotonic()
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    prefix = tmp_path / archive.name.removesuffix(".tar.gz")
    assert (prefix / "share/man/man3/tg_writer.3").exists()
    symbols = sh("nm", "-D", "--defined-only", prefix / "lib/libtidegate.so.1").splitlines()
    assert symbols and {line.split()[-1][:3] for line in symbols} == {"tg_"}
    zig = [ROOT / ".tools/release-tools/bin/python", "-m", "ziglang"]
    compilers = {"x86_64": ["cc"], "aarch64": [*zig, "cc", "-target", "aarch64-linux-gnu.2.36"]}
    emulator = [] if chip == "x86_64" else [QEMU, "-L", AARCH64, "-E", f"LD_LIBRARY_PATH={prefix}/lib"]
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"), "LD_LIBRARY_PATH": f"{prefix}/lib"}
    flags = sh("pkg-config", "--cflags", "--libs", "tidegate", env=env).split()
    objects, program = tmp_path / "objects", tmp_path / "read_ranges"
    objects.mkdir()
    (objects / "table").write_bytes(b"0123456789")
    sh(*compilers[chip], ROOT / "examples/c/read_ranges.c", *flags, "-o", program)
    assert sh(*emulator, program, objects, "table", "1-2", env=env) == "1-2: 3132\n"
    seconds = time.monotonic() - began
    where = "a folder" + (", qemu-user" if emulator else "")
    rows.append((archive.name, archive.stat().st_size, where, "compiled, read ranges", seconds))


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """A registry of container images on this machine."""
    port, log = free_port(), tmp_path_factory.mktemp("registry") / "log"
    command = [TOOLS / "bin/crane", "registry", "serve", "--address", f"127.0.0.1:{port}"]
    server = Server("crane registry", command, log)
    ready = lambda: (
        not subprocess.run([TOOLS / "bin/crane", "catalog", f"127.0.0.1:{port}"], capture_output=True).returncode
    )
    server.wait_ready(ready)
    yield f"127.0.0.1:{port}"
    server.stop()


@pytest.mark.parametrize("architecture", CHIPS)
def test_the_image(release, use, make_installed, registry, tmp_path, architecture):
    """Through a registry, which refuses what breaks the specification, and unpacked as its tool sees it."""
    crane = TOOLS / "bin/crane"
    archive = release.file(f"tidegate-{{version}}-image-{architecture}.tar")
    assert archive.stat().st_size <= MOST_IMAGE_BYTES, f"the image has {archive.stat().st_size} bytes"
    layout, root = tmp_path / "layout", tmp_path / "root"
    began = time.monotonic()
    with tarfile.open(archive) as tar:
        tar.extractall(layout, filter="data")
    name = f"{registry}/tidegate:{release.version}-{architecture}"
    sh(crane, "push", layout, name)
    sh(crane, "validate", "--remote", name)
    config = json.loads(sh(crane, "config", name))
    assert (config["architecture"], config["config"]["User"]) == (architecture, f"{IMAGE_USER}:{IMAGE_USER}")
    assert config["config"]["Entrypoint"] == ["/usr/bin/tidegate"]
    sh(crane, "export", "--platform", f"linux/{architecture}", name, tmp_path / "image.tar")
    root.mkdir()
    # As root, with the owners that the image names.
    sh("tar", "--same-owner", "-xpf", tmp_path / "image.tar", "-C", root)
    assert b"BEGIN CERTIFICATE" in (root / "etc/ssl/certs/ca-certificates.crt").read_bytes()
    home = root / "home/tidegate"
    assert home.stat().st_uid == IMAGE_USER
    emulator = []
    if architecture == "arm64":
        shutil.copy(QEMU, root / "qemu")
        emulator = ["/qemu"]
    start = ["env", "HOME=/home/tidegate", "chroot", f"--userspec={IMAGE_USER}:{IMAGE_USER}", root, *emulator]
    # The state of the tests' own home is not the image's.
    start = [*start[:1], "-u", "XDG_STATE_HOME", *start[1:], "/usr/bin/tidegate"]
    where = "a root of its own, as user 65532" + (", qemu-user" if emulator else "")
    use(make_installed(start, home, "/home/tidegate"), archive, where, began)


def test_each_artefact_has_the_licences(release, tmp_path):
    """Its own, and those of the crates that are in it."""
    for name in ("tidegate-dev", "tidegate", "tidegate-transfer", "tidegate-cli"):
        with tarfile.open(release.file(f"{name}-{{version}}.crate")) as crate:
            assert crate.extractfile(f"{name}-{release.version}/LICENSE").read() == (ROOT / "LICENSE").read_bytes()
    with tarfile.open(release.file("tidegate-{version}.tar.gz")) as sources:
        assert (
            sources.extractfile(f"tidegate-{release.version}/licenses/LICENSE").read()
            == (ROOT / "LICENSE").read_bytes()
        )
    wheels = list(release.folder.glob("*.whl"))
    assert len(wheels) == len(CHIPS)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as unpacked:
            names = unpacked.namelist()
        info = f"tidegate-{release.version}.dist-info"
        assert {f"{info}/licenses/licenses/{name}" for name in ("LICENSE", "THIRD-PARTY-LICENSES.txt")} <= {*names}
        assert not [name for name in names if "/sboms/" in name]
