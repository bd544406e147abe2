"""Bodies with trailers (`STREAMING-UNSIGNED-PAYLOAD-TRAILER`), byte by byte: what SDKs send over TLS."""

import base64
import http.client
import os
import zlib

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from harness.crc64nvme import crc64nvme


class Signer(S3SigV4Auth):
    def payload(self, request):
        return "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


def framed(body, sizes, trailer):
    out, start = b"", 0
    for size in sizes:
        piece = body[start : start + size]
        out += f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        start += size
    assert start >= len(body)
    return out + b"0\r\n" + trailer + b"\r\n"


def put(server, path, data, trailer, length, query=""):
    """Sends the framed data; returns the connection's answer."""
    headers = {"x-amz-trailer": trailer, "x-amz-decoded-content-length": str(length), "content-encoding": "aws-chunked"}
    request = AWSRequest("PUT", f"{server.url}{path}{query}", headers=headers)
    Signer(Credentials("tidegate", "tidegate"), "s3", "us-east-1").add_auth(request)
    wire = http.client.HTTPConnection(server.url.removeprefix("http://"))
    wire.request("PUT", path + query, body=data, headers=dict(request.headers))
    answer = wire.getresponse()
    text = answer.read().decode()
    wire.close()
    return answer, text


@pytest.mark.parametrize("sizes", [[300_000], [65_536] * 5, [1, 2, 299_997], [7] * 42_858])
def test_any_chunks(server, s3, name, sizes):
    body = os.urandom(300_000)
    trailer = f"x-amz-checksum-crc64nvme:{crc64nvme(body)}\r\n".encode()
    answer, text = put(server, f"/{name}/k", framed(body, sizes, trailer), "x-amz-checksum-crc64nvme", len(body))
    assert answer.status == 200, text
    assert answer.headers["x-amz-checksum-crc64nvme"] == crc64nvme(body)
    got = s3.get_object(Bucket=name, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == body and got["ChecksumCRC64NVME"] == crc64nvme(body)
    assert "ContentEncoding" not in got


def test_parts_have_trailers_too(server, s3, name):
    bodies = [os.urandom(5 << 20), b"end"]
    session = s3.create_multipart_upload(
        Bucket=name, Key="k", ChecksumAlgorithm="CRC64NVME", ChecksumType="FULL_OBJECT"
    )["UploadId"]
    parts = []
    for number, body in enumerate(bodies, 1):
        trailer = f"x-amz-checksum-crc64nvme:{crc64nvme(body)}\r\n".encode()
        answer, text = put(
            server,
            f"/{name}/k",
            framed(body, [len(body)], trailer),
            "x-amz-checksum-crc64nvme",
            len(body),
            f"?partNumber={number}&uploadId={session}",
        )
        assert answer.status == 200, text
        parts.append({"PartNumber": number, "ETag": answer.headers["etag"]})
    done = s3.complete_multipart_upload(
        Bucket=name,
        Key="k",
        UploadId=session,
        MultipartUpload={"Parts": parts},
        ChecksumCRC64NVME=crc64nvme(b"".join(bodies)),
        ChecksumType="FULL_OBJECT",
    )
    assert (done["ChecksumCRC64NVME"], done["ChecksumType"]) == (crc64nvme(b"".join(bodies)), "FULL_OBJECT")


def test_what_is_wrong_is_refused(server, s3, name):
    body = b"body"
    good = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
    bad = base64.b64encode(zlib.crc32(b"other").to_bytes(4, "big")).decode()
    trailer = lambda value: f"x-amz-checksum-crc32:{value}\r\n".encode()
    cases = [
        (framed(body, [4], trailer(bad)), 4, "BadDigest"),
        (framed(body, [4], trailer("no")), 4, "InvalidRequest"),
        (framed(body, [4], b""), 4, "MalformedTrailerError"),
        (framed(body, [4], trailer(good)), 5, "IncompleteBody"),
        (b"4\r\nbody\r\n", 4, "IncompleteBody"),
        (b"5\r\nbody\r\n0\r\n\r\n", 4, "IncompleteBody"),
        (b"zz\r\nbody\r\n", 4, "IncompleteBody"),
    ]
    for data, length, code in cases:
        answer, text = put(server, f"/{name}/k", data, "x-amz-checksum-crc32", length)
        assert answer.status == 400 and f"<Code>{code}</Code>" in text, (code, text)
    assert "Contents" not in s3.list_objects_v2(Bucket=name)
    answer, text = put(server, f"/{name}/k", framed(body, [4], trailer(good)), "x-amz-checksum-crc32", 4)
    assert answer.status == 200, text
