"""Sessions of the embedded server, asked by boto3."""

import os
import uuid

import pytest

from harness.s3 import refused

MIB = 1 << 20
SIZE = 5 * MIB


def upload(s3, name, key, parts, order=None, **options):
    """Uploads the parts in this order; returns the session's id and the list that completes it."""
    session = s3.create_multipart_upload(Bucket=name, Key=key, **options)["UploadId"]
    done = {}
    for number in order or range(1, len(parts) + 1):
        answer = s3.upload_part(
            Bucket=name,
            Key=key,
            UploadId=session,
            PartNumber=number,
            Body=parts[number - 1],
            **({"ChecksumAlgorithm": options["ChecksumAlgorithm"]} if "ChecksumAlgorithm" in options else {}),
        )
        done[number] = {"PartNumber": number, "ETag": answer["ETag"]}
        done[number] |= {field: value for field, value in answer.items() if field.startswith("Checksum")}
    return session, [done[number] for number in sorted(done)]


def complete(s3, name, key, session, parts, **options):
    return s3.complete_multipart_upload(
        Bucket=name, Key=key, UploadId=session, MultipartUpload={"Parts": parts}, **options
    )


def test_parts_in_any_order_and_again(s3, name):
    first, second, last = os.urandom(SIZE), os.urandom(SIZE), b"end"
    session, parts = upload(s3, name, "k", [first, second, last], order=[3, 1, 2])
    again = s3.upload_part(Bucket=name, Key="k", UploadId=session, PartNumber=2, Body=first)
    with refused("InvalidPart", 400):
        complete(s3, name, "k", session, parts)
    parts[1]["ETag"] = again["ETag"]
    parts[1] |= {"ChecksumCRC32": again["ChecksumCRC32"]}
    listed = s3.list_parts(Bucket=name, Key="k", UploadId=session, MaxParts=2)
    assert [(part["PartNumber"], part["Size"]) for part in listed["Parts"]] == [(1, SIZE), (2, SIZE)]
    assert (listed["IsTruncated"], listed["NextPartNumberMarker"]) == (True, 2)
    rest = s3.list_parts(Bucket=name, Key="k", UploadId=session, PartNumberMarker=2)
    assert [part["PartNumber"] for part in rest["Parts"]] == [3] and not rest["IsTruncated"]
    with refused("404"):
        s3.head_object(Bucket=name, Key="k")
    answer = complete(s3, name, "k", session, parts, MpuObjectSize=2 * SIZE + 3)
    assert answer["ETag"].endswith('-3"')
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == first + first + last
    part = s3.get_object(Bucket=name, Key="k", PartNumber=3)
    assert (part["Body"].read(), part["PartsCount"]) == (last, 3)
    across = s3.get_object(Bucket=name, Key="k", Range=f"bytes={SIZE - 2}-{SIZE + 1}")
    assert across["Body"].read() == first[-2:] + first[:2]
    with refused("NoSuchUpload", 404):
        complete(s3, name, "k", session, parts)


def test_refusals(s3, name):
    session, parts = upload(s3, name, "k", [b"small", b"end"])
    with refused("EntityTooSmall", 400):
        complete(s3, name, "k", session, parts)
    with refused("InvalidPartOrder", 400):
        complete(s3, name, "k", session, parts[::-1])
    with refused("InvalidPart", 400):
        complete(s3, name, "k", session, [{"PartNumber": 9, "ETag": '"x"'}])
    with refused("InvalidRequest", 400):
        complete(s3, name, "k", session, parts[:1], MpuObjectSize=1)
    with refused("NoSuchUpload", 404):
        s3.upload_part(Bucket=name, Key="other", UploadId=session, PartNumber=1, Body=b"x" * MIB)
    with refused("InvalidArgument", 400):
        s3.upload_part(Bucket=name, Key="k", UploadId=session, PartNumber=10_001, Body=b"")
    s3.abort_multipart_upload(Bucket=name, Key="k", UploadId=session)
    with refused("NoSuchUpload", 404):
        s3.abort_multipart_upload(Bucket=name, Key="k", UploadId=session)
    with refused("NoSuchUpload", 404):
        s3.list_parts(Bucket=name, Key="k", UploadId=session)


def test_create_only_completion(s3, name):
    session, parts = upload(s3, name, "k", [b"mine"])
    s3.put_object(Bucket=name, Key="k", Body=b"theirs")
    with refused("PreconditionFailed", 412):
        complete(s3, name, "k", session, parts, IfNoneMatch="*")
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"theirs"
    s3.delete_object(Bucket=name, Key="k")
    complete(s3, name, "k", session, parts, IfNoneMatch="*")


@pytest.mark.parametrize("algorithm,kind", [("CRC32", "COMPOSITE"), ("CRC32", "FULL_OBJECT"), ("SHA256", "COMPOSITE")])
def test_checksums(s3, name, algorithm, kind):
    bodies = [os.urandom(SIZE), b"end"]
    field = f"Checksum{algorithm}"
    session, parts = upload(s3, name, "k", bodies, ChecksumAlgorithm=algorithm, ChecksumType=kind)
    listed = s3.list_parts(Bucket=name, Key="k", UploadId=session)
    assert [part[field] for part in listed["Parts"]] == [part[field] for part in parts]
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (algorithm, kind)
    whole = s3.put_object(Bucket=name, Key="whole", Body=b"".join(bodies), ChecksumAlgorithm=algorithm)[field]
    if kind == "COMPOSITE":
        with refused("InvalidRequest", 400):
            bare = [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in parts]
            complete(s3, name, "k", session, bare)
    else:
        with refused("BadDigest", 400):
            complete(s3, name, "k", session, parts, ChecksumCRC32=parts[0][field], ChecksumType=kind)
        assert complete(s3, name, "k", session, parts, ChecksumCRC32=whole, ChecksumType=kind)[field] == whole
        return
    answer = complete(s3, name, "k", session, parts)
    assert answer[field].endswith("-2") and answer["ChecksumType"] == kind
    assert s3.head_object(Bucket=name, Key="k", ChecksumMode="ENABLED")[field] == answer[field]


def test_copied_parts(s3, name):
    body = os.urandom(2 * SIZE)
    s3.put_object(Bucket=name, Key="source", Body=body)
    session = s3.create_multipart_upload(Bucket=name, Key="k")["UploadId"]
    parts = []
    for number, first in [(1, SIZE), (2, 0)]:
        answer = s3.upload_part_copy(
            Bucket=name,
            Key="k",
            UploadId=session,
            PartNumber=number,
            CopySource={"Bucket": name, "Key": "source"},
            CopySourceRange=f"bytes={first}-{first + SIZE - 1}",
        )
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    complete(s3, name, "k", session, parts)
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == body[SIZE:] + body[:SIZE]


def test_sessions_are_listed(s3, name):
    keys = ["a/1", "a/1", "a/2", "b/1", "c"]
    sessions = [(key, s3.create_multipart_upload(Bucket=name, Key=key)["UploadId"]) for key in keys]
    for size in (1, 2, 10):
        pages = list(
            s3.get_paginator("list_multipart_uploads").paginate(Bucket=name, PaginationConfig={"PageSize": size})
        )
        found = [(upload["Key"], upload["UploadId"]) for page in pages for upload in page.get("Uploads", [])]
        assert found == sessions, f"pages of {size}"
    some = s3.list_multipart_uploads(Bucket=name, Prefix="a/")
    assert [upload["Key"] for upload in some["Uploads"]] == keys[:3]
    folded = s3.list_multipart_uploads(Bucket=name, Delimiter="/")
    assert [prefix["Prefix"] for prefix in folded["CommonPrefixes"]] == ["a/", "b/"]
    assert [upload["Key"] for upload in folded["Uploads"]] == ["c"]


def test_managed_transfer(s3, server, name, make_file, tmp_path):
    path, _ = make_file(20 * MIB + 1)
    s3.upload_file(str(path), name, "k")
    s3.download_file(name, "k", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == path.read_bytes()
    assert server.counts()["requests"]["UploadPart"] == 3


def test_disk_survives_a_restart(start, tmp_path):
    storage = ["--storage", f"disk:{tmp_path}"]
    first = start(*storage)
    s3, bucket = first.client(), f"b-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="a", Body=b"1", Metadata={"k": "v"}, Tagging="t=1")
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"2")
    s3.put_object(Bucket=bucket, Key="gone", Body=b"3")
    s3.delete_object(Bucket=bucket, Key="gone")
    session, parts = upload(s3, bucket, "big", [os.urandom(SIZE), b"end"])
    _, _ = upload(s3, bucket, "big", [b"other session"])
    data = tmp_path / "data"
    assert len(list(data.iterdir())) == 5
    first.stop()
    (data / "000000000000ffff").write_bytes(b"left by a killed server")

    s3 = start(*storage).client()
    got = s3.get_object(Bucket=bucket, Key="a")
    assert (got["Body"].read(), got["Metadata"], got["TagCount"]) == (b"1", {"k": "v"}, 1)
    complete(s3, bucket, "big", session, parts)
    assert s3.head_object(Bucket=bucket, Key="big")["ContentLength"] == SIZE + 3
    (other,) = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    s3.abort_multipart_upload(Bucket=bucket, Key="big", UploadId=other["UploadId"])
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "a/b"}, {"Key": "big"}]})
    assert list(data.iterdir()) == []
    s3.close()
