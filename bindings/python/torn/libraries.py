"""How each library opens a file of the bucket for writing. What reaches the store is in the environment: `BUCKET`, and what
the store's own tools read there."""

import os
from collections.abc import Callable
from typing import NamedTuple


class Library(NamedTuple):
    #: Opens the key for writing.
    open: Callable
    #: The store: `s3`, or `gs`.
    scheme: str
    #: The package that it is in.
    package: str


def endpoint():
    return os.environ["AWS_ENDPOINT_URL"]


def keys():
    return os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]


def tidegate_open(key):
    import tidegate

    return tidegate.open(f"{os.environ['BUCKET']}/{key}", "wb")


def tidegate_pyarrow(key):
    import tidegate.pyarrow

    return tidegate.pyarrow.filesystem(os.environ["BUCKET"]).open_output_stream(key, compression=None)


def s3fs_open(key):
    import s3fs

    access_key, secret_key = keys()
    files = s3fs.S3FileSystem(key=access_key, secret=secret_key, endpoint_url=endpoint())
    return files.open(f"{os.environ['BUCKET']}/{key}", "wb")


def gcsfs_open(key):
    import gcsfs

    files = gcsfs.GCSFileSystem(project="test", token="anon", endpoint_url=os.environ["STORAGE_EMULATOR_HOST"])
    return files.open(f"{os.environ['BUCKET']}/{key}", "wb")


def obstore_open(key):
    import obstore
    from obstore.store import S3Store

    access_key, secret_key = keys()
    store = S3Store(
        os.environ["BUCKET"].removeprefix("s3://"),
        endpoint=endpoint(),
        access_key_id=access_key,
        secret_access_key=secret_key,
        region=os.environ["AWS_REGION"],
        client_options={"allow_http": True},
    )
    return obstore.open_writer(store, key)


def pyarrow_open(key):
    from pyarrow.fs import S3FileSystem

    access_key, secret_key = keys()
    files = S3FileSystem(
        access_key=access_key, secret_key=secret_key, endpoint_override=endpoint(), region=os.environ["AWS_REGION"]
    )
    return files.open_output_stream(f"{os.environ['BUCKET'].removeprefix('s3://')}/{key}", compression=None)


def client():
    import boto3

    access_key, secret_key = keys()
    return boto3.client(
        "s3", endpoint_url=endpoint(), aws_access_key_id=access_key, aws_secret_access_key=secret_key,
        region_name=os.environ["AWS_REGION"],
    )  # fmt: skip


def smart_open_open(key):
    import smart_open

    return smart_open.open(f"{os.environ['BUCKET']}/{key}", "wb", transport_params={"client": client()})


def cloudpathlib_open(key):
    """boto3 has no file that is written; this is the library of such files on top of it."""
    import cloudpathlib

    access_key, secret_key = keys()
    files = cloudpathlib.S3Client(
        aws_access_key_id=access_key, aws_secret_access_key=secret_key, endpoint_url=endpoint()
    )
    return files.CloudPath(f"{os.environ['BUCKET']}/{key}").open("wb")


OURS = {
    "tidegate": Library(tidegate_open, "s3", "tidegate"),
    "tidegate (Google)": Library(tidegate_open, "gs", "tidegate"),
    "tidegate.pyarrow": Library(tidegate_pyarrow, "s3", "tidegate"),
}
PEERS = {
    "s3fs": Library(s3fs_open, "s3", "s3fs"),
    "gcsfs": Library(gcsfs_open, "gs", "gcsfs"),
    "obstore": Library(obstore_open, "s3", "obstore"),
    "pyarrow": Library(pyarrow_open, "s3", "pyarrow"),
    "smart_open": Library(smart_open_open, "s3", "smart_open"),
    "cloudpathlib (boto3)": Library(cloudpathlib_open, "s3", "cloudpathlib"),
}
LIBRARIES = OURS | PEERS
