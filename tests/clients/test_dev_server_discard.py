"""The embedded server where it keeps no bytes: for measuring clients."""

import os

from .errors import refused
from .test_dev_server_multipart import SIZE, complete, upload


def test_sizes_are_kept_and_reads_give_zeros(start):
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
