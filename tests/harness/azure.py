"""Azure Blob Storage as a test sees it: its address, its account, and what it holds, asked through Azure's own client."""

import functools
import hashlib
import secrets
from dataclasses import dataclass, replace

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobServiceClient

# The account of every Azurite, published in its documentation.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class AzureEndpoint:
    """Where a blob service listens."""

    url: str

    def at(self, url):
        """The same store by another way, such as a proxy."""
        return replace(self, url=url)

    @property
    def connection(self):
        return f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.url}/{ACCOUNT};"

    @property
    def env(self):
        """What a user of Azure has in the environment."""
        return {"AZURE_STORAGE_CONNECTION_STRING": self.connection}

    @functools.cache  # noqa: B019 (an endpoint lives as long as its server)
    def client(self) -> BlobServiceClient:
        return BlobServiceClient.from_connection_string(self.connection, read_timeout=30)


class Container:
    """One container made for one test, and questions about it."""

    options = ()

    def __init__(self, endpoint: AzureEndpoint, name=None):
        self.endpoint = endpoint
        self.name = name or f"t-{secrets.token_hex(6)}"
        self._client = endpoint.client().create_container(self.name)

    @property
    def env(self):
        return self.endpoint.env

    def url(self, key=""):
        return f"az://{self.name}/{key}"

    def put(self, key, body):
        self._client.upload_blob(key, body, overwrite=True)

    def sha256(self, key):
        digest = hashlib.sha256()
        for piece in self._client.download_blob(key).chunks():
            digest.update(piece)
        return digest.hexdigest()

    def size(self, key):
        """None where there is no such blob."""
        try:
            return self._client.get_blob_client(key).get_blob_properties().size
        except ResourceNotFoundError:
            return None

    def keys(self):
        return sorted(self._client.list_blob_names())
