"""Opens the store of a home's URL, and checks that the store can do what holdfast needs."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.errors import InvalidSettings, StorageError
from holdfast.storage.interface import Created, ObjectStore
from holdfast.storage.local import LocalStore
from holdfast.storage.location import SCHEMES, parse_location
from holdfast.storage.metered import Meter, MeteredStore
from holdfast.storage.retrying import CALL_REQUESTS, DEADLINE, SHORTEST_REQUEST_TIMEOUT, Patience, RetryingStore
from holdfast.storage.unique import unique_name

_PROBE = b"holdfast probe: safe to delete\n"


def open_store(home: str, *, deadline: float = DEADLINE, meter: Meter | None = None) -> ObjectStore:
    """The store behind a home's URL. A plain absolute path is taken as `file://`.

    Calls to a remote store are retried for up to `deadline` seconds; a small request times out after a third of that,
    a part of an upload after twice as long. With a `meter`, requests are counted.
    """
    request_timeout = max(SHORTEST_REQUEST_TIMEOUT, deadline / CALL_REQUESTS)
    scheme = _scheme(home)
    if scheme == "file":
        return _metered(_local(home), meter)
    if scheme == "hdfs":
        return RetryingStore(_metered(_hdfs(home, request_timeout), meter), Patience(deadline))
    if scheme in SCHEMES:
        return RetryingStore(_remote(home, meter, request_timeout), Patience(deadline))
    raise InvalidSettings.of(
        "home",
        home,
        "must be a URL of a supported store: file:///absolute/path, s3://, gs://, az://, hdfs://host:port/path",
        hint="--home file:///var/lib/holdfast",
    )


def is_local(home: str) -> bool:
    """Whether a request is a system call, so that making many of them at once gains nothing."""
    return _scheme(home) == "file"


def _scheme(home: str) -> str:
    return "file" if home.startswith("/") else urlsplit(home).scheme


def _local(home: str) -> ObjectStore:
    if home.startswith("/"):
        return LocalStore(Path(home))
    parts = urlsplit(home)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise InvalidSettings.of("home", home, "a file URL has three slashes: file:///absolute/path")
    return LocalStore(Path(unquote(parts.path)))


def _hdfs(home: str, request_timeout: float) -> ObjectStore:
    try:
        # Loaded here, so that commands on other homes start faster.
        from holdfast.storage.hdfs import open_hdfs
    except ModuleNotFoundError as error:
        rule = f"HDFS needs the package {error.name}"
        raise InvalidSettings.of("home", home, rule, hint="pip install 'holdfast-spark[hdfs]'") from error
    return open_hdfs(home, request_timeout)


def _remote(home: str, meter: Meter | None, request_timeout: float) -> ObjectStore:
    location = parse_location(home)
    # Loaded here, so that commands on a local home start faster.
    from holdfast.storage.clients import clients_for
    from holdfast.storage.object_store import RemoteStore, put_requests

    clients = clients_for(location, request_timeout=request_timeout)
    store = RemoteStore(clients, location.root, within=location.path, bucket=location.bucket)
    return store if meter is None else MeteredStore(store, meter, put_requests)


def _metered(store: ObjectStore, meter: Meter | None) -> ObjectStore:
    return store if meter is None else MeteredStore(store, meter)


def require_create_if_absent(store: ObjectStore) -> None:
    """Prove that the store refuses to create an object twice; without that, two runs could both own a job."""
    key = f"probe-{unique_name()}"
    first = store.create(key, _PROBE)
    # Other bytes: a store that reads back would take an equal object for its own.
    second = store.create(key, _PROBE * 2)
    store.delete(key)
    if (first, second) != (Created.WON, Created.LOST):
        raise StorageError(
            f"could not use {store.url} as home: it lets an object be created twice",
            hint="use a store with atomic create-if-absent",
        )
