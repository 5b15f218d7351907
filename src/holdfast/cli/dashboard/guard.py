"""Who may ask: by the name that was asked for, where the page comes from, and a token. Pure.

A page in the same browser can send requests to this server. It cannot choose their Host and Origin, so both are
checked: that stops pages of other sites, also those whose name has been made to point here.

Actions are off unless they are switched on, and then need the token itself. A browser sends its cookie by itself, so a
request with the cookie must also come from a page of this server: it names that page's Origin, and carries a word that
only such a page contains. A script sends the token in a header of its own, which no page of another site can set.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

COOKIE = "holdfast_token"
FORM_WORD = "form_word"
"""The field of a form, and of no other site's form, that proves where it comes from."""
_OWN_PAGES = (None, "same-origin")
"""What a browser says of the site that a request comes from (Sec-Fetch-Site); older ones say nothing."""
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
    actions: bool = False
    """Whether jobs may be asked for checkpoints. Needs a token."""
    form_key: bytes = b""
    """Drawn at the start of this process; what `form_word` is made with."""

    def __post_init__(self) -> None:
        assert not self.actions or (self.token and self.form_key), "actions without a token and a key"

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

    def may_act(self, headers: Mapping[str, str]) -> bool:
        """Whether the pages offer actions to this reader, who was allowed to see them."""
        return self.actions and self._has_token(headers, None)

    def action_refusal(self, headers: Mapping[str, str], word: str | None) -> tuple[int, str] | None:
        """For a request that `refusal` has let pass. `word` is the field of the form."""
        if not self.actions:
            return 405, "actions are off; holdfast dashboard --actions switches them on"
        if self._is_token(_bearer(headers.get("Authorization", ""))):
            return None
        if not self._is_token(_cookie(headers.get("Cookie", ""))):
            return 401, "an action needs the token: open /?token=… once, or send Authorization: Bearer …"
        if "Origin" not in headers or headers.get("Sec-Fetch-Site") not in _OWN_PAGES:
            return 403, "this action does not come from a page of this server"
        if word is None or not hmac.compare_digest(word.encode(), self.form_word.encode()):
            return 403, "this page is older than this server: load it again"
        return None

    @property
    def form_word(self) -> str:
        return hmac.new(self.form_key, (self.token or "").encode(), hashlib.sha256).hexdigest()

    def _is_known(self, host: str) -> bool:
        return host in _LOOPBACK or host in self.names

    def _is_own(self, origin: str, host: str) -> bool:
        return urlsplit(origin).netloc == host

    def _may_enter(self, headers: Mapping[str, str], given: str | None) -> bool:
        if self.trusted_header is not None and headers.get(self.trusted_header):
            return True
        if self.token is None:
            return self.trusted_header is None
        return self._has_token(headers, given)

    def _has_token(self, headers: Mapping[str, str], given: str | None) -> bool:
        offered = (given, _bearer(headers.get("Authorization", "")), _cookie(headers.get("Cookie", "")))
        return any(self._is_token(each) for each in offered)

    def _is_token(self, offered: str | None) -> bool:
        return (
            offered is not None
            and self.token is not None
            and hmac.compare_digest(offered.encode(errors="replace"), self.token.encode())
        )


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
