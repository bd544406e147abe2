"""What the embedded server does badly when it is told to, and what it counts."""

import http.client
import os
import socket
import time
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ResponseStreamingError

from harness.s3 import refused

from .test_dev_server_multipart import SIZE, complete, upload

MIB = 1 << 20
CUT = (ConnectionClosedError, EndpointConnectionError, ConnectionResetError)


def test_counts(server, s3, name):
    server.control("DELETE", "counts")
    s3.put_object(Bucket=name, Key="k", Body=b"12345")
    s3.get_object(Bucket=name, Key="k")["Body"].read()
    with refused("NoSuchKey"):
        s3.get_object(Bucket=name, Key="none")
    counts = server.counts()
    assert counts["requests"] == {"PutObject": 1, "GetObject": 2}
    assert counts["failed"] == {"GetObject": 1}
    assert counts["bytes_in"] == 5 and counts["bytes_out"] >= 5


def test_objects_are_counted_by_their_checksums(server, s3, name):
    plain = server.client(request_checksum_calculation="when_required")
    server.control("DELETE", "counts")
    plain.put_object(Bucket=name, Key="k", Body=b"12345")
    s3.put_object(Bucket=name, Key="k", Body=b"12345")
    s3.copy_object(Bucket=name, Key="copy", CopySource={"Bucket": name, "Key": "k"})
    session, parts = upload(s3, name, "parts", [b"12345"], ChecksumAlgorithm="SHA256", ChecksumType="COMPOSITE")
    complete(s3, name, "parts", session, parts)
    with refused("NoSuchUpload"):
        complete(s3, name, "parts", "none", parts)
    # What comes whole and without one is given one, as S3 does.
    assert server.counts()["checksums"] == {"CRC64NVME": 1, "CRC32": 2, "SHA256 COMPOSITE": 1}


def test_knobs_are_given_back_and_misspelt_ones_refused(server):
    knobs = server.knobs(latency={"fixed_ms": 1}, rate_limit={"per_second": 5})
    assert server.control("GET", "knobs") == knobs and knobs["latency"] == {"fixed_ms": 1.0}
    with pytest.raises(urllib.error.HTTPError) as wrong:
        server.knobs(latencyy=1)
    assert wrong.value.code == 400
    wrong.value.close()
    with pytest.raises(urllib.error.HTTPError) as wrong:
        server.control("GET", "other")
    assert wrong.value.code == 404
    wrong.value.close()


def test_the_first_n_requests_fail(server, s3, name):
    server.knobs(
        faults=[{"operation": "PutObject", "action": {"error": {"status": 503, "code": "SlowDown"}}, "times": 2}]
    )
    for _ in range(2):
        with refused("SlowDown", 503):
            s3.put_object(Bucket=name, Key="k", Body=b"x" * 3 * MIB)
        with refused("404"):
            s3.head_object(Bucket=name, Key="k")
    s3.put_object(Bucket=name, Key="k", Body=b"x")


def test_a_client_that_retries_gets_through(server, name):
    server.knobs(
        faults=[{"operation": "PutObject", "action": {"error": {"status": 500, "code": "InternalError"}}, "times": 2}]
    )
    server.control("DELETE", "counts")
    stubborn = server.client(retries={"total_max_attempts": 4, "mode": "standard"})
    stubborn.put_object(Bucket=name, Key="k", Body=b"x" * MIB)
    assert server.counts()["requests"] == {"PutObject": 3}
    stubborn.close()


def test_error_in_200(server, s3, name):
    session, parts = upload(s3, name, "k", [b"body"])
    server.knobs(
        faults=[
            {"operation": "CompleteMultipartUpload", "action": {"error_in200": {"code": "InternalError"}}, "times": 1}
        ]
    )
    with refused("InternalError"):
        complete(s3, name, "k", session, parts)
    with refused("404"):
        s3.head_object(Bucket=name, Key="k")
    complete(s3, name, "k", session, parts)


def test_lost_answers_are_carried_out(server, s3, name):
    session, parts = upload(s3, name, "k", [b"body"])
    server.knobs(
        faults=[
            {"operation": "CompleteMultipartUpload", "action": "lose_answer", "times": 1},
            {"operation": "PutObject", "action": "lose_answer", "times": 1},
        ]
    )
    with pytest.raises(CUT):
        complete(s3, name, "k", session, parts)
    with pytest.raises(CUT):
        s3.put_object(Bucket=name, Key="l", Body=b"other")
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"body"
    assert s3.get_object(Bucket=name, Key="l")["Body"].read() == b"other"


@pytest.mark.parametrize("after", [0, 1, 2 * MIB])
def test_a_request_is_reset(server, s3, name, after):
    server.knobs(faults=[{"operation": "PutObject", "action": {"reset_request": {"after_bytes": after}}, "times": 1}])
    with pytest.raises(CUT):
        s3.put_object(Bucket=name, Key="k", Body=b"x" * 8 * MIB)
    with refused("404"):
        s3.head_object(Bucket=name, Key="k")


@pytest.mark.parametrize("after", [0, 100_000])
def test_a_response_is_reset(server, s3, name, after):
    body = os.urandom(4 * MIB)
    s3.put_object(Bucket=name, Key="k", Body=body)
    server.knobs(faults=[{"operation": "GetObject", "action": {"reset_response": {"after_bytes": after}}, "times": 1}])
    stream = s3.get_object(Bucket=name, Key="k")["Body"]
    received = b""
    with pytest.raises((ResponseStreamingError, ConnectionResetError)):
        while piece := stream.read(10_000):
            received += piece
        raise AssertionError("the body came to an end")
    assert body.startswith(received) and after - 10_000 <= len(received) <= after
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == body


def test_a_response_ends_early_in_order(server, s3, name):
    body = os.urandom(4 * MIB)
    s3.put_object(Bucket=name, Key="k", Body=body)
    server.knobs(faults=[{"operation": "GetObject", "action": {"end_response": {"after_bytes": 100_000}}, "times": 1}])
    link = s3.generate_presigned_url("get_object", {"Bucket": name, "Key": "k"})
    with urllib.request.urlopen(link, timeout=30) as answer:
        assert int(answer.headers["content-length"]) == len(body)
        with pytest.raises(http.client.IncompleteRead) as cut:
            answer.read()
    assert cut.value.partial == body[:100_000]
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == body


@pytest.mark.alone
def test_a_response_stalls(server, s3, name):
    body = os.urandom(MIB)
    s3.put_object(Bucket=name, Key="k", Body=body)
    server.knobs(
        faults=[{"operation": "GetObject", "action": {"stall_response": {"after_bytes": 1000, "ms": 300}}, "times": 1}]
    )
    stream = s3.get_object(Bucket=name, Key="k")["Body"]
    began = time.monotonic()
    assert stream.read(1000) == body[:1000] and time.monotonic() - began < 0.2
    assert stream.read() == body[1000:] and time.monotonic() - began >= 0.25


def test_a_response_is_corrupt(server, s3, name):
    s3.put_object(Bucket=name, Key="k", Body=bytes(MIB))
    server.knobs(faults=[{"operation": "GetObject", "action": {"corrupt_response": {"at": 70_000}}, "times": 1}])
    got = s3.get_object(Bucket=name, Key="k", Range="bytes=10-")["Body"].read()
    assert [(at, byte) for at, byte in enumerate(got) if byte] == [(70_000, 1)]
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == bytes(MIB)


@pytest.mark.parametrize(
    "action, status, told, first, end",
    [
        ("ignore_range", 200, None, 0, 100),
        ({"other_range": {"shift": 5}}, 206, "bytes 25-34/100", 25, 35),
        ({"other_range": {"shift": -50}}, 206, "bytes 0-9/100", 0, 10),
        ({"misstate_range": {"shift": 5}}, 206, "bytes 25-34/100", 20, 30),
        ({"shorten_range": {"bytes": 3}}, 206, "bytes 20-22/100", 20, 23),
    ],
)
def test_a_range_is_misunderstood(server, s3, name, action, status, told, first, end):
    body = bytes(range(100))
    s3.put_object(Bucket=name, Key="k", Body=body)
    server.knobs(faults=[{"operation": "GetObject", "action": action, "times": 2}])
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == body, "not a range"
    answer = s3.get_object(Bucket=name, Key="k", Range="bytes=20-29")
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer.get("ContentRange")) == (status, told)
    assert answer["Body"].read() == body[first:end]
    assert s3.get_object(Bucket=name, Key="k", Range="bytes=20-29")["Body"].read() == body[20:30]


def timed(act):
    start = time.monotonic()
    act()
    return time.monotonic() - start


@pytest.mark.alone
def test_latency(server, s3, name):
    server.knobs(latency={"fixed_ms": 200})
    assert 0.2 <= timed(lambda: s3.list_objects_v2(Bucket=name)) < 1
    server.knobs(commit_latency={"fixed_ms": 200})
    assert timed(lambda: s3.list_objects_v2(Bucket=name)) < 0.2
    assert 0.2 <= timed(lambda: s3.put_object(Bucket=name, Key="k", Body=b"")) < 1
    server.knobs(faults=[{"operation": "UploadPart", "part_number": 2, "action": {"delay_ms": 300}}])
    session = s3.create_multipart_upload(Bucket=name, Key="k")["UploadId"]
    part = lambda n: s3.upload_part(Bucket=name, Key="k", UploadId=session, PartNumber=n, Body=b"x")
    assert timed(lambda: part(1)) < 0.3 <= timed(lambda: part(2))


def test_bandwidth(server, s3, name):
    body = os.urandom(2 * MIB)
    server.knobs(bandwidth={"connection_in": 4 * MIB, "connection_out": 8 * MIB})
    assert 0.3 < timed(lambda: s3.put_object(Bucket=name, Key="k", Body=body)) < 1.5
    assert 0.1 < timed(lambda: s3.get_object(Bucket=name, Key="k")["Body"].read()) < 1
    server.knobs()
    assert timed(lambda: s3.put_object(Bucket=name, Key="k", Body=body)) < 0.3


def test_a_prefix_takes_so_many_requests(server, s3, name):
    server.knobs(rate_limit={"per_second": 2, "prefix_depth": 1, "retry_after": 7})
    s3.put_object(Bucket=name, Key="a/1", Body=b"")
    s3.put_object(Bucket=name, Key="a/2", Body=b"")
    with pytest.raises(ClientError) as slow:
        s3.put_object(Bucket=name, Key="a/3", Body=b"")
    assert slow.value.response["Error"]["Code"] == "SlowDown"
    assert slow.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "7"
    s3.put_object(Bucket=name, Key="b/1", Body=b"")


def test_equal_parts_and_small_ones(server, s3, name):
    server.knobs(min_part_size=1, equal_parts=True)
    session, parts = upload(s3, name, "k", [b"1234", b"123", b"1"])
    with refused("InvalidPart", 400):
        complete(s3, name, "k", session, parts)
    session, parts = upload(s3, name, "k", [b"1234", b"1234", b"1"])
    complete(s3, name, "k", session, parts)


def test_an_old_store_knows_no_checksums(server, s3, name):
    server.knobs(no_checksums=True)
    put = s3.put_object(
        Bucket=name, Key="k", Body=b"body", ChecksumSHA256="AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    )
    head = s3.head_object(Bucket=name, Key="k", ChecksumMode="ENABLED")
    assert not [field for field in {**put, **head} if field.startswith("Checksum")]
    session, parts = upload(s3, name, "m", [b"x" * SIZE, b"end"], ChecksumAlgorithm="CRC32")
    assert not [field for field in complete(s3, name, "m", session, parts) if field.startswith("Checksum")]


def test_half_an_upload_leaves_nothing(start, tmp_path):
    server = start("--storage", f"disk:{tmp_path}")
    s3 = server.client(signature_version="s3v4")
    s3.create_bucket(Bucket="bucket")
    link = s3.generate_presigned_url("put_object", {"Bucket": "bucket", "Key": "k"})
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as wire:
        path = link.removeprefix(server.url)
        wire.sendall(f"PUT {path} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: 9000000\r\n\r\n".encode())
        wire.sendall(b"x" * 5_000_000)
        deadline = time.monotonic() + 10
        while not list((tmp_path / "data").iterdir()):
            assert time.monotonic() < deadline, "the bytes did not reach the disk"
            time.sleep(0.01)
    deadline = time.monotonic() + 10
    while list((tmp_path / "data").iterdir()):
        assert time.monotonic() < deadline, "half an upload was left on disk"
        time.sleep(0.01)
    with refused("404"):
        s3.head_object(Bucket="bucket", Key="k")
    s3.close()
