"""The options of gcsfs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._settings import REACH_OPTIONS, Dialect, Settings, Taker, ignored, refused, to_file, to_store

_CREDENTIALS = (
    "set GOOGLE_APPLICATION_CREDENTIALS to the file of the credentials, or run `gcloud auth application-default login`"
)


def _token(settings: Settings, value: Any) -> None:
    match value:
        case "google_default":
            pass
        case "anon":
            settings.store["anonymous"] = True
        case "browser" | "cache" | "cloud":
            raise ValueError(f"the option 'token' is not supported as {value!r}: {_CREDENTIALS}")
        case str() if value.endswith(".json") or value.startswith(("/", "~", ".")):
            raise ValueError(f"the option 'token' is not supported as the name of a file: {_CREDENTIALS}")
        case str():
            settings.store["token"] = value
        case _:
            raise ValueError(f"the option 'token' is not supported as a {type(value).__name__}: {_CREDENTIALS}")


def _access(settings: Settings, value: Any) -> None:
    if value not in ("read_only", "read_write", "full_control"):
        raise ValueError(f"the option 'access' is 'read_only', 'read_write' or 'full_control', not {value!r}")
    settings.read_only = value == "read_only"


def _cache_timeout(settings: Settings, value: Any) -> None:
    if value <= 0:
        settings.listing["use_listings_cache"] = False
    else:
        settings.listing["listings_expiry_time"] = value


def _requester_pays(settings: Settings, value: Any) -> None:
    """gcsfs takes a flag, or the project that pays."""
    settings.store["request_payer"] = bool(value)
    if isinstance(value, str):
        settings.store["project"] = value


_OPTIONS: dict[str, Taker] = {
    "access": _access,
    "block_size": to_file("block_size"),
    "cache_timeout": _cache_timeout,
    "check_connection": ignored,
    "consistency": ignored,
    "default_location": refused("default_location", "create buckets in places of their own with gcloud"),
    "endpoint_url": to_store("endpoint_url"),
    "project": to_store("project"),
    "requester_pays": _requester_pays,
    "requests_timeout": ignored,
    "secure_serialize": ignored,
    "session_kwargs": refused("session_kwargs", "set HTTPS_PROXY for a proxy, and ca_bundle for authorities to trust"),
    "timeout": ignored,
    "token": _token,
    "version_aware": refused("version_aware", "the newest version of an object is read"),
}


class GcsDialect(Dialect):
    """gcsfs's options, and what holds between them."""

    def settings(self, given: Mapping[str, Any]) -> Settings:
        settings = super().settings(given)
        if settings.store.get("anonymous"):
            settings.store.pop("token", None)
        return settings


GCSFS = GcsDialect("gcsfs", _OPTIONS, REACH_OPTIONS | {"project", "request_payer", "token", "transport"})
