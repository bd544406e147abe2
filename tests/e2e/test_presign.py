"""`presign`: URLs that anyone can use, asked for with a plain HTTP client."""

import hashlib
import json
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from harness.lines import one_sentence
from harness.process import until


def request(url, method="GET", data=None):
    """Status and body of one request without credentials."""
    asked = urllib.request.Request(url, method=method, data=data)
    try:
        with urllib.request.urlopen(asked, timeout=10) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def test_a_url_reads_the_object_and_does_nothing_else(tidegate, on):
    on.put("a b/é+1", b"data")
    run = tidegate("presign", on.url("a b/é+1"), env=on.env)
    assert run.exit == 0 and run.err == "", run
    [url] = run.text.splitlines()
    assert parse_qs(urlsplit(url).query)["X-Amz-Expires"] == ["3600"], "an hour by default"
    assert request(url) == (200, b"data")
    assert request(url, "PUT", b"other")[0] == 403
    assert request(url.split("?")[0])[0] == 403, "the signature is what opens it"
    assert on.get("a b/é+1") == b"data"


def test_a_url_writes_the_object(tidegate, on):
    run = tidegate("presign", on.url("new"), "--put", "--expires", "10min", "--json", env=on.env)
    assert run.exit == 0, run
    [shown] = run.json
    assert shown.keys() == {"type", "url", "signed_url", "method", "expires"} and shown["method"] == "PUT", run
    left = datetime.fromisoformat(shown["expires"]) - datetime.now(UTC)
    assert timedelta(minutes=9) < left <= timedelta(minutes=10), run
    assert not on.exists("new"), "nothing is written by signing"
    assert request(shown["signed_url"], "PUT", b"written")[0] == 200
    assert on.get("new") == b"written"


def test_seconds_are_taken_as_by_aws(tidegate, bucket):
    for option in ("--expires", "--expires-in"):
        run = tidegate("presign", bucket.url("k"), option, "120", env=bucket.env)
        assert run.exit == 0 and "X-Amz-Expires=120" in run.text, run


def test_googles_urls_are_signed_by_a_service_account(tidegate, tmp_path):
    """By its key, without a request: the signature is checked with the key's public half."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    account = tmp_path / "account.json"
    email = "signer@project.iam.gserviceaccount.com"
    document = {
        "type": "service_account",
        "project_id": "project",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": email,
        "token_uri": "http://127.0.0.1:9/token",
    }
    account.write_text(json.dumps(document))
    run = tidegate(
        "presign", "gs://bucket/a/key", "--expires", "7d", env={"GOOGLE_APPLICATION_CREDENTIALS": str(account)}
    )
    assert run.exit == 0, run
    url = urlsplit(run.text.strip())
    query = parse_qs(url.query)
    assert (url.netloc, url.path) == ("storage.googleapis.com", "/bucket/a/key"), run
    assert query["X-Goog-Expires"] == ["604800"] and query["X-Goog-Credential"][0].startswith(email), run
    unsigned, signature = url.query.split("&X-Goog-Signature=")
    canonical = f"GET\n{url.path}\n{unsigned}\nhost:{url.netloc}\n\nhost\nUNSIGNED-PAYLOAD"
    scope = query["X-Goog-Credential"][0].removeprefix(f"{email}/")
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signed = f"GOOG4-RSA-SHA256\n{query['X-Goog-Date'][0]}\n{scope}\n{digest}"
    key.public_key().verify(bytes.fromhex(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())


def test_the_embedded_servers_urls_need_a_server_that_stays(tidegate, tmp_path):
    assert tidegate("cp", "-", "dev://demo/k", stdin=b"data", cwd=tmp_path).exit == 0
    one_sentence(tidegate("presign", "dev://demo/k", cwd=tmp_path), "dev://demo/k", "`tidegate serve`", exit=2)
    server = tidegate.start("serve", "--listen", "127.0.0.1:0", cwd=tmp_path)
    until("it listens", lambda: "listening on http://127.0.0.1:" in server.error_so_far() + server.output_so_far())
    run = tidegate("presign", "dev://demo/k", cwd=tmp_path)
    assert run.exit == 0 and request(run.text.strip()) == (200, b"data"), run
    server.interrupt()
    server.wait(10)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("s3://bucket",), "s3://bucket"),
        (("s3://bucket/k", "--expires", "8d"), "604800 seconds"),
        (("s3://bucket/k", "--expires", "0"), "604800 seconds"),
        (("s3://bucket/k", "--no-sign-request"), "s3://bucket/k"),
        (("out/file",), "out/file"),
    ],
)
def test_what_cannot_be_signed(tidegate, bucket, words, named):
    one_sentence(tidegate("presign", *words, env=bucket.env), named, exit=(2, 4))
