"""Completion in real shells: what is on the line after a Tab."""

import fcntl
import os
import pty
import select
import shutil
import socket
import subprocess
import termios
import time

import pytest

from harness.command import binary, clean_env
from harness.process import die_with_parent

# How a shell is started without the user's own settings; how it learns to complete; and a command that writes its
# arguments into a file, whose name is the first.
SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        'source <(tidegate completions bash); record() { printf "%s\\n" "${@:2}" >"$1.part"; mv "$1.part" "$1"; }',
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -Uz compinit; compinit -u -D; bindkey -e; source <(tidegate completions zsh); "
        'record() { printf "%s\\n" "${@:2}" >"$1.part"; mv "$1.part" "$1"; }',
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        "tidegate completions fish | source; "
        'function record; printf "%s\\n" $argv[2..] >$argv[1].part; mv $argv[1].part $argv[1]; end',
    ),
}
LIMIT = 30
HOME, TAB = "\x01", "\t"


class Shell:
    """An interactive shell at a terminal."""

    def __init__(self, name, folder, env):
        self.folder = folder
        self.asked = 0
        command, setup = SHELLS[name]
        path = f"{binary().parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "TERM": "dumb", "PS1": "$ ", "HOME": str(folder), "INPUTRC": "/dev/null"}
        self.terminal, inner = pty.openpty()

        def take_terminal():
            die_with_parent()
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=folder,
            env=clean_env(env | own),
            preexec_fn=take_terminal,
        )
        os.close(inner)
        # A shell that starts may throw away what was typed before.
        started = folder / "started"
        self.type(f"{setup}; echo >{started}\n")
        self.until("the shell is ready", started.exists)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def until(self, what, is_true):
        """Reads what the shell shows, so that it can go on, until something is true."""
        end, shown = time.monotonic() + LIMIT, b""
        while not is_true():
            assert time.monotonic() < end, f"not within {LIMIT} s: {what}; the terminal shows …{shown[-300:]!r}"
            if select.select([self.terminal], [], [], 0.05)[0]:
                shown += os.read(self.terminal, 65536)

    def completed(self, typed, after=""):
        """The arguments of `tidegate` when `typed`, a Tab, and `after` are typed."""
        self.asked += 1
        answer = self.folder / f"answer{self.asked}"
        # The line is not run: another command in front of it takes it.
        self.type(f"tidegate {typed}{TAB}{after}{HOME}record {answer} \n")
        self.until(f"{typed!r} is completed", answer.exists)
        command, *arguments = answer.read_text().splitlines()
        assert command == "tidegate", arguments
        return arguments

    def close(self):
        self.process.kill()
        self.process.wait(10)
        os.close(self.terminal)


@pytest.fixture(params=list(SHELLS))
def shell(request, tmp_path):
    """`shell(env)` starts one in a folder of its own."""
    if not shutil.which(request.param):
        pytest.skip(f"there is no {request.param}")
    shells = []

    def start(env):
        shells.append(Shell(request.param, tmp_path, env))
        return shells[-1]

    yield start
    for one in shells:
        one.close()


def test_buckets_and_keys_are_completed(shell, on, tmp_path):
    for key in ("logs/2026/a.gz", "logs/one file.txt", "other"):
        on.put(key, b"x")
    at = shell(on.env)
    beginning = on.name[:-2]
    # A bucket is not the end of a URL: there is no space after it.
    assert at.completed(f"ls s3://{beginning}", "x") == ["ls", f"s3://{on.name}/x"]
    assert at.completed(f"ls s3://{on.name}/lo", "x") == ["ls", f"s3://{on.name}/logs/x"]
    assert at.completed(f"ls s3://{on.name}/logs/20", "a") == ["ls", f"s3://{on.name}/logs/2026/a"]
    # An object is, and what follows it is another argument.
    assert at.completed(f"cp s3://{on.name}/ot", ".") == ["cp", f"s3://{on.name}/other", "."]
    assert at.completed(f"cat s3://{on.name}/logs/one") == ["cat", f"s3://{on.name}/logs/one file.txt"]
    # Within quotes, a shell ends the quotation itself.
    assert at.completed(f'cat "s3://{on.name}/logs/one', ".") == ["cat", f"s3://{on.name}/logs/one file.txt", "."]
    assert at.completed(f"ls --prefixed=s3://{beginning}", "x") == ["ls", f"--prefixed=s3://{on.name}/x"]
    # A local path, as the second argument.
    (tmp_path / "target").mkdir()
    assert at.completed(f"cp s3://{on.name}/other tar", "x") == ["cp", f"s3://{on.name}/other", "target/x"]


@pytest.mark.parametrize("shell", ["bash"], indirect=True)
def test_a_key_is_never_run(shell, on, tmp_path):
    """A key is inserted for the quotation that the line is in, or not at all: bash inserts what it gets as it is."""
    run = "$(touch OWNED)"
    keys = [
        run,
        "`touch OWNED`",
        f"it's {run} x",
        f'a" {run} "b',
        "x'; touch OWNED; 'y",
        f"x\\{run}",
        "a!b",
        "end'",
        'end"',
    ]
    for number, key in enumerate(keys):
        on.put(f"{number}/{key}", b"x")
    at = shell(on.env)
    cannot = {
        ('"', "`touch OWNED`"),
        ("'", "`touch OWNED`"),
        ("", "`touch OWNED`"),
        ('"', "a!b"),
        ("'", "end'"),
        ('"', 'end"'),
    }
    for opened in ('"', "'", ""):
        for number, key in enumerate(keys):
            whole = f"s3://{on.name}/{number}/"
            is_offered = (opened, key) not in cannot
            found = at.completed(f"cat {opened}{whole}", "" if is_offered else opened)
            assert found == ["cat", whole + key if is_offered else whole], opened
            assert not (tmp_path / "OWNED").exists(), (opened, key)
    # A quotation that has ended, one in the middle of the word, one that the shell reads in another way, and a cursor
    # before the quote that ends it.
    assert at.completed(f'cat "s3://{on.name}/"0/') == ["cat", f"s3://{on.name}/0/{run}"]
    assert at.completed(f"cat s3://{on.name}/'2/") == ["cat", f"s3://{on.name}/2/{keys[2]}"]
    assert at.completed(f"cat s3://{on.name}/$'4/", "'") == ["cat", f"s3://{on.name}/4/"]
    at.completed(f'cat "s3://{on.name}/0/"\x02', "")
    at.completed(f"cat 's3://{on.name}/4/'\x02", "")
    assert not (tmp_path / "OWNED").exists()


def test_names_that_a_terminal_acts_on_are_not_offered(shell, on):
    for key in ("c1\x9b31mx", "bidi\u202egpj", "sep\u2028x", "fine"):
        on.put(f"k/{key}", b"x")
    at = shell(on.env)
    assert at.completed(f"cat s3://{on.name}/k/", ".") == ["cat", f"s3://{on.name}/k/fine", "."]


def test_names_and_profiles_are_completed(shell, tmp_path):
    (tmp_path / "config").write_text("[default]\n[profile archive]\nregion = us-east-1\n")
    at = shell({"AWS_CONFIG_FILE": str(tmp_path / "config")})
    assert at.completed("syn", ".") == ["sync", "."]
    assert at.completed("cp --str", "put") == ["cp", "--strategy", "put"]
    assert at.completed("cp --strategy par", ".") == ["cp", "--strategy", "parallel", "."]
    assert at.completed("cp --strategy=sp", ".") == ["cp", "--strategy=spool", "."]
    assert at.completed("ls --profile ar", ".") == ["ls", "--profile", "archive", "."]
    assert at.completed("ls s3:", "x") == ["ls", "s3://x"]
    assert at.completed("man journal-r", ".") == ["man", "journal-resume", "."]


def test_options_of_the_line_lead_to_the_store(shell, minio, on, tmp_path):
    on.put("here", b"x")
    env = dict(on.env)
    endpoint = env.pop("AWS_ENDPOINT_URL")
    at = shell(env)
    line = f"ls --endpoint-url {endpoint} s3://{on.name}/he"
    assert at.completed(line, ".") == ["ls", "--endpoint-url", endpoint, f"s3://{on.name}/here", "."]


def test_what_cannot_be_asked_proposes_nothing(shell, tmp_path):
    """Neither a store that never answers, nor a store of dev:// that is not there."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
        at = shell(keys | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"})
        began = time.monotonic()
        assert at.completed("ls s3://b", "x") == ["ls", "s3://bx"]
        assert time.monotonic() - began < 10
        assert at.completed("ls dev://b", "x") == ["ls", "dev://bx"]
    assert not (tmp_path / ".tidegate-dev").exists()


def test_buckets_of_dev_are_completed(shell, tidegate, tmp_path):
    (tmp_path / "file").write_text("x")
    assert tidegate("cp", "file", "dev://trial/a/key", cwd=tmp_path).exit == 0
    at = shell({})
    assert at.completed("ls dev://tr", "x") == ["ls", "dev://trial/x"]
    assert at.completed("cat dev://trial/a/k", ".") == ["cat", "dev://trial/a/key", "."]


def test_google_is_completed(shell, google_bucket):
    google_bucket.put("folder/key", b"x")
    at = shell(google_bucket.env)
    assert at.completed(f"ls gs://{google_bucket.name}/fo", "x") == ["ls", f"gs://{google_bucket.name}/folder/x"]


def test_a_program_that_asks_gets_lines(tidegate, on):
    """What a script sends, whatever the shell."""
    on.put("a/key", b"x")
    words = ["tidegate", "ls", f"s3://{on.name}/"]
    run = tidegate("complete", "fish", "--index", "2", "--", *words, env=on.env)
    assert (run.exit, run.text, run.err) == (0, f"s3://{on.name}/a/\n", ""), run
    run = tidegate("complete", "bash", "--index", "2", "--fixed=s3:", "--", *words, env=on.env)
    assert run.text == f"//{on.name}/a/\n", run
    run = tidegate("complete", "zsh", "--index", "1", "--", "tidegate", "mb", env=on.env)
    assert run.text == "mb\tCreate a bucket (make bucket)\n", run
