"""`peer.py LIBRARY FILE s3://BUCKET/KEY`, or the other way round: one object by a Python library, in its default settings.

LIBRARY is `boto3` (its own threads), `crt` (AWS's common runtime in C, as boto3 has it) or `obstore` (object_store in
Rust). FILE `-` is standard input. Where the store is and who may use it is in the environment, as AWS's tools have it;
PEER_PART_MIB and PEER_AT_ONCE there are the size of parts and how many at once, instead of the defaults.
"""

import os
import sys


def tuning(part, at_once):
    """The two by the names that a library has for them, where the environment says them."""
    if "PEER_PART_MIB" not in os.environ:
        return {}
    chosen = {part: int(os.environ["PEER_PART_MIB"]) << 20}
    return chosen | {at_once: int(os.environ["PEER_AT_ONCE"])} if at_once else chosen


def by_boto3(upload, file, bucket, key):
    import boto3
    from boto3.s3.transfer import TransferConfig

    config = TransferConfig(**tuning("multipart_chunksize", "max_concurrency"))
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name=os.environ["AWS_REGION"])
    if not upload:
        client.download_file(bucket, key, file, Config=config)
    elif file == "-":
        client.upload_fileobj(sys.stdin.buffer, bucket, key, Config=config)
    else:
        client.upload_file(file, bucket, key, Config=config)


def by_crt(upload, file, bucket, key):
    # What boto3 does where it is told to prefer CRT, but that always speaks TLS.
    import botocore.session
    from botocore.config import Config
    from s3transfer import crt

    session = botocore.session.get_session()
    endpoint, region = os.environ["AWS_ENDPOINT_URL"], os.environ["AWS_REGION"]
    provider = crt.BotocoreCRTCredentialsWrapper(session.get_credentials()).to_crt_credentials_provider()
    client = crt.create_s3_crt_client(
        region,
        provider,
        use_ssl=endpoint.startswith("https:"),
        verify=os.environ.get("AWS_CA_BUNDLE"),
        **tuning("part_size", None),
    )
    settings = {"endpoint_url": endpoint, "region_name": region, "config": Config(s3={"addressing_style": "path"})}
    with crt.CRTTransferManager(client, crt.BotocoreCRTRequestSerializer(session, settings)) as manager:
        if upload:
            done = manager.upload(file, bucket, key)
        else:
            done = manager.download(bucket, key, file)
        done.result()


def by_obstore(upload, file, bucket, key):
    from concurrent.futures import ThreadPoolExecutor

    from obstore import get, get_range, head, put
    from obstore.store import S3Store

    settings = tuning("chunk_size", "max_concurrency")
    store = S3Store(
        bucket,
        endpoint=os.environ["AWS_ENDPOINT_URL"],
        region=os.environ["AWS_REGION"],
        client_options={"allow_http": True},
    )
    if not upload and settings:
        # It has no word for a parallel download; ranges by threads are what its users write.
        part, size = settings["chunk_size"], head(store, key)["size"]
        out = os.open(file, os.O_CREAT | os.O_WRONLY)

        def fetch(start):
            os.pwrite(out, get_range(store, key, start=start, end=min(start + part, size)), start)

        with ThreadPoolExecutor(settings["max_concurrency"]) as threads:
            list(threads.map(fetch, range(0, size, part)))
    elif not upload:
        with open(file, "wb") as out:
            for piece in get(store, key).stream():
                out.write(piece)
    elif file == "-":
        put(store, key, iter(lambda: sys.stdin.buffer.read(1 << 20), b""), **settings)
    else:
        with open(file, "rb") as source:
            put(store, key, source, **settings)


def main():
    library, source, target = sys.argv[1:]
    upload = target.startswith("s3://")
    bucket, _, key = (target if upload else source).removeprefix("s3://").partition("/")
    file = source if upload else target
    {"boto3": by_boto3, "crt": by_crt, "obstore": by_obstore}[library](upload, file, bucket, key)


main()
