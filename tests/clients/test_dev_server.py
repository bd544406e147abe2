"""Objects, buckets and listings of the embedded server, asked by boto3."""

import base64
import hashlib
import os
import urllib.error
import urllib.request

import pytest

from harness.s3 import refused

from .test_dev_server_multipart import SIZE, complete, upload

ALGORITHMS = ["CRC32", "SHA1", "SHA256"]


def test_buckets(s3, name):
    assert name in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    assert s3.head_bucket(Bucket=name)["BucketRegion"] == "us-east-1"
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] is None
    assert "Status" not in s3.get_bucket_versioning(Bucket=name)
    with refused("BucketAlreadyOwnedByYou", 409):
        s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="k", Body=b"")
    with refused("BucketNotEmpty", 409):
        s3.delete_bucket(Bucket=name)
    s3.delete_object(Bucket=name, Key="k")
    s3.delete_bucket(Bucket=name)
    with refused("404"):
        s3.head_bucket(Bucket=name)
    with refused("NoSuchBucket", 404):
        s3.put_object(Bucket=name, Key="k", Body=b"x" * 3_000_000)


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 3_000_001])
def test_put_and_get(s3, name, size):
    body = os.urandom(size)
    put = s3.put_object(
        Bucket=name,
        Key="a/b",
        Body=body,
        ContentType="text/x",
        Metadata={"k": "v"},
        CacheControl="no-cache",
        ContentDisposition="inline",
        ContentEncoding="zstd",
        ServerSideEncryption="AES256",
        StorageClass="STANDARD_IA",
    )
    assert put["ServerSideEncryption"] == "AES256"
    got = s3.get_object(Bucket=name, Key="a/b", ChecksumMode="ENABLED")
    assert got["Body"].read() == body
    head = s3.head_object(Bucket=name, Key="a/b", ChecksumMode="ENABLED")
    for answer in (got, head):
        assert (answer["ETag"], answer["ContentLength"]) == (put["ETag"], size)
        assert (answer["ContentType"], answer["Metadata"], answer["CacheControl"]) == ("text/x", {"k": "v"}, "no-cache")
        assert (answer["ContentDisposition"], answer["ContentEncoding"]) == ("inline", "zstd")
        assert (answer["StorageClass"], answer["ServerSideEncryption"]) == ("STANDARD_IA", "AES256")
        assert answer["ChecksumCRC32"] == put["ChecksumCRC32"]


def test_keys_that_differ_are_kept_apart(s3, name):
    keys = ["a", "a/b", "a/", "A", "../../up", "a b+c%2F", "ü/日本", "x" * 1024, ".hidden", "a_b", "a?b&c=d"]
    for key in keys:
        s3.put_object(Bucket=name, Key=key, Body=key.encode())
    for key in keys:
        assert s3.get_object(Bucket=name, Key=key)["Body"].read() == key.encode()
    listed = s3.list_objects_v2(Bucket=name)["Contents"]
    assert [entry["Key"] for entry in listed] == sorted(keys, key=str.encode)


def test_ranges(s3, name):
    body = os.urandom(1_000_000)
    s3.put_object(Bucket=name, Key="k", Body=body)
    for asked, expected, shown in [
        ("bytes=0-0", body[:1], "bytes 0-0/1000000"),
        ("bytes=10-", body[10:], "bytes 10-999999/1000000"),
        ("bytes=999999-2000000", body[-1:], "bytes 999999-999999/1000000"),
        ("bytes=-3", body[-3:], "bytes 999997-999999/1000000"),
        ("bytes=300000-700000", body[300_000:700_001], "bytes 300000-700000/1000000"),
    ]:
        got = s3.get_object(Bucket=name, Key="k", Range=asked)
        assert (got["Body"].read(), got["ContentRange"]) == (expected, shown)
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    with refused("InvalidRange", 416):
        s3.get_object(Bucket=name, Key="k", Range="bytes=1000000-")


def test_conditions(s3, name):
    etag = s3.put_object(Bucket=name, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket=name, Key="k", Body=b"2" * 2_000_000, IfNoneMatch="*")
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket=name, Key="k", Body=b"2", IfMatch='"other"')
    with refused("NoSuchKey", 404):
        s3.put_object(Bucket=name, Key="none", Body=b"2", IfMatch='"other"')
    assert s3.get_object(Bucket=name, Key="k", IfMatch=etag)["Body"].read() == b"1"
    with refused("PreconditionFailed", 412):
        s3.get_object(Bucket=name, Key="k", IfMatch='"other"')
    with refused("304", 304):
        s3.get_object(Bucket=name, Key="k", IfNoneMatch=etag)
    s3.put_object(Bucket=name, Key="k", Body=b"2", IfMatch=etag)
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=name, Key="none")
    with refused("404", 404):
        s3.head_object(Bucket=name, Key="none")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_checksum_in_header_and_trailer(s3, name, algorithm):
    body = os.urandom(300_000)
    field = f"Checksum{algorithm}"
    # boto3 sends a trailer over plain HTTP only when it is not asked to sign the payload; both forms are verified.
    put = s3.put_object(Bucket=name, Key="k", Body=body, ChecksumAlgorithm=algorithm)
    head = s3.head_object(Bucket=name, Key="k", ChecksumMode="ENABLED")
    assert head[field] == put[field] and head["ChecksumType"] == "FULL_OBJECT"
    assert field not in s3.head_object(Bucket=name, Key="k")
    assert s3.put_object(Bucket=name, Key="l", Body=body, **{field: put[field]})[field] == put[field]
    wrong = s3.put_object(Bucket=name, Key="m", Body=b"other", ChecksumAlgorithm=algorithm)[field]
    with refused("BadDigest", 400):
        s3.put_object(Bucket=name, Key="n", Body=body, **{field: wrong})
    with refused("InvalidRequest", 400):
        s3.put_object(Bucket=name, Key="n", Body=body, **{field: "bm8="})
    with refused("404"):
        s3.head_object(Bucket=name, Key="n")


def test_without_a_checksum_there_is_a_crc64(server, name):
    plain = server.client(request_checksum_calculation="when_required")
    plain.put_object(Bucket=name, Key="k", Body=b"123456789")
    head = plain.head_object(Bucket=name, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumCRC64NVME"] == base64.b64encode(bytes.fromhex("ae8b14860a799888")).decode()
    plain.close()


def test_content_md5(server, name):
    plain = server.client(request_checksum_calculation="when_required")
    good = base64.b64encode(hashlib.md5(b"body").digest()).decode()
    plain.put_object(Bucket=name, Key="k", Body=b"body", ContentMD5=good)
    with refused("BadDigest", 400):
        plain.put_object(Bucket=name, Key="l", Body=b"other", ContentMD5=good)
    with refused("InvalidDigest", 400):
        plain.put_object(Bucket=name, Key="l", Body=b"other", ContentMD5="bm8=")
    plain.close()


def test_md5_etags_are_an_option(start, s3, name):
    assert not s3.put_object(Bucket=name, Key="k", Body=b"x")["ETag"] == f'"{hashlib.md5(b"x").hexdigest()}"'
    server = start("--md5-etags", "--auto-create-buckets")
    client = server.client()
    assert client.put_object(Bucket="made", Key="k", Body=b"x")["ETag"] == f'"{hashlib.md5(b"x").hexdigest()}"'
    client.close()


def test_listing(s3, name):
    keys = sorted(f"{folder}/{n:02}" for folder in "abc" for n in range(10)) + ["top 1"]
    for key in keys:
        s3.put_object(Bucket=name, Key=key, Body=b"12")
    for method, size in [("list_objects", 7), ("list_objects_v2", 7), ("list_objects_v2", 1)]:
        pages = s3.get_paginator(method).paginate(Bucket=name, PaginationConfig={"PageSize": size})
        assert [entry["Key"] for page in pages for entry in page["Contents"]] == keys
        pages = list(s3.get_paginator(method).paginate(Bucket=name, Delimiter="/", PaginationConfig={"PageSize": 2}))
        assert [p["Prefix"] for page in pages for p in page.get("CommonPrefixes", [])] == ["a/", "b/", "c/"]
        assert [entry["Key"] for page in pages for entry in page.get("Contents", [])] == ["top 1"]
    one = s3.list_objects_v2(Bucket=name, Prefix="b/", StartAfter="b/07", MaxKeys=5)
    assert [entry["Key"] for entry in one["Contents"]] == ["b/08", "b/09"]
    assert (one["KeyCount"], one["IsTruncated"]) == (2, False)
    # As it is asked for and not undone by boto3.
    raw = s3.list_objects_v2(Bucket=name, Prefix="top", EncodingType="url")
    assert raw["Contents"][0]["Key"] == "top%201"


def test_deletes(s3, name):
    for key in "abc":
        s3.put_object(Bucket=name, Key=key, Body=b"")
    answer = s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": "a"}, {"Key": "b"}, {"Key": "none"}]})
    assert [entry["Key"] for entry in answer["Deleted"]] == ["a", "b", "none"]
    s3.delete_object(Bucket=name, Key="none")
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=name)["Contents"]] == ["c"]


def test_copies(s3, name):
    s3.put_object(Bucket=name, Key="a b", Body=b"body", Metadata={"k": "v"}, Tagging="t=1")
    source = {"Bucket": name, "Key": "a b"}
    s3.copy_object(Bucket=name, Key="c", CopySource=source)
    got = s3.get_object(Bucket=name, Key="c")
    assert (got["Body"].read(), got["Metadata"], got["TagCount"]) == (b"body", {"k": "v"}, 1)
    s3.copy_object(Bucket=name, Key="a b", CopySource=source, MetadataDirective="REPLACE", Metadata={"l": "w"})
    got = s3.get_object(Bucket=name, Key="a b")
    assert (got["Body"].read(), got["Metadata"]) == (b"body", {"l": "w"})


def test_tags_and_lifecycle(s3, name):
    s3.put_object(Bucket=name, Key="k", Body=b"body", Tagging="a=1&b=x%20y")
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "x y"}]
    assert s3.get_object_tagging(Bucket=name, Key="k")["TagSet"] == tags
    s3.put_object_tagging(Bucket=name, Key="k", Tagging={"TagSet": tags[:1]})
    assert s3.get_object_tagging(Bucket=name, Key="k")["TagSet"] == tags[:1]
    s3.delete_object_tagging(Bucket=name, Key="k")
    assert s3.get_object_tagging(Bucket=name, Key="k")["TagSet"] == []
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"body"

    with refused("NoSuchLifecycleConfiguration", 404):
        s3.get_bucket_lifecycle_configuration(Bucket=name)
    rule = {
        "ID": "r",
        "Status": "Enabled",
        "Filter": {"Prefix": "p/"},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3},
    }
    s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": [rule]})
    assert s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"] == [rule]
    s3.delete_bucket_lifecycle(Bucket=name)
    with refused("NoSuchLifecycleConfiguration", 404):
        s3.get_bucket_lifecycle_configuration(Bucket=name)


def test_strangers_are_refused(server, s3, name):
    with pytest.raises(urllib.error.HTTPError) as anonymous:
        urllib.request.urlopen(f"{server.url}/{name}/k")
    assert anonymous.value.code == 403
    anonymous.value.close()
    # The older kind of signature would cover the content type that urllib adds.
    newer = server.client(signature_version="s3v4")
    link = newer.generate_presigned_url("put_object", {"Bucket": name, "Key": "k"})
    urllib.request.urlopen(urllib.request.Request(link, method="PUT", data=b"signed")).close()
    newer.close()
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"signed"


def test_a_refusal_of_a_body_that_waits_ends_the_connection(server, s3, name):
    # boto3 asks for leave (100-continue) before it sends a body. Refused, it must not send the next request
    # on a connection that the server is about to close.
    for _ in range(30):
        s3.put_object(Bucket=name, Key="k", Body=b"")
        with refused("PreconditionFailed", 412):
            s3.put_object(Bucket=name, Key="k", Body=b"x" * 2_000_000, IfMatch='"other"')


def test_storage_discard_keeps_sizes_and_gives_zeros(start):
    server = start("--storage", "discard", "--auto-create-buckets")
    s3 = server.client()
    put = s3.put_object(Bucket="bucket", Key="k", Body=os.urandom(300_000))
    got = s3.get_object(Bucket="bucket", Key="k", Range="bytes=1-")
    assert got["Body"].read() == bytes(299_999)
    assert s3.head_object(Bucket="bucket", Key="k", ChecksumMode="ENABLED")["ChecksumCRC32"] == put["ChecksumCRC32"]
    with refused("BadDigest", 400):
        s3.put_object(Bucket="bucket", Key="l", Body=b"other", ChecksumCRC32=put["ChecksumCRC32"])

    bodies = [os.urandom(SIZE), b"end"]
    session, parts = upload(s3, "bucket", "m", bodies, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    whole = s3.put_object(Bucket="bucket", Key="whole", Body=b"".join(bodies))["ChecksumCRC32"]
    assert complete(s3, "bucket", "m", session, parts)["ChecksumCRC32"] == whole
    assert s3.head_object(Bucket="bucket", Key="m")["ContentLength"] == SIZE + 3

    plain = server.client(request_checksum_calculation="when_required")
    plain.put_object(Bucket="bucket", Key="plain", Body=b"x")
    answer = plain.head_object(Bucket="bucket", Key="plain", ChecksumMode="ENABLED")
    assert not [field for field in answer if field.startswith("Checksum")], "nothing is taken that nobody asked for"
    s3.close()
    plain.close()
