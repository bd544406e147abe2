"""Azure Blob Storage as its users reach it: URLs, accounts, credentials, containers, signed URLs."""

import json
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from harness.azure import ACCOUNT, KEY, Container
from harness.lines import one_sentence

ODD = ["a b", "plus+%25", "ü/日本", "$x (1)'&;=#?", "a//b", "-._~!,:@[]"]
HOST = f"{ACCOUNT}.dfs.core.windows.net"


@pytest.fixture
def container(azurite):
    return Container(azurite.endpoint)


def key_env(azurite):
    """The account's key by itself, and where the account is."""
    return {
        "AZURE_STORAGE_ACCOUNT": ACCOUNT,
        "AZURE_STORAGE_KEY": KEY,
        "AZURE_STORAGE_SERVICE_ENDPOINT": f"{azurite.endpoint.url}/{ACCOUNT}",
    }


def sas_env(azurite, permission):
    hour = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    types = ResourceTypes(service=True, container=True, object=True)
    sas = generate_account_sas(ACCOUNT, KEY, types, AccountSasPermissions.from_string(permission), hour)
    env = key_env(azurite) | {"AZURE_STORAGE_SAS_TOKEN": f"?{sas}"}
    del env["AZURE_STORAGE_KEY"]
    return env, sas


def request(url, method="GET", data=None, headers=()):
    asked = urllib.request.Request(url, method=method, data=data, headers=dict(headers))
    try:
        with urllib.request.urlopen(asked, timeout=10) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def test_keys_are_signed_as_they_are_sent(tidegate, container, azurite):
    for at, key in enumerate(ODD):
        body = f"body {at}".encode()
        run = tidegate("cp", "-", container.url(key), stdin=body, env=container.env)
        assert run.exit == 0, run
        assert container.keys().count(key) == 1, (key, container.keys())
        run = tidegate("cat", "--literal", container.url(key), env=key_env(azurite))
        assert run.exit == 0 and run.out == body, run
    run = tidegate("ls", "-r", container.url("a "), env=container.env)
    assert run.exit == 0 and run.text.endswith(" a b\n"), run


@pytest.mark.parametrize(
    "form", ["abfss://{0}@{1}/", "abfs://{0}@{1}/", "wasbs://{0}@{2}/", "https://{2}/{0}/", "azure://{0}/"]
)
def test_a_url_may_name_the_account(tidegate, container, form):
    url = form.format(container.name, HOST, HOST.replace("dfs", "blob"))
    run = tidegate("cp", "-", f"{url}k", stdin=b"data", env=container.env)
    assert run.exit == 0, run
    assert container.size("k") == 4
    run = tidegate("ls", "--json", url, env=container.env)
    root = f"az://{container.name}" if form.startswith("azure") else f"abfss://{container.name}@{HOST}"
    assert [line["url"] for line in run.json] == [f"{root}/k"], run
    run = tidegate("mv", f"{url}k", f"az://{container.name}/k", env=container.env)
    assert run.exit == 2 and "same" in run.err, run
    assert container.size("k") == 4


def test_a_container_by_two_forms_of_its_url_is_one_place(tidegate, container):
    for key in ("a/x", "other"):
        container.put(key, key.encode())
    root, other = container.url(), f"abfss://{container.name}@{HOST}/"
    for source, target in ((f"{root}a/", other), (f"{other}a/", root)):
        run = tidegate("sync", "--delete", source, target, env=container.env)
        assert run.exit == 1 and "--assume-distinct" in run.err and {"a/x", "other"} <= set(container.keys()), run


def test_an_endpoint_may_be_given_for_one_command(tidegate, container, azurite):
    for options in (
        ("--endpoint-url", f"{azurite.endpoint.url}/{ACCOUNT}"),
        ("--endpoint-url", azurite.endpoint.url, "--azure-account", ACCOUNT),
    ):
        run = tidegate("ls", *options, container.url(), env={"AZURE_STORAGE_KEY": KEY})
        assert run.exit == 0, run


def test_a_shared_access_signature_is_used_and_never_shown(tidegate, container, azurite):
    env, sas = sas_env(azurite, "rl")
    container.put("k", b"data")
    run = tidegate("-vv", "cat", container.url("k"), env=env)
    assert run.exit == 0 and run.out == b"data" and sas[-20:] not in run.err, run
    run = tidegate("-vv", "cp", "-", container.url("new"), stdin=b"x", env=env)
    assert run.exit == 4 and sas[-20:] not in run.err and "sig=" not in run.err, run
    env, sas = sas_env(azurite, "rwdlac")
    run = tidegate("-vv", "cp", container.url("k"), container.url("copy"), env=env)
    assert run.exit == 0 and sas[-20:] not in run.err, run
    assert container.sha256("copy") == container.sha256("k")
    run = tidegate("presign", container.url("k"), env=env)
    one_sentence(run, "cannot sign another one", exit=4)


def test_containers_are_made_listed_and_removed(tidegate, container, azurite):
    env, name = container.env, f"{container.name}-2"
    run = tidegate("mb", f"az://{name}", env=env)
    assert run.exit == 0, run
    run = tidegate("mb", f"abfss://{name}@{HOST}", env=env)
    one_sentence(run, name, "exist", exit=1)
    run = tidegate("ls", "--json", "az://", env=env)
    listed = {line["url"]: line["created"] for line in run.json}
    assert run.exit == 0 and f"az://{name}" in listed and container.url().rstrip("/") in listed, run
    container.put("k", b"data")
    run = tidegate("rb", container.url(), env=env)
    one_sentence(run, container.name, "not empty", exit=1)
    assert container.size("k") == 4
    run = tidegate("rb", f"az://{name}", env=env)
    assert run.exit == 0, run
    run = tidegate("rb", f"az://{name}", env=env)
    assert run.exit == 3, run


def test_a_signed_url_reads_or_writes_one_blob(tidegate, container):
    key = ODD[3]
    container.put(key, b"data")
    run = tidegate("presign", container.url(key), env=container.env)
    assert run.exit == 0, run
    [url] = run.text.splitlines()
    assert request(url) == (200, b"data")
    assert request(url, "PUT", b"x", {"x-ms-blob-type": "BlockBlob"})[0] == 403
    assert request(url.split("?")[0])[0] in (403, 404)
    run = tidegate("presign", "--put", "--expires", "10min", container.url("new"), env=container.env)
    [url] = run.text.splitlines()
    assert request(url, "PUT", b"written", {"x-ms-blob-type": "BlockBlob"})[0] == 201
    assert container.size("new") == 7


def test_an_error_says_which_credentials_were_looked_for(tidegate, container, azurite):
    env = key_env(azurite) | {"AZURE_STORAGE_KEY": "d3Jvbmc="}
    run = tidegate("ls", container.url(), env=env)
    one_sentence(run, "the store does not take the account's key", exit=4)
    env["AZURE_STORAGE_KEY"] = "not-base64"
    run = tidegate("ls", container.url(), env=env)
    one_sentence(run, "AZURE_STORAGE_KEY", "base64", exit=4)
    run = tidegate("ls", container.url())
    one_sentence(run, "AZURE_STORAGE_ACCOUNT", exit=2)
    signed = f"https://{HOST.replace('dfs', 'blob')}/{container.name}/k?sv=1&sig=s3cr3t"
    run = tidegate("cat", signed)
    assert "s3cr3t" not in one_sentence(run, "AZURE_STORAGE_SAS_TOKEN", exit=2)


@contextmanager
def token_server(answer):
    """A server of tokens, and the requests that it got."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, dict(self.headers)))
            status, body = answer()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/msi/token", asked
    finally:
        server.shutdown()
        server.server_close()


def test_an_app_service_has_an_identity(tidegate):
    """Tokens go to Azure's own hosts only, so what is seen here ends with the token."""
    expires = str(int(time.time()) + 3600)
    token = {"access_token": "t0ken", "expires_on": expires, "resource": "r", "token_type": "Bearer"}
    env = {"IDENTITY_HEADER": "header", "AZURE_STORAGE_ACCOUNT": "nosuchaccount0"}
    with token_server(lambda: (200, json.dumps(token).encode())) as (url, asked):
        run = tidegate("stat", "az://container/key", env=env | {"IDENTITY_ENDPOINT": url})
        assert run.exit == 5 and "t0ken" not in run.err, run
        assert len(asked) == 1, "one token for all requests"
        [(path, headers)] = asked
        assert "resource=https%3A%2F%2Fstorage.azure.com" in path and headers["x-identity-header"] == "header"
    with token_server(lambda: (400, b"{}")) as (url, asked):
        run = tidegate("stat", "az://container/key", env=env | {"IDENTITY_ENDPOINT": url})
        one_sentence(run, "no token of the managed identity", exit=4)


@pytest.fixture
def stub(container):
    """`stub("d")` makes a directory as blobfuse, Hadoop and Storage Explorer do: an empty blob with a mark."""

    def make(key):
        client = container.endpoint.client().get_container_client(container.name)
        client.upload_blob(key, b"", metadata={"hdi_isfolder": "true"})

    return make


def test_a_tree_is_removed_with_its_directories(tidegate, container, stub):
    container.put("d/a", b"1")
    container.put("d-x", b"1")
    for key in ("d", "d/sub", "d/sub/deep", "other"):
        stub(key)
    listed = tidegate("ls", container.url(), env=container.env)
    assert [line.split()[-1] for line in listed.out.decode().splitlines()] == ["d-x", "d/", "other/"], listed
    shown = tidegate("rm", "-r", "--dry-run", container.url("d/"), env=container.env)
    assert shown.exit == 0 and shown.out.decode().count(container.url("d")) == 4, shown
    filtered = tidegate("rm", "-r", "--include", "sub*", container.url("d/"), env=container.env)
    assert filtered.exit == 0 and "d/sub" in container.keys(), filtered
    run = tidegate("rm", "-r", container.url("d"), env=container.env)
    assert run.exit == 0 and container.keys() == ["d-x", "other"], (run, container.keys())
    # Nothing but a directory is below the container.
    assert tidegate("rm", container.url("d-x"), env=container.env).exit == 0
    run = tidegate("rm", "-r", container.url(), env=container.env)
    assert run.exit == 0 and container.keys() == [] and "1 object" in run.err + run.out.decode(), run
    one_sentence(tidegate("rm", "-r", container.url("gone"), env=container.env), "no object", exit=3)


def test_a_move_takes_the_directories_that_it_empties(tidegate, container, stub, tmp_path):
    for key in ("d/a", "d/full/a", "d/full/b", "d/sub/deep/a", "e/a"):
        container.put(key, b"1")
    for key in ("d", "d/full", "d/sub", "d/sub/deep", "d/empty", "e"):
        stub(key)
    run = tidegate("mv", "-r", "--exclude", "full/b", container.url("d"), tmp_path / "to", env=container.env)
    assert run.exit == 0, run
    assert container.keys() == ["d", "d/empty", "d/full", "d/full/b", "e", "e/a"]
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["a", "full", "sub"]
    run = tidegate("mv", "-r", container.url("e"), container.url("f"), env=container.env)
    assert run.exit == 0 and container.keys() == ["d", "d/empty", "d/full", "d/full/b", "f/a"], run


def test_a_container_of_directories_alone_is_empty(tidegate, container, stub):
    stub("d")
    container.put("d/a", b"1")
    one_sentence(tidegate("rb", f"az://{container.name}", env=container.env), "not empty", exit=1)
    container.endpoint.client().get_container_client(container.name).delete_blob("d/a")
    run = tidegate("rb", f"az://{container.name}", env=container.env)
    assert run.exit == 0, run


def test_a_directory_is_not_replaced_by_a_file(tidegate, container, stub, tmp_path):
    stub("d")
    file = tmp_path / "file"
    file.write_bytes(b"1")
    for words in (("cp", file, container.url("d")), ("mv", file, container.url("d")), ("cp", "-", container.url("d"))):
        one_sentence(tidegate(*words, env=container.env, stdin=b"1"), container.url("d"), "directory", exit=2)
    assert container.keys() == ["d"] and container.size("d") == 0 and file.exists()
    run = tidegate("cp", file, container.url("d/"), env=container.env)
    assert run.exit == 0 and container.keys() == ["d", "d/file"], run
    for words in (("cat", container.url("d")), ("stat", container.url("d"))):
        one_sentence(tidegate(*words, env=container.env), "directory", exit=3)
