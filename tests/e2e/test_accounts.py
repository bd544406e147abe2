"""Two accounts or endpoints in one command: by profiles in URLs, by --source-… options, and never the credentials of one
at the endpoint of the other."""

import re
import secrets
import socket
import subprocess
import threading

import pytest

from harness.process import Server, free_port
from harness.s3 import REGION, Bucket, Endpoint
from harness.servers import answers, tool

FILES = {"a": b"1", "b/c": b"22", "b/d": b"333" * 1000, "é": b""}
# What is in the environment is of a third account, which no server knows, at an address where nothing listens.
STRANGER = {
    "AWS_PROFILE": "nobody",
    "AWS_ACCESS_KEY_ID": "stranger",
    "AWS_SECRET_ACCESS_KEY": "stranger-secret",
    "AWS_SESSION_TOKEN": "stranger-token",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_REGION": "eu-nowhere-1",
}


class Recorder:
    """A way to a server that remembers the access keys of the requests that pass."""

    def __init__(self, url):
        host, port = url.removeprefix("http://").split(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._seen = bytearray()
        self._threads = []
        self._start(self._accept)

    @property
    def keys(self):
        return {key.decode() for key in re.findall(rb"Credential=([^/]+)/", self._seen)}

    @property
    def tokens(self):
        return re.findall(rb"(?i)x-amz-security-token: *(\S+)", self._seen)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # It is closed.
            self._start(self._serve, client)

    def _start(self, what, *arguments):
        thread = threading.Thread(target=what, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _serve(self, client):
        with client, socket.create_connection(self._upstream) as server:
            back = self._start(self._pass, server, client, bytearray())
            self._pass(client, server, self._seen)
            back.join()

    @staticmethod
    def _pass(source, target, seen):
        try:
            while data := source.recv(1 << 16):
                seen += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # The other side has left.

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive(), "a connection of a program that has ended stays open"


@pytest.fixture
def here(minio):
    bucket = Bucket(minio.endpoint)
    for key, body in FILES.items():
        bucket.put(f"t/{key}", body)
    return bucket


@pytest.fixture
def there(versitygw):
    return Bucket(versitygw.endpoint)


@pytest.fixture
def config(tmp_path):
    """`config(here=endpoint, …)` is the environment of a user with these profiles."""

    def make(**profiles):
        file = tmp_path / "aws-config"
        file.write_text(
            "".join(
                f"[profile {name}]\nregion = {REGION}\nendpoint_url = {at.url}\n"
                f"aws_access_key_id = {at.access_key}\naws_secret_access_key = {at.secret_key}\n"
                for name, at in profiles.items()
            )
        )
        return {"AWS_CONFIG_FILE": str(file)}

    return make


@pytest.fixture(params=["urls", "profiles", "endpoint"])
def way(request, here, there, config):
    """Options, the source's and the target's URL, and the environment, by each of the three ways."""
    profiles = config(here=here.endpoint, there=there.endpoint)
    match request.param:
        case "urls":
            return (), f"s3://here@{here.name}/", f"s3://there@{there.name}/", {**profiles, **STRANGER}
        case "profiles":
            keys = {**profiles, "AWS_ACCESS_KEY_ID": "stranger", "AWS_SECRET_ACCESS_KEY": "stranger-secret"}
            return ("--source-profile", "here", "--profile", "there"), here.url(), there.url(), keys
        case "endpoint":
            keys = {**here.env, **profiles}
            del keys["AWS_ENDPOINT_URL"]
            options = ("--source-endpoint-url", here.endpoint.url, "--profile", "there")
            return options, here.url(), there.url(), keys


def stored(bucket, prefix=""):
    return {key.removeprefix(prefix): bucket.get(key) for key in bucket.keys(prefix)}


def test_objects_and_trees_go_from_one_account_to_another(tidegate, way, here, there):
    options, source, target, env = way
    run = tidegate("cp", *options, f"{source}t/b/c", f"{target}one", env=env)
    assert run.exit == 0 and there.get("one") == b"22", run
    run = tidegate("cp", "-r", *options, f"{source}t/", f"{target}tree/", env=env)
    assert run.exit == 0 and stored(there, "tree/") == FILES, run
    run = tidegate("sync", *options, f"{source}t", f"{target}synced", env=env)
    assert run.exit == 0 and stored(there, "synced/") == FILES, run
    run = tidegate("check", *options, f"{source}t", f"{target}synced", env=env)
    assert run.exit == 0 and "4 objects compared, no difference" in run.err, run
    there.put("synced/extra", b"")
    run = tidegate("check", *options, f"{source}t", f"{target}synced", env=env)
    assert run.exit == 1 and run.text.split() == ["extra", "extra"], run
    run = tidegate("sync", "--delete", *options, f"{source}t", f"{target}synced", env=env)
    assert run.exit == 0 and stored(there, "synced/") == FILES, run
    assert stored(here, "t/") == FILES
    run = tidegate("mv", *options, f"{source}t/b/c", f"{source}t/a", f"{target}moved/", env=env)
    assert run.exit == 0 and stored(there, "moved/") == {"c": b"22", "a": b"1"}, run
    assert stored(here, "t/") == {"b/d": FILES["b/d"], "é": b""}


def test_a_url_with_a_profile_works_in_every_command(tidegate, here, there, config, tmp_path):
    env = {**config(here=here.endpoint, there=there.endpoint), **STRANGER}
    url = f"s3://here@{here.name}/t/a"
    run = tidegate("cat", url, f"s3://here@{here.name}/t/b/c", env=env)
    assert (run.exit, run.out) == (0, b"122"), run
    run = tidegate("cp", url, tmp_path / "a", env=env)
    assert run.exit == 0 and (tmp_path / "a").read_bytes() == b"1", run
    run = tidegate("cp", tmp_path / "a", f"s3://there@{there.name}/up", env=env)
    assert run.exit == 0 and there.get("up") == b"1" and f"s3://there@{there.name}/up" in run.err, run
    bucket = f"s3://there@t-{secrets.token_hex(6)}"
    for command in (("mb", bucket), ("rb", bucket)):
        run = tidegate(*command, env=env)
        assert run.exit == 0 and bucket in run.err, run


def test_a_profile_in_a_url_is_a_whole_account(tidegate, here, there, config, tmp_path):
    """No option of the connection counts for it: as a source, as a target, in a list, and among other URLs."""
    profiles = {**config(here=here.endpoint, there=there.endpoint), **STRANGER}
    nowhere = ("--endpoint-url", "http://127.0.0.1:9", "--region", "nowhere-1")
    (tmp_path / "f").write_bytes(b"1")
    ours, theirs = f"s3://here@{here.name}", f"s3://there@{there.name}"
    for words in [("cp", tmp_path / "f", f"{ours}/f"), ("cp", f"{ours}/f", f"{theirs}/f"), ("cat", f"{theirs}/f")]:
        run = tidegate(*words, *nowhere, env=profiles)
        assert run.exit == 0, run
    listed = f"{ours}/f\n".encode()
    run = tidegate("cp", "--files-from", "-", f"{theirs}/list/", *nowhere, env=profiles, stdin=listed)
    assert run.exit == 0 and stored(there) == {"f": b"1", "list/f": b"1"}, run
    for option in ("--source-profile", "--source-endpoint-url", "--source-region"):
        run = tidegate("cp", f"{ours}/f", f"{theirs}/x", option, "here", env=profiles)
        assert run.exit == 2 and option in run.err, run


def test_a_list_of_urls_is_read_from_the_sources_account(tidegate, here, there, config):
    """Without this, `mv` would remove from the target's account."""
    profiles = config(here=here.endpoint, there=there.endpoint)
    here.put("f", b"ours")
    there.put("f", b"theirs")
    options = ("--source-profile", "here", "--profile", "there")
    words = ("mv", "--files-from", "-", there.url("list/"), *options)
    run = tidegate(*words, env=profiles, stdin=here.url("f").encode())
    assert run.exit == 0 and "f" not in stored(here), run
    assert stored(there) == {"f": b"theirs", "list/f": b"ours"}, run


def test_printed_urls_can_be_used_again(tidegate, here, there, config):
    env = {**config(here=here.endpoint, there=there.endpoint), **STRANGER}
    source, target = f"s3://here@{here.name}/t", f"s3://there@{there.name}/t"
    run = tidegate("sync", "--dry-run", source, target, env=env)
    assert run.exit == 0 and f"copy {source}/b/c -> {target}/b/c (2 bytes)" in run.text.splitlines(), run
    run = tidegate("cp", "-r", "--json", f"{source}/", f"{target}/", env=env)
    assert run.exit == 0, run
    for line in run.json:
        assert line["source"].startswith(source) and line["target"].startswith(target), line
        assert tidegate("stat", line["target"], env=env).exit == 0, line
    run = tidegate("ls", "-r", "--json", target, env=env)
    assert {line["url"] for line in run.json} == {f"{target}/{key}" for key in FILES}, run
    run = tidegate("rm", f"{target}/nothing", env=env)
    assert run.exit == 3 and f"{target}/nothing" in run.err, run


@pytest.mark.parametrize("more", [{}, {"AWS_REGION": REGION}, STRANGER])
def test_a_profile_that_is_not_there_is_one_error(tidegate, here, config, more, tmp_path):
    env = {**config(here=here.endpoint), **more}
    target = here.url() if not more else f"s3://here@{here.name}/"
    for command in (
        ("ls", f"s3://nobody@{here.name}/"),
        ("cp", "--source-profile", "nobody", f"s3://{here.name}/t/a", tmp_path / "a"),
        ("cp", "-r", f"s3://nobody@{here.name}/t/", target),
    ):
        run = tidegate(*command, env=env)
        assert run.exit in (2, 4), run
        assert run.err.startswith("error: ") and run.err.count("\n") == 1 and "`nobody`" in run.err, run


def test_options_of_the_source_need_a_source_in_s3(tidegate, here, tmp_path):
    (tmp_path / "file").write_bytes(b"1")
    for source in (tmp_path / "file", "-", "gs://bucket/key"):
        run = tidegate("cp", "--source-profile", "p", source, here.url("k"), env=here.env)
        assert run.exit == 2 and run.err.startswith("error: --source-profile: "), run
    run = tidegate(
        "cp", "--source-region", "r", "--prefixed", here.url("t"), here.url("t/a"), here.url("k"), env=here.env
    )
    assert run.exit == 2 and "--prefixed" in run.err, run


@pytest.mark.parametrize("by", ["urls", "options", "target", "anonymous"])
def test_credentials_go_to_their_own_server_only(tidegate, here, there, config, by):
    ways = Recorder(here.endpoint.url), Recorder(there.endpoint.url)
    env = config(here=here.endpoint.at(ways[0].url), there=there.endpoint.at(ways[1].url))
    stranger = {name: text for name, text in STRANGER.items() if name.startswith("AWS_ACCESS") or "SECRET" in name}
    expected = {here.endpoint.access_key}, {there.endpoint.access_key}
    try:
        match by:
            case "urls":
                env |= STRANGER
                arguments = (f"s3://here@{here.name}/t/", f"s3://there@{there.name}/")
            case "options":
                env |= stranger
                arguments = (here.url("t/"), there.url(), "--source-profile", "here", "--profile", "there")
                arguments += ("--endpoint-url", ways[1].url)
            case "target":
                # Only the target has an account of its own.
                env |= here.env | {"AWS_ENDPOINT_URL": ways[0].url}
                arguments = (here.url("t/"), f"s3://there@{there.name}/")
            case "anonymous":
                here.client.put_bucket_policy(
                    Bucket=here.name,
                    Policy='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":'
                    f'["s3:GetObject","s3:ListBucket"],"Resource":["arn:aws:s3:::{here.name}","arn:aws:s3:::{here.name}/*"]}}]}}',
                )
                arguments = (here.url("t/"), there.url(), "--profile", "there", "--source-no-sign-request")
                arguments += ("--source-endpoint-url", ways[0].url)
                expected = set(), expected[1]
        run = tidegate("cp", "-r", *arguments, env=env)
        assert run.exit == 0 and stored(there) == FILES, run
        assert (ways[0].keys, ways[1].keys) == expected
        assert ways[0].tokens == ways[1].tokens == []
    finally:
        for recorder in ways:
            recorder.close()


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """Two users of one versitygw, each with a bucket that the other may not read."""
    folder = tmp_path_factory.mktemp("users")
    (folder / "data").mkdir()
    (folder / "iam").mkdir()
    address = f"127.0.0.1:{free_port()}"
    root = Endpoint(f"http://{address}", "root-user", "root-secret-key")
    server = Server(
        "versitygw",
        [
            tool("versitygw"),
            "--port",
            address,
            "--region",
            REGION,
            "--health",
            "/health",
            "--iam-dir",
            folder / "iam",
            "posix",
            folder / "data",
        ],
        folder / "versitygw.log",
        env={"ROOT_ACCESS_KEY_ID": root.access_key, "ROOT_SECRET_ACCESS_KEY": root.secret_key},
    )
    try:
        server.wait_ready(lambda: answers(f"{root.url}/health"))
        made = []
        for name in ("alice", "robert"):
            user = Endpoint(root.url, name, f"{name}-secret-key")
            admin = [tool("versitygw"), "admin", "--access", root.access_key, "--secret", root.secret_key]
            admin += ["--region", REGION, "--endpoint-url", root.url, "create-user"]
            admin += ["--access", user.access_key, "--secret", user.secret_key, "--role", "userplus"]
            subprocess.run(admin, check=True, capture_output=True, timeout=30)
            made.append(user)
        yield made
    finally:
        server.stop()


@pytest.mark.parametrize("options", [(), ("--source-profile", "alice")])
def test_what_the_targets_account_may_not_read_goes_through_this_machine(tidegate, users, config, options):
    alice, robert = users
    source, target = Bucket(alice), Bucket(robert)
    for key, body in FILES.items():
        source.put(f"t/{key}", body)
    env = config(alice=alice, robert=robert)
    from_alice = f"s3://{source.name}" if options else f"s3://alice@{source.name}"
    to_robert = f"s3://robert@{target.name}"
    run = tidegate("cp", f"s3://robert@{source.name}/t/a", "-", env=env)
    assert run.exit == 4, f"the accounts can read each other's buckets: {run}"
    run = tidegate("cp", *options, f"{from_alice}/t/a", f"{to_robert}/one", env=env)
    assert run.exit == 0 and target.get("one") == b"1", run
    run = tidegate("cp", "-r", *options, f"{from_alice}/t/", f"{to_robert}/tree/", env=env)
    assert run.exit == 0 and stored(target, "tree/") == FILES, run
    run = tidegate("sync", *options, f"{from_alice}/t/", f"{to_robert}/synced/", env=env)
    assert run.exit == 0 and stored(target, "synced/") == FILES, run
    run = tidegate("cp", *options, f"{from_alice}/t/a", f"s3://robert@{source.name}/no", env=env)
    assert run.exit == 4 and "s3://robert@" in run.err and not source.exists("no"), run
