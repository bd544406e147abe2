"""`peer.py LIBRARY FILE s3://BUCKET/KEY`, or the other way round: one object by a Python library, in its default settings.

LIBRARY is `boto3` (its own threads), `boto3-crt` (the same call over AWS's common runtime in C) or `obstore` (object_store
in Rust). FILE `-` is standard input. Where the store is and who may use it is in the environment, as AWS's tools have it.
"""

import os
import sys


def boto3_client():
    import boto3

    return boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name=os.environ["AWS_REGION"])


def by_boto3(upload, file, bucket, key, preferred):
    from boto3.s3.transfer import TransferConfig

    config = TransferConfig(preferred_transfer_client=preferred)
    client = boto3_client()
    if not upload:
        client.download_file(bucket, key, file, Config=config)
    elif file == "-":
        client.upload_fileobj(sys.stdin.buffer, bucket, key, Config=config)
    else:
        client.upload_file(file, bucket, key, Config=config)


def by_obstore(upload, file, bucket, key):
    from obstore import get, put
    from obstore.store import S3Store

    store = S3Store(bucket, endpoint=os.environ["AWS_ENDPOINT_URL"], region=os.environ["AWS_REGION"], client_options={"allow_http": True})
    if not upload:
        with open(file, "wb") as out:
            for piece in get(store, key).stream():
                out.write(piece)
    elif file == "-":
        put(store, key, iter(lambda: sys.stdin.buffer.read(1 << 20), b""))
    else:
        with open(file, "rb") as source:
            put(store, key, source)


def main():
    library, source, target = sys.argv[1:]
    upload = target.startswith("s3://")
    bucket, _, key = (target if upload else source).removeprefix("s3://").partition("/")
    file = source if upload else target
    if library == "obstore":
        by_obstore(upload, file, bucket, key)
    else:
        by_boto3(upload, file, bucket, key, {"boto3": "classic", "boto3-crt": "crt"}[library])


main()
