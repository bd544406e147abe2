"""Web pages of other sites cannot use the embedded server; idle clients cost it little."""

import contextlib
import http.client
import socket

import pytest

from harness.process import until

SITE = "http://localhost:8000"
UPLOAD = "/upload/storage/v1/b/BUCKET/o?uploadType=media&name=planted"


def page(mode, dest, **headers):
    """What Chromium 153 adds to a request that a page of another site makes."""
    return {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": mode,
        "Sec-Fetch-Dest": dest,
        "Referer": f"{SITE}/",
        **headers,
    }


POSTED = {"Origin": SITE, "Content-Type": "text/plain;charset=UTF-8"}
# Each way in which a page sends requests to another site without being asked first, and the question before a PUT, as
# recorded from Chromium: an image, `fetch` with and without a body, and a form.
REQUESTS = [
    ("GET", "/BUCKET/pixel", page("no-cors", "image"), None),
    ("POST", "/_tidegate/objects", page("no-cors", "empty", **POSTED), '{"bucket": "BUCKET", "keys": ["planted"]}'),
    ("POST", UPLOAD, page("no-cors", "empty", **POSTED), "owned"),
    ("GET", "/storage/v1/b/BUCKET/o", page("no-cors", "empty"), None),
    (
        "OPTIONS",
        "/_tidegate/knobs",
        page(
            "cors",
            "empty",
            **{
                "Origin": SITE,
                "Access-Control-Request-Method": "PUT",
                "Access-Control-Request-Headers": "content-type",
            },
        ),
        None,
    ),
    ("POST", UPLOAD, page("navigate", "iframe", Origin=SITE, **{"Content-Type": "text/plain"}), ""),
]


def answer(server, method, path, headers, body=None):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        response.read()
        return response


@pytest.mark.parametrize("method, path, headers, body", REQUESTS)
def test_a_page_of_another_site_changes_and_reads_nothing(server, s3, name, method, path, headers, body):
    s3.put_object(Bucket=name, Key="pixel", Body=b"GIF89a")
    server.control("DELETE", "counts")
    body = body and body.replace("BUCKET", name)
    refused = answer(server, method, path.replace("BUCKET", name), headers, body)
    assert refused.status == 403
    # Which is what makes a browser keep the request that it asks about to itself.
    assert refused.getheader("Access-Control-Allow-Origin") is None
    assert server.control("GET", "counts")["requests"].keys() <= {"Refused"}
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=name)["Contents"]] == ["pixel"]


def test_a_name_that_was_rebound_is_refused(server, s3, name):
    port = server.url.rsplit(":", 1)[1]
    # As after DNS rebinding: the name of another site leads to this machine. The names below `localhost` are its own.
    assert answer(server, "GET", "/storage/v1/b", {"Host": f"evil.example:{port}"}).status == 403


def test_five_hundred_idle_connections_cost_little(server, s3, name):
    def resident():
        with open(f"/proc/{server.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    before = resident()
    server.control("DELETE", "counts")
    with contextlib.ExitStack() as stack:
        for number in range(500):
            idle = stack.enter_context(socket.create_connection(server.url.removeprefix("http://").split(":")))
            if number % 2:
                idle.sendall(b"GET /storage/v1/b HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        until("500 connections are accepted", lambda: server.control("GET", "counts")["connections"] >= 500)
        s3.put_object(Bucket=name, Key="k", Body=b"still served")
        grown = resident() - before
        print(f"500 idle connections: {grown} KiB")
        assert grown < 32 << 10, f"{grown} KiB"
