"""The URL of a remote home, parsed and checked. Nothing connects here.

    s3://bucket/path?endpoint=http://host:9000&region=eu-central-1&path_style=true&profile=NAME
    gs://bucket/path?endpoint=http://host:4443
    az://container/path?account=NAME&endpoint=http://host:10000/NAME
    abfss://container@account.dfs.core.windows.net/path

Credentials never belong in a URL: it is shown in messages, in process lists and in the history.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, urlsplit

from holdfast.errors import InvalidSettings

OPTIONS = {
    "s3": ("endpoint", "region", "path_style", "profile"),
    "gs": ("endpoint",),
    "az": ("endpoint", "account"),
}
SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")
_SAME = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_EXAMPLES = {"s3": "s3://bucket/path", "gs": "gs://bucket/path", "az": "az://container/path?account=NAME"}
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,220}")
_SECRET = re.compile(r"key|secret|token|sas|sig|password|credential", re.IGNORECASE)
_CREDENTIALS_HINT = "remove them from the URL and set them as environment variables, see docs/stores.md"


@dataclass(frozen=True)
class Location:
    scheme: str
    container: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The URL of the bucket or container alone."""
        return f"{self.scheme}://{self.container}"

    @property
    def bucket(self) -> str:
        """The same for all URLs of one bucket of one server, as far as the URLs say which. Empty where nothing is
        copied inside the store: elsewhere a version in a listing may be another text than in an answer."""
        if self.scheme != "s3":
            return ""
        endpoint = self.options.get("endpoint")
        return self.root if endpoint is None else f"{self.root}?endpoint={endpoint}"


def parse_location(home: str) -> Location:
    parts = urlsplit(home)
    scheme = _SAME.get(parts.scheme, parts.scheme)
    container, options = parts.netloc, _options(scheme, parts)
    if parts.scheme in ("abfs", "abfss"):
        container, account = _container_and_account(parts)
        options = {"account": account, **options} if account else options
    elif "@" in parts.netloc:
        raise InvalidSettings(f"the home's URL {scheme}://… holds credentials", hint=_CREDENTIALS_HINT)
    if not _CONTAINER.fullmatch(container):
        rule = f"must name a bucket or container: {_EXAMPLES[scheme]}"
        raise InvalidSettings.of("home", _shown(parts), rule)
    return Location(scheme, container, _path(parts), options)


def _options(scheme: str, parts: SplitResult) -> dict[str, str]:
    given = parse_qsl(parts.query, keep_blank_values=True)
    for name, value in given:
        if name in OPTIONS[scheme]:
            _check_option(name, value)
        elif _SECRET.search(name):
            raise InvalidSettings(f"the home's URL holds credentials in option {name!r}", hint=_CREDENTIALS_HINT)
        else:
            known = ", ".join(OPTIONS[scheme])
            raise InvalidSettings(f"the home's URL has an unknown option {name!r}", hint=f"options are: {known}")
    return dict(given)


def _check_option(name: str, value: str) -> None:
    if name == "endpoint":
        parts = urlsplit(value)
        if "@" in parts.netloc or parts.query:
            raise InvalidSettings("the endpoint in the home's URL holds credentials", hint=_CREDENTIALS_HINT)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise InvalidSettings.of("endpoint", value, "must be a URL such as http://localhost:9000")
    elif name == "path_style":
        if value not in ("true", "false"):
            raise InvalidSettings.of(name, value, "must be true or false")
    elif not re.fullmatch(r"[\w.@+-]+", value):
        raise InvalidSettings.of(name, value, "must be a name")


def _container_and_account(parts: SplitResult) -> tuple[str, str]:
    container, at, host = parts.netloc.rpartition("@")
    if not at:
        return host, ""
    if ":" in container:
        raise InvalidSettings(f"the home's URL {parts.scheme}://… holds credentials", hint=_CREDENTIALS_HINT)
    return container, host.partition(".")[0]


def _path(parts: SplitResult) -> str:
    path = parts.path.strip("/")
    if parts.fragment or any(part in ("", ".", "..") for part in path.split("/") if path):
        raise InvalidSettings.of("home", _shown(parts), "must not hold '#', '//', '.' or '..' in its path")
    return path


def _shown(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
