"""The embedded server over TLS."""

import json
import re

import pytest

from harness import MIB
from harness.certificate import Certificate
from harness.forward_proxy import ForwardProxy
from harness.process import until
from harness.s3 import Bucket
from harness.servers import Embedded


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def secure(tmp_path_factory, certificate):
    server = Embedded(tmp_path_factory.mktemp("secure"), certificate=certificate)
    yield server
    server.stop()


@pytest.fixture
def bucket(secure):
    return Bucket(secure.endpoint)


TRUSTING = ("AWS_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


def said_variables(server):
    return dict(re.findall(r"^  export (\w+)=(\S+)$", server.log, re.MULTILINE))


def untrusting(env):
    return {name: value for name, value in env.items() if name not in TRUSTING}


def test_a_file_goes_up_and_down(tidegate, bucket, make_file, tmp_path):
    source, digest = make_file(40 * MIB)
    up = tidegate("cp", source, bucket.url("k"), env=bucket.env)
    assert up.exit == 0, up
    assert bucket.sha256("k") == digest
    down = tidegate("cp", bucket.url("k"), tmp_path / "copy", env=bucket.env)
    assert down.exit == 0, down
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()


def test_the_environments_proxy_is_used_and_its_password_is_not_told(tidegate, secure, bucket, make_file, tmp_path):
    source, digest = make_file(20 * MIB)
    with ForwardProxy() as proxy:
        env = bucket.env | {"HTTPS_PROXY": proxy.url}
        up = tidegate("cp", source, bucket.url("k"), env=env)
        assert up.exit == 0 and bucket.sha256("k") == digest, up
        assert set(proxy.asked) == {("CONNECT", secure.address)}
        down = tidegate("cp", bucket.url("k"), tmp_path / "copy", env=env)
        assert down.exit == 0 and (tmp_path / "copy").read_bytes() == source.read_bytes(), down
        proxy.asked.clear()
        past = tidegate("cp", source, bucket.url("k"), env=env | {"NO_PROXY": "127.0.0.1"})
        assert past.exit == 0 and not proxy.asked, past
        wrong = env | {"HTTPS_PROXY": f"http://someone:guessed@{proxy.address}"}
        refused = tidegate("cp", source, bucket.url("k"), env=wrong)
        assert refused.exit == 1 and len(refused.err.splitlines()) == 1, refused
        assert "failed after 1 attempt" in refused.err
        assert f"the proxy {proxy.address} wants a name and a password, or others" in refused.err
        assert "guessed" not in refused.err


def test_a_proxy_of_another_kind_is_refused(tidegate, bucket, make_file):
    source, _ = make_file(MIB)
    refused = tidegate("cp", source, bucket.url("k"), env=bucket.env | {"ALL_PROXY": "socks5://127.0.0.1:1"})
    assert refused.exit == 2 and len(refused.err.splitlines()) == 1, refused
    assert "is one of socks5: only http and https can be used" in refused.err
    bucket.assert_untouched("k")


def test_who_does_not_know_the_certificate_is_told_how_to(tidegate, secure, bucket, make_file):
    source, _ = make_file(MIB)
    secure.control("DELETE", "counts")
    refused = tidegate("cp", source, bucket.url("k"), env=untrusting(bucket.env))
    assert refused.exit != 0
    (line,) = refused.err.splitlines()
    assert f"the certificate of {secure.address} is not trusted" in line and "AWS_CA_BUNDLE" in line, refused
    assert secure.control("GET", "counts")["requests"] == {}
    bucket.assert_untouched("k")


def test_the_variables_that_it_says_are_enough_for_both_protocols(tidegate, secure, bucket, certificate):
    env = said_variables(secure)
    assert {env[name] for name in TRUSTING} == {str(certificate.path)}
    assert env["AWS_ENDPOINT_URL"] == env["STORAGE_EMULATOR_HOST"] == secure.url
    for url in (bucket.url("of-s3"), f"gs://{bucket.name}/of-google"):
        sent = tidegate("cp", "-", url, env=env, stdin=b"bytes")
        assert sent.exit == 0, sent
    grpc = tidegate("cp", "--gcs-transport", "grpc", "-", f"gs://{bucket.name}/of-grpc", env=env, stdin=b"bytes")
    assert grpc.exit == 0, grpc
    assert [bucket.get(key) for key in bucket.keys()] == [b"bytes"] * 3


def test_dev_goes_through_the_server_that_has_the_directory(tidegate, tmp_path, certificate):
    server = Embedded(tmp_path, "--auto-create-buckets", certificate=certificate)
    try:
        objects = tmp_path / "objects"
        contact = json.loads((objects / "server.json").read_text())
        assert (contact["url"], contact["certificate"]) == (server.url, str(certificate.path))
        env = {"TIDEGATE_DEV_DIR": str(objects)}
        sent = tidegate("cp", "-", "dev://bucket/k", env=env, stdin=b"bytes")
        assert sent.exit == 0, sent
        assert server.control("GET", "counts")["requests"]["PutObject"] == 1
    finally:
        server.stop()


def test_a_certificate_of_another_authority_is_trusted_by_who_trusts_that(tidegate, tmp_path):
    certificate = Certificate(tmp_path, authority="an authority")
    server = Embedded(tmp_path, "--auto-create-buckets", certificate=certificate)
    try:
        assert f"name the file of the authority that signed its certificate in {', '.join(TRUSTING)}" in server.log
        assert not set(TRUSTING) & set(said_variables(server))
        env = {"TIDEGATE_DEV_DIR": str(tmp_path / "objects")}
        refused = tidegate("cp", "-", "dev://bucket/k", env=env, stdin=b"bytes")
        assert refused.exit != 0 and "is not trusted" in refused.err, refused
        env["AWS_CA_BUNDLE"] = str(certificate.authority)
        sent = tidegate("cp", "-", "dev://bucket/k", env=env, stdin=b"bytes")
        assert sent.exit == 0, sent
    finally:
        server.stop()


def test_an_address_that_the_certificate_does_not_name_is_told(tidegate, tmp_path, certificate):
    for address, is_told in (("127.0.0.1", False), ("127.0.0.2", True)):
        files = ("--tls-cert", certificate.path, "--tls-key", certificate.key)
        server = tidegate.start("serve", "--listen", f"{address}:0", "--storage", "memory", *files)
        until("the server has said all", lambda: "Ctrl-C stops it" in server.output_so_far())
        server.interrupt()
        said = server.wait().text
        assert ("its certificate does not name 127.0.0.2" in said) == is_told, said


@pytest.mark.parametrize("missing", ["--tls-cert", "--tls-key"])
def test_one_of_the_two_files_is_not_enough(tidegate, certificate, tmp_path, missing):
    files = {"--tls-cert": certificate.path, "--tls-key": certificate.key}
    (given,) = (option for option in files if option != missing)
    refused = tidegate("serve", given, files[given], cwd=tmp_path)
    assert refused.exit == 2 and missing in refused.err and not list(tmp_path.iterdir()), refused


def test_files_that_are_no_good_are_named_and_nothing_starts(tidegate, certificate, tmp_path):
    files = [(tmp_path / "none.pem", certificate.key), (certificate.key, certificate.key)]
    for path, key in files:
        refused = tidegate("serve", "--tls-cert", path, "--tls-key", key, cwd=tmp_path)
        assert refused.exit == 2 and refused.out == b"", refused
        assert refused.err.startswith(f"error: the certificate {path} cannot be used: "), refused
    refused = tidegate("serve", "--tls-cert", certificate.path, "--tls-key", certificate.path, cwd=tmp_path)
    assert refused.exit == 2, refused
    assert refused.err.startswith(f"error: the private key {certificate.path} cannot be used: "), refused
    assert not list(tmp_path.iterdir())
