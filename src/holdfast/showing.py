"""Text from outside, made safe to show on a terminal, in a log, in an error, in the history.

A log line, a heartbeat or a request may hold escape sequences that retitle a window, hide text or forge a line; a URL
may hold a password. Everything that is shown to a user passes through this module.
"""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""All control characters but tab and line feed, and those that change the direction of text."""

_URL_USER = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]*)://([^/\s@\"'<>]+)@")
_ONLY_A_NAME_IS_SECRET = ("http", "https", "ftp", "ftps", "git", "git+https")
"""In these schemes a user without a password is usually a token; in others it is a container or a service."""
_SECRET_OPTION = re.compile(
    r"(?i)([?&;](?:[\w.%-]*(?:key|secret|token|passw|pwd|credential|signature)[\w.%-]*|sig|sas|auth|code)=)([^&;\s\"'<>#]+)"
)
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*:(?://|[a-z0-9]+:)[^\s\"'<>]+")
_ORACLE_USER = re.compile(r"(?i)\b(jdbc:oracle:\w+:)[^/@\s]+/[^@\s]+@")
MASK = "***"


def visible(text: str) -> str:
    """`text` with its control characters escaped, e.g. `\\x1b`. Tabs and line feeds stay."""
    return _CONTROL.sub(_spelt, text)


def masked(text: str) -> str:
    """`text` without the secrets of the URLs in it, whatever their scheme: `user:password@`, keys, signatures."""
    if ":" not in text:
        return text
    text = _URL_USER.sub(_user_masked, _ORACLE_USER.sub(rf"\1{MASK}@", text))
    return _URL.sub(lambda url: _SECRET_OPTION.sub(rf"\1{MASK}", url[0]), text)


def shown(text: str) -> str:
    """`text` as a user may see it."""
    return visible(masked(text))


def _spelt(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _user_masked(found: re.Match[str]) -> str:
    scheme, user = found[1], found[2]
    if ":" not in user and scheme.lower() not in _ONLY_A_NAME_IS_SECRET:
        return found[0]
    return f"{scheme}://{MASK}@"
