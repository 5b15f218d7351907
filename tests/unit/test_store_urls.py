"""From a home's URL to a client: what is refused before anything is touched, and where credentials come from."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, InvalidSettings
from holdfast.storage.aws_profile import chosen_profile
from holdfast.storage.clients import clients_for
from holdfast.storage.location import Location, parse_location
from holdfast.storage.urls import open_store


@pytest.mark.parametrize(
    ("home", "expected"),
    [
        ("s3://bucket", Location("s3", "bucket", "")),
        ("s3://bucket/", Location("s3", "bucket", "")),
        ("s3a://bucket/a/b/", Location("s3", "bucket", "a/b")),
        (
            "s3://bucket/a?endpoint=http://localhost:9000&path_style=true&region=eu-central-1",
            Location(
                "s3",
                "bucket",
                "a",
                {"endpoint": "http://localhost:9000", "path_style": "true", "region": "eu-central-1"},
            ),
        ),
        ("gs://bucket/a b", Location("gs", "bucket", "a b")),
        ("az://container/a?account=acme", Location("az", "container", "a", {"account": "acme"})),
        ("abfss://container@acme.dfs.core.windows.net/a", Location("az", "container", "a", {"account": "acme"})),
    ],
)
def test_urls(home: str, expected: Location) -> None:
    assert parse_location(home) == expected


@pytest.mark.parametrize(
    ("home", "message"),
    [
        ("s3://", "must name a bucket"),
        ("s3:///path", "must name a bucket"),
        ("gs://?endpoint=http://x", "must name a bucket"),
        ("az://bad container/x", "must name a bucket"),
        ("s3://bucket/a/../b", "must not hold"),
        ("s3://bucket/a//b", "must not hold"),
        ("s3://bucket/a#b", "must not hold"),
        ("s3://bucket?colour=red", "unknown option 'colour'"),
        ("gs://bucket?region=eu", "unknown option 'region'"),
        ("s3://bucket?endpoint=localhost:9000", "must be a URL"),
        ("s3://bucket?path_style=yes", "must be true or false"),
        ("s3://bucket?region=a b", "must be a name"),
        ("ftp://bucket/x", "must be a URL of a supported store"),
        ("s3", "must be a URL of a supported store"),
    ],
)
def test_what_is_wrong_is_said(home: str, message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        open_store(home)


@pytest.mark.parametrize(
    "home",
    [
        "s3://AKIA123:s3cr3t@bucket/x",
        "gs://s3cr3t@bucket/x",
        "abfss://user:s3cr3t@container@acme.dfs.core.windows.net/x",
        "s3://bucket/x?secret_access_key=s3cr3t",
        "s3://bucket/x?aws_session_token=s3cr3t",
        "az://container/x?account=a&sas_key=s3cr3t",
        "az://container/x?account=a&sig=s3cr3t",
        "s3://bucket/x?endpoint=http://user:s3cr3t@localhost:9000",
        "az://container/x?account=a&endpoint=http://localhost:10000/a?sig%3Ds3cr3t",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(home: str) -> None:
    with pytest.raises(InvalidSettings, match="credentials") as caught:
        open_store(home)
    assert "s3cr3t" not in str(caught.value)


def test_an_azure_account_must_be_known() -> None:
    with pytest.raises(InvalidSettings, match="storage account of az://container is unknown"):
        clients_for(parse_location("az://container/x"), {})
    clients_for(parse_location("az://container/x"), {"AZURE_STORAGE_ACCOUNT_NAME": "acme"})


def test_a_key_that_is_no_key_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "s3cr3t, and no base64")
    with pytest.raises(InvalidSettings) as caught:
        open_store("az://container/x?account=acme")
    _assert_hidden(caught.value, "s3cr3t")


@pytest.mark.parametrize(
    ("home", "environment", "endpoint"),
    [
        ("s3://bucket/x?endpoint=http://localhost:9000", {}, "http://localhost:9000"),
        ("s3://bucket/x", {"AWS_ENDPOINT_URL": "http://localhost:9001"}, "http://localhost:9001"),
        ("s3://bucket/x", {"AWS_ENDPOINT_URL_S3": "http://s3:1", "AWS_ENDPOINT_URL": "http://x:1"}, "http://s3:1"),
        (
            "s3://bucket/x?endpoint=https://example.com&path_style=false",
            {},
            "https://bucket.example.com",
        ),
    ],
)
def test_endpoints_of_s3(home: str, environment: dict[str, str], endpoint: str) -> None:
    environment = {**environment, "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"}
    for client in vars(clients_for(parse_location(home), environment)).values():
        assert client.config["endpoint"] == endpoint
        assert client.retry_config["max_retries"] == 0


# -- AWS's shared files


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "config").write_text(
        "[default]\nregion = eu-west-1\n[profile team]\nregion = eu-north-1\nendpoint_url = http://team:9000\n"
        "[profile sso]\nsso_session = corp\n"
    )
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key = s3cr3t-1\n"
        "[team]\naws_access_key_id = AKTEAM\naws_secret_access_key = s3cr3t-2\naws_session_token = t0ken\n"
    )
    return {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }


def test_the_default_profile_is_used_when_the_environment_names_no_credentials(files: dict[str, str]) -> None:
    profile = chosen_profile(None, files)
    assert profile.setting("region") == "eu-west-1"
    assert profile.provider()()["access_key_id"] == "AKDEFAULT"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        assert chosen_profile(None, {**files, name: "x"}).provider() is None


@pytest.mark.parametrize("named", ["option", "variable"])
def test_a_named_profile(files: dict[str, str], named: str) -> None:
    profile = (
        chosen_profile("team", {**files, "AWS_ACCESS_KEY_ID": "AKOTHER"})
        if named == "option"
        else chosen_profile(None, {**files, "AWS_PROFILE": "team"})
    )
    keys = profile.provider()()
    assert (keys["access_key_id"], keys["secret_access_key"], keys["token"]) == ("AKTEAM", "s3cr3t-2", "t0ken")
    assert profile.setting("endpoint_url") == "http://team:9000"


def test_rotated_keys_are_read_again(files: dict[str, str]) -> None:
    provider = chosen_profile("team", files).provider()
    assert provider()["expires_at"] > datetime.now(UTC)
    path = Path(files["AWS_SHARED_CREDENTIALS_FILE"])
    path.write_text(path.read_text().replace("AKTEAM", "AKROTATED"))
    assert provider()["access_key_id"] == "AKROTATED"


def test_a_profile_that_does_not_exist(files: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match="there is no AWS profile 'nobody'"):
        chosen_profile("nobody", files)


def test_a_profile_without_keys_is_left_to_boto3(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(InvalidSettings, match="needs boto3") as caught:
        chosen_profile("sso", files).provider()
    assert caught.value.hint == "pip install 'holdfast-spark[aws]'"


def test_a_file_that_is_no_configuration_is_named_and_not_quoted(files: dict[str, str]) -> None:
    Path(files["AWS_SHARED_CREDENTIALS_FILE"]).write_text("aws_secret_access_key = s3cr3t\n")
    with pytest.raises(InvalidSettings, match="not a valid AWS configuration file") as caught:
        chosen_profile(None, files).provider()
    _assert_hidden(caught.value, "s3cr3t")


def _assert_hidden(error: HoldfastError, secret: str) -> None:
    seen: BaseException | None = error
    while seen is not None:
        assert secret not in repr(seen)
        seen = seen.__cause__ or seen.__context__
