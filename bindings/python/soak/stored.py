"""What the server has after the soak, asked through boto3."""

from harness.s3 import Bucket
from harness.servers import Embedded, Minio

from .content import Recipe


def wrong_objects(bucket: Bucket, expected: dict[str, Recipe]) -> list[str]:
    """Compares all objects of the bucket with what they should be."""
    keys = set(bucket.keys())
    found = [f"{key} is missing" for key in expected.keys() - keys]
    found += [f"{key} should have no object" for key in keys - expected.keys()]
    for key in sorted(keys & expected.keys()):
        if bucket.get(key) != expected[key].data():
            found.append(f"{key} has other bytes than were written")
    return found


def sessions(server: Embedded | Minio, bucket: Bucket) -> list[str]:
    """The upload sessions that are left."""
    if isinstance(server, Minio):
        return sorted(server.sessions_on_disk())
    pages = bucket.client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket.name)
    return [entry["Key"] for page in pages for entry in page.get("Uploads", [])]
