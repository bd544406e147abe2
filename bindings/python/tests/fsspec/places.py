"""Places in stores that file systems reach."""

import secrets
from dataclasses import dataclass

import fsspec


@dataclass
class Place:
    """A place in a store that a file system reaches."""

    protocol: str
    options: dict
    bucket: str

    def fs(self, **options):
        return fsspec.filesystem(self.protocol, **self.options, **options)

    def folder(self):
        """The path of a folder that no other test uses."""
        return f"{self.bucket}/{secrets.token_hex(6)}"

    def url(self, name=""):
        return f"{self.protocol}://{self.folder()}/{name}"


def s3_options(endpoint):
    return {
        "key": endpoint.access_key,
        "secret": endpoint.secret_key,
        "client_kwargs": {"endpoint_url": endpoint.url, "region_name": "us-east-1"},
    }
