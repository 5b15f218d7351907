"""What holds for S3 holds for Google and Azure: lost answers, wrong secrets that nobody sees, a missing bucket."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import OutcomeUnknown, StorageDenied, StorageError, StorageNotThere, StorageUnreachable
from holdfast.storage import aws_profile
from holdfast.storage.clients import clients_for
from holdfast.storage.interface import Created, ObjectStore
from holdfast.storage.location import parse_location
from holdfast.storage.object_store import RemoteStore
from holdfast.storage.urls import open_store
from tests.stores.azure import ACCOUNT_KEY
from tests.stores.proxy import Fate, Seen, proxy_to
from tests.stores.s3 import ACCESS_KEY, SECRET_KEY, S3Server


@dataclass(frozen=True)
class Cloud:
    endpoint: str
    home: Callable[..., str]


@pytest.fixture(params=["s3", "gcs", "azure"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    server = request.getfixturevalue(request.param)
    return Cloud(server.endpoint, server.home)


def once(home: str) -> ObjectStore:
    location = parse_location(home)
    return RemoteStore(clients_for(location), location.root, within=location.path)


@pytest.mark.parametrize("fate", [Fate.LOSE_ANSWER, Fate.LOSE_REQUEST])
def test_a_create_without_answer_is_unknown_and_settled_by_the_retries(cloud: Cloud, fate: Fate) -> None:
    root = cloud.endpoint.rpartition("/")[0] if cloud.endpoint.count("/") > 2 else cloud.endpoint
    with proxy_to(root) as proxy:
        through = cloud.endpoint.replace(root, proxy.endpoint)
        fates: list[Fate] = []

        def judge(seen: Seen) -> Fate:
            return fates.pop() if fates and seen.is_conditional_put else Fate.PASS

        proxy.judge = judge
        name = f"lost-{fate.name}"
        fates[:] = [fate]
        with pytest.raises(OutcomeUnknown):
            once(cloud.home(name, through)).create("journal/1", b"mine")
        fates[:] = [fate, fate]
        retrying = open_store(cloud.home(name, through), deadline=200)
        assert retrying.create("journal/2", b"mine") is Created.WON
        fates[:] = [fate]
        assert retrying.create("journal/2", b"another's") is Created.LOST
        assert retrying.get("journal/2") == b"mine"


def test_a_refused_connection_is_no_doubt(cloud: Cloud) -> None:
    store = once(cloud.home("refused", "http://127.0.0.1:1/testaccount"))
    for call in (lambda: store.create("a", b""), lambda: store.delete("a"), lambda: store.get("a")):
        with pytest.raises(StorageUnreachable, match="no connection to the server"):
            call()


def test_a_missing_bucket_is_said_at_once(cloud: Cloud) -> None:
    store = open_store(cloud.home("x").replace("://holdfast/", "://no-such-bucket/"), deadline=200)
    for call in (
        lambda: store.create("a", b""),
        lambda: store.upload("a", [b""]),
        lambda: store.get("a"),
        lambda: list(store.list("")),
        store.children,
    ):
        with pytest.raises(StorageNotThere, match="no such bucket or container"):
            call()


WRONG_KEY = "d3JvbmcgYW5kIHNlY3JldA=="


@pytest.mark.parametrize(
    ("server", "variables"),
    [
        ("s3", {"AWS_SECRET_ACCESS_KEY": "wr0ng-and-s3cret"}),
        ("azure", {"AZURE_STORAGE_ACCOUNT_KEY": WRONG_KEY}),
        (
            "azure",
            {
                "AZURE_STORAGE_ACCOUNT_KEY": "",
                "AZURE_STORAGE_SAS_KEY": "sv=2021-08-06&ss=b&srt=sco&sp=rwdl&se=2099-01-01T00:00:00Z&sig=wr0ng",
            },
        ),
    ],
)
def test_wrong_credentials_are_denied_and_never_shown(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    server: str,
    variables: dict[str, str],
) -> None:
    caplog.set_level(logging.DEBUG)
    home = request.getfixturevalue(server).home("secrets")
    for name, value in variables.items():
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name)
    store = open_store(home, deadline=60)
    told = [repr(store), store.url]
    for call in (
        lambda: store.create("a", b""),
        lambda: store.upload("a", [bytes(1 << 20)] * 70),
        lambda: store.get("a"),
        lambda: list(store.list("")),
        lambda: store.delete("a"),
    ):
        with pytest.raises(StorageError) as caught:
            call()
        assert isinstance(caught.value, StorageDenied), str(caught.value)
        told += [str(caught.value), repr(caught.value.__cause__), repr(caught.value.__context__)]
    for text in [*told, caplog.text]:
        for hidden in ("wr0ng", WRONG_KEY, SECRET_KEY, ACCOUNT_KEY, "sig=", "Signature=", "StringToSign", "SharedKey"):
            assert hidden not in text


def test_keys_rotated_in_a_profile_are_followed(s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The profile that is asked for outranks the environment, and its file is read again when the keys may be old."""
    monkeypatch.setattr(aws_profile, "READ_AGAIN", timedelta(seconds=0))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody-else")
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    def rotate(secret: str) -> None:
        file.write_text(f"[team]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {secret}\n")

    rotate(SECRET_KEY)
    store = open_store(s3.home("rotated") + "&profile=team", deadline=60)
    assert store.create("a", b"") is Created.WON
    rotate("revoked")
    with pytest.raises(StorageDenied):
        store.create("b", b"")
    rotate(SECRET_KEY)
    assert store.create("b", b"") is Created.WON
