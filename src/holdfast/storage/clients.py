"""obstore clients for a location: time-outs, and the usual sources of credentials of each ecosystem.

obstore itself reads environment variables (AWS_*, GOOGLE_*, AZURE_*), Google's application default credentials, web
identity tokens, and the metadata services of machines and containers. What it does not read are the shared files of
AWS: those are read by `aws_profile`.
"""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from holdfast.errors import InvalidSettings
from holdfast.storage.aws_profile import chosen_profile
from holdfast.storage.location import Location
from holdfast.storage.object_store import Client, Clients
from holdfast.storage.retrying import REQUEST_TIMEOUT

_SENDING_REQUESTS = 30
"""One request of an upload, up to 68 MiB, may take as long as this many small ones: a slow network must suffice."""
_RECEIVING_TIMEOUT = "1h"

_ONCE = {"max_retries": 0}


def clients_for(
    location: Location, environment: Mapping[str, str] = os.environ, *, request_timeout: float = REQUEST_TIMEOUT
) -> Clients:
    make = {"s3": _s3, "gs": _gcs, "az": _azure}[location.scheme]
    small, sent = _shown(request_timeout), _shown(request_timeout * _SENDING_REQUESTS)
    try:
        return Clients(
            quick=make(location, environment, {"connect_timeout": small, "timeout": small}),
            sending=make(location, environment, {"connect_timeout": small, "timeout": sent}),
            receiving=make(
                location, environment, {"connect_timeout": small, "timeout": _RECEIVING_TIMEOUT, "read_timeout": small}
            ),
        )
    except (BaseError, ValueError, OSError) as error:
        kind = type(error).__name__
        failure = InvalidSettings(
            f"could not set up a client for {location.root}: {kind}",
            hint="check the environment variables and files with the credentials; docs/stores.md names them",
        )
    # Raised outside of the handler: obstore's error can quote a key.
    raise failure


def _shown(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _client_options(endpoint: str | None, timeouts: Mapping[str, str]) -> dict[str, Any]:
    plain = endpoint is not None and endpoint.startswith("http://")
    return {**timeouts, **({"allow_http": True} if plain else {})}


def _s3(location: Location, environment: Mapping[str, str], timeouts: Mapping[str, str]) -> Client:
    profile = chosen_profile(location.options.get("profile"), environment)
    endpoint = (
        location.options.get("endpoint")
        or environment.get("AWS_ENDPOINT_URL_S3")
        or environment.get("AWS_ENDPOINT_URL")
        or environment.get("AWS_ENDPOINT")
        or profile.setting("endpoint_url")
    )
    config: dict[str, Any] = {"disable_bulk_delete": True, "conditional_put": "etag"}
    region = location.options.get("region") or _region(environment) or profile.setting("region")
    if region:
        config["region"] = region
    config.update(_addressing(location, endpoint))
    return S3Store(
        location.container,
        config=config,  # type: ignore[arg-type]
        client_options=_client_options(endpoint, timeouts),  # type: ignore[arg-type]
        retry_config=_ONCE,  # type: ignore[arg-type]
        credential_provider=profile.provider(),
    )


def _region(environment: Mapping[str, str]) -> str | None:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")


def _addressing(location: Location, endpoint: str | None) -> dict[str, Any]:
    """The bucket in the host name on AWS itself, in the path elsewhere, unless the URL sets `path_style`.

    A name with a dot stays in the path: no certificate is valid for it as a host name.
    """
    default = "false" if endpoint is None and "." not in location.container else "true"
    in_path = location.options.get("path_style", default) == "true"
    if endpoint is None:
        return {"virtual_hosted_style_request": not in_path}
    if in_path:
        return {"virtual_hosted_style_request": False, "endpoint": endpoint}
    parts = urlsplit(endpoint)
    return {
        "virtual_hosted_style_request": True,
        "endpoint": f"{parts.scheme}://{location.container}.{parts.netloc}{parts.path}",
    }


def _gcs(location: Location, environment: Mapping[str, str], timeouts: Mapping[str, str]) -> Client:
    endpoint = location.options.get("endpoint") or environment.get("GOOGLE_BASE_URL")
    emulator = environment.get("STORAGE_EMULATOR_HOST")
    config: dict[str, Any] = {}
    if emulator and not endpoint:
        endpoint = emulator if "://" in emulator else f"http://{emulator}"
        config["bearer_token"] = "emulator"
    if endpoint:
        config["base_url"] = endpoint
    return GCSStore(
        location.container,
        config=config,  # type: ignore[arg-type]
        client_options=_client_options(endpoint, timeouts),  # type: ignore[arg-type]
        retry_config=_ONCE,  # type: ignore[arg-type]
    )


def _azure(location: Location, environment: Mapping[str, str], timeouts: Mapping[str, str]) -> Client:
    account = location.options.get("account") or environment.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise InvalidSettings(
            f"the storage account of {location.root} is unknown",
            hint=f"{location.root}/path?account=NAME, or set AZURE_STORAGE_ACCOUNT_NAME",
        )
    endpoint = location.options.get("endpoint") or environment.get("AZURE_STORAGE_ENDPOINT")
    config: dict[str, Any] = {"account_name": account}
    if endpoint:
        config["endpoint"] = endpoint
    return AzureStore(
        location.container,
        config=config,  # type: ignore[arg-type]
        client_options=_client_options(endpoint, timeouts),  # type: ignore[arg-type]
        retry_config=_ONCE,  # type: ignore[arg-type]
    )
