"""The options of s3fs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._settings import (
    REACH_OPTIONS,
    Dialect,
    Settings,
    Taker,
    call_options,
    ignored,
    refused,
    to_file,
    to_flag,
    to_store,
    to_write,
)


def _parameters(option: str, takers: Mapping[str, Taker]) -> Taker:
    """Takes the parameters in a dictionary, each by its name."""

    def take(settings: Settings, value: Any) -> None:
        for name, parameter in dict(value).items():
            if parameter is None:
                continue
            if name not in takers:
                raise ValueError(f"the option {option!r} has {name!r}, which is not supported")
            takers[name](settings, parameter)

    return take


def _default(taker: Taker) -> Taker:
    """What a dictionary of parameters says counts only where no option of its own says it."""

    def take(settings: Settings, value: Any) -> None:
        beside = Settings()
        taker(beside, value)
        # ``None`` is the mark of `use_ssl`, and says nothing.
        settings.store = beside.store | {name: said for name, said in settings.store.items() if said is not None}

    return take


def _anonymous(settings: Settings, value: Any) -> None:
    if value:
        settings.store["anonymous"] = True


def _use_ssl(settings: Settings, value: Any) -> None:
    if not value:
        settings.store.setdefault("endpoint_url", None)


def _verify(settings: Settings, value: Any) -> None:
    if value is False:
        raise ValueError("the option 'verify' is not supported as False: give a PEM file of authorities to trust")
    if value is not True:
        settings.store["ca_bundle"] = value


def _signature_version(settings: Settings, value: Any) -> None:
    # botocore.UNSIGNED is an object of its own, whose text is this.
    if "UNSIGNED" in repr(value):
        settings.store["anonymous"] = True
    elif value not in ("s3v4", "v4"):
        raise ValueError(f"the option 'signature_version' is 's3v4' or UNSIGNED, not {value!r}")


def _retries(settings: Settings, value: Any) -> None:
    # botocore's older name counts without the first attempt.
    attempts = value.get("total_max_attempts") or (value["max_attempts"] + 1 if "max_attempts" in value else None)
    if attempts is not None:
        settings.store["attempts"] = attempts


def _additional(settings: Settings, value: Any) -> None:
    given = dict(value)
    if given.pop("RequestPayer", None):
        settings.store["request_payer"] = True
    settings.write |= call_options(given)


_CLIENT = {
    "api_version": ignored,
    "aws_access_key_id": _default(to_store("access_key")),
    "aws_secret_access_key": _default(to_store("secret_key")),
    "aws_session_token": _default(to_store("session_token")),
    "endpoint_url": _default(to_store("endpoint_url")),
    "region_name": _default(to_store("region")),
    "use_ssl": _use_ssl,
    "verify": _verify,
}

_CONFIG = {
    "connect_timeout": to_store("connect_timeout"),
    "max_pool_connections": ignored,
    "parameter_validation": ignored,
    "read_timeout": to_store("patience"),
    "region_name": _default(to_store("region")),
    "request_checksum_calculation": ignored,
    "response_checksum_validation": ignored,
    "retries": _retries,
    "s3": _parameters(
        "config_kwargs", {"addressing_style": to_store("addressing"), "payload_signing_enabled": ignored}
    ),
    "signature_version": _signature_version,
    "tcp_keepalive": ignored,
    "user_agent_extra": ignored,
}

_OPTIONS: dict[str, Taker] = {
    "anon": _anonymous,
    "cache_regions": ignored,
    "client_kwargs": _parameters("client_kwargs", _CLIENT),
    "config_kwargs": _parameters("config_kwargs", _CONFIG),
    "default_block_size": to_file("block_size"),
    "default_cache_type": to_file("cache_type"),
    "default_fill_cache": to_file("fill_cache"),
    "fixed_upload_size": to_flag("equal_parts"),
    "key": to_store("access_key"),
    "local_expiry_check": ignored,
    "max_concurrency": to_write("concurrency"),
    "password": to_store("secret_key"),
    "requester_pays": to_flag("request_payer"),
    "s3_additional_kwargs": _additional,
    "secret": to_store("secret_key"),
    "session": refused("session", "give key, secret and token, or profile"),
    "token": to_store("session_token"),
    "use_ssl": _use_ssl,
    "username": to_store("access_key"),
    "version_aware": refused("version_aware", "the newest version of an object is read"),
}


class S3Dialect(Dialect):
    """s3fs's options, and what holds between them."""

    def settings(self, given: Mapping[str, Any]) -> Settings:
        for name, other in (("key", "username"), ("secret", "password")):
            if given.get(name) and given.get(other):
                # s3fs raises this.
                raise KeyError(f"give {name} or {other}, not both")
        settings = super().settings(given)
        store = settings.store
        if "endpoint_url" in store and store["endpoint_url"] is None:
            raise ValueError("the option 'use_ssl' is not supported alone: give an endpoint_url with http://")
        if store.get("anonymous"):
            # s3fs then ignores keys.
            for secret in ("access_key", "secret_key", "session_token", "profile"):
                store.pop(secret, None)
        elif ("access_key" in store) != ("secret_key" in store):
            raise ValueError("give both key and secret, or neither")
        return settings


_REACH = REACH_OPTIONS | {
    *("access_key", "secret_key", "session_token", "profile", "profile_only", "region"),
    *(
        "addressing",
        "checksum",
        "equal_parts",
        "kept_conditions",
        "max_parts",
        "payload_sha256",
        "request_payer",
        "trailers",
    ),
}

S3FS = S3Dialect("s3fs", _OPTIONS, _REACH)
