"""Who may ask: by the name that was asked for, where the page comes from, and a token. Pure.

A page in the same browser can send requests to this server. It cannot choose their Host and Origin, so both are
checked: that stops pages of other sites, also those whose name has been made to point here.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

COOKIE = "holdfast_token"
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))


def is_loopback(address: str) -> bool:
    return address in _LOOPBACK


@dataclass(frozen=True)
class Guard:
    names: frozenset[str]
    """Host names that may be asked for, besides those of this machine itself."""
    token: str | None = None
    """Needed for every request where it is set."""
    trusted_header: str | None = None
    """A header of a proxy that has checked who asks, instead of the token."""

    def refusal(self, method: str, headers: Mapping[str, str], given: str | None) -> tuple[int, str] | None:
        """The status and the reason, None when the request is allowed. `given` is a token in the query."""
        if not self._is_known(_host(headers.get("Host", ""))):
            return 421, "this server does not answer to that name; name it with --host-name"
        origin = headers.get("Origin")
        if method != "GET" and origin is not None and not self._is_own(origin, headers.get("Host", "")):
            return 403, "this request comes from another site"
        if self._may_enter(headers, given):
            return None
        return 401, "a token is needed: open /?token=… once, or send Authorization: Bearer …"

    def _is_known(self, host: str) -> bool:
        return host in _LOOPBACK or host in self.names

    def _is_own(self, origin: str, host: str) -> bool:
        return urlsplit(origin).netloc == host

    def _may_enter(self, headers: Mapping[str, str], given: str | None) -> bool:
        if self.trusted_header is not None and headers.get(self.trusted_header):
            return True
        if self.token is None:
            return self.trusted_header is None
        offered = (given, _bearer(headers.get("Authorization", "")), _cookie(headers.get("Cookie", "")))
        return any(each is not None and hmac.compare_digest(each.encode(), self.token.encode()) for each in offered)


def _host(header: str) -> str:
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _bearer(header: str) -> str | None:
    return header.removeprefix("Bearer ") if header.startswith("Bearer ") else None


def _cookie(header: str) -> str | None:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return found.value if found is not None else None
