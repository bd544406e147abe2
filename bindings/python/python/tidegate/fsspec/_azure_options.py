"""The options of adlfs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._settings import REACH_OPTIONS, Dialect, Settings, Taker, ignored, refused, to_file, to_flag, to_store, to_write


def _principal(name: str) -> Taker:
    variable = f"AZURE_{name.upper()}"
    return refused(
        name,
        f"set {variable}, with AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET together naming a service "
        "principal",
    )


def _credential(settings: Settings, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(
            f"the option 'credential' is not supported as a {type(value).__name__}: give account_key or sas_token, or "
            "set the variables of azure-identity in the environment"
        )
    settings.store.setdefault("sas", value)


def _location_mode(settings: Settings, value: Any) -> None:
    if value != "primary":
        raise ValueError("the option 'location_mode' is not supported: give account_host of the secondary location")


def _account_host(settings: Settings, value: Any) -> None:
    settings.store["endpoint_url"] = f"https://{value}"


_OPTIONS: dict[str, Taker] = {
    "account_host": _account_host,
    "account_key": to_store("account_key"),
    "account_name": to_store("account"),
    "anon": to_flag("anonymous"),
    "assume_container_exists": ignored,
    "blocksize": to_file("block_size"),
    "client_id": _principal("client_id"),
    "client_secret": _principal("client_secret"),
    "connection_string": to_store("connection_string"),
    "connection_timeout": to_store("connect_timeout"),
    "credential": _credential,
    "default_cache_type": to_file("cache_type"),
    "default_fill_cache": to_file("fill_cache"),
    "location_mode": _location_mode,
    "max_concurrency": to_write("concurrency"),
    "read_timeout": to_store("patience"),
    "request_session": refused(
        "request_session", "set HTTPS_PROXY for a proxy, and ca_bundle for authorities to trust"
    ),
    "sas_token": to_store("sas"),
    "socket_timeout": ignored,
    "tenant_id": _principal("tenant_id"),
    "timeout": ignored,
    "version_aware": refused("version_aware", "the newest version of a blob is read"),
}


class AzureDialect(Dialect):
    """adlfs's options, and what holds between them."""

    def settings(self, given: Mapping[str, Any]) -> Settings:
        settings = super().settings(given)
        store = settings.store
        # As in adlfs: a connection string says all; a key comes before a signature, and both before no credentials.
        if "connection_string" in store:
            for said in ("account", "account_key", "sas", "endpoint_url", "anonymous"):
                store.pop(said, None)
        if "account_key" in store:
            store.pop("sas", None)
        if "account_key" in store or "sas" in store or "token" in store:
            store.pop("anonymous", None)
        return settings


_REACH = REACH_OPTIONS | {"account", "account_key", "connection_string", "metadata_checksums", "sas", "token"}

ADLFS = AzureDialect("adlfs", _OPTIONS, _REACH)
