"""AWS's shared files, ~/.aws/config and ~/.aws/credentials, for what the environment variables do not set.

Keys are read again every few minutes, so that rotated keys are used without a restart.
Profiles that need more than keys (single sign-on, roles, external processes) are left to boto3.
"""

import configparser
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidSettings

READ_AGAIN = timedelta(minutes=5)
_ELSEWHERE = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables that determine where credentials come from: the files are not used then."""
_NEEDS_BOTO3 = ("role_arn", "sso_session", "sso_start_url", "credential_process", "credential_source", "login_session")


@dataclass(frozen=True)
class Profile:
    name: str
    config_file: Path
    credentials_file: Path
    gives_credentials: bool

    def setting(self, name: str) -> str | None:
        return self._settings().get(name)

    def provider(self) -> Any:
        """Called by obstore for credentials; None when the files have none."""
        settings = self._settings() if self.gives_credentials else {}
        if "aws_access_key_id" in settings:
            return self._keys
        if any(name in settings for name in _NEEDS_BOTO3):
            return _boto3_provider(self.name)
        return None

    def _keys(self) -> dict[str, Any]:
        settings = self._settings()
        return {
            "access_key_id": settings["aws_access_key_id"],
            "secret_access_key": settings.get("aws_secret_access_key", ""),
            "token": settings.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + READ_AGAIN,  # noqa: TID251
        }

    def _settings(self) -> dict[str, str]:
        section = self.name if self.name == "default" else f"profile {self.name}"
        return {**_section(self.config_file, section), **_section(self.credentials_file, self.name)}


def chosen_profile(asked: str | None, environment: Mapping[str, str]) -> Profile:
    """The profile that the URL or AWS_PROFILE names, else the default one. Only a named one has to exist."""
    home = Path(environment.get("HOME") or os.path.expanduser("~"))
    profile = Profile(
        asked or environment.get("AWS_PROFILE") or "default",
        Path(environment.get("AWS_CONFIG_FILE") or home / ".aws" / "config"),
        Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials"),
        asked is not None or not any(environment.get(name) for name in _ELSEWHERE),
    )
    if asked is not None and not profile._settings():
        files = f"{profile.config_file} nor {profile.credentials_file}"
        raise InvalidSettings(f"there is no AWS profile {asked!r} in {files}", hint="aws configure list-profiles")
    return profile


def _section(path: Path, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(path)
    except (configparser.Error, UnicodeDecodeError, OSError):
        failure = InvalidSettings(f"could not read {path}: it is not a valid AWS configuration file")
    else:
        return dict(parser[name]) if parser.has_section(name) else {}
    # Raised outside of the handler: a parser's error quotes the line, which can be a key.
    raise failure


def _boto3_provider(profile: str) -> Callable[[], Any]:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise InvalidSettings(
            f"the AWS profile {profile!r} needs boto3 for its credentials", hint="pip install 'holdfast-spark[aws]'"
        ) from None
    provider: Callable[[], Any] = Boto3CredentialProvider(boto3.Session(profile_name=profile))
    return provider
