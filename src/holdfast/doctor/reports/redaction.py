"""Reports that can be shared: secrets are removed, hosts and addresses have pseudonyms.

A host has the same pseudonym everywhere in a report.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.doctor.reports.document import Report
from holdfast.doctor.reports.secrets import without_secrets
from holdfast.showing import MASK

_USER_IN_URL = re.compile(r"(?<=://)[^/\s:@]+(?::[^/\s@]+)?@")
_EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_AUTHORITY = re.compile(r"(?<=://)([A-Za-z0-9][\w.-]*[A-Za-z0-9])(?=[:/\s]|$)")
_IPV4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d\.\d)")
_IPV6 = re.compile(
    r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){4,7}[0-9a-fA-F]{1,4}(?![\w:])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:)+:[0-9a-fA-F:]*\b"
)
_DASHED_IPV4 = re.compile(r"\bip(?:-\d{1,3}){4}[\w.-]*\b")
_DOMAIN = re.compile(
    r"\b(?:[a-zA-Z0-9](?:[\w-]*[a-zA-Z0-9])?\.)+(?:com|net|org|io|cloud|internal|local|lan|corp|intra|svc|home|de|eu|uk|us"
    r"|cn|in|fr|ch|nl|ru|jp)\b(?![.(\w])"
)
_NAMED = (
    re.compile(r"(?<=\[pod/)([^/\]\s]+)"),
    re.compile(r"(?<= on host: )([\w.-]+?)(?=\.?\s|$)"),
    re.compile(r"(?:Lost executor \S+ on |executor lost on )([\w.-]+)"),
    re.compile(r"\(([\w.-]+) executor \S+\)"),
    re.compile(r"@ ([\w.-]+) \(dataPort"),
    re.compile(r"TaskManager with id ([\w.-]+)"),
    re.compile(r"\bhost[=:] ?([\w.-]+)"),
    re.compile(r"flink-[^-/]+-[a-z]+-\d+-([^/]+?)\.(?:log|out)"),
)
_PSEUDONYM = re.compile(r"^(?:host|address|user)-\d+$")


class Redactor:
    def __init__(self) -> None:
        self._names: dict[str, dict[str, str]] = {"host": {}, "address": {}, "user": {}}

    def report(self, report: Report) -> Report:
        return msgspec.convert(self._all(msgspec.to_builtins(report)), Report)

    def text(self, text: str) -> str:
        text = _USER_IN_URL.sub(f"{MASK}@", without_secrets(text))
        text = _EMAIL.sub(lambda match: self._name("user", match[0]), text)
        for pattern in _NAMED:
            text = pattern.sub(self._named, text)
        for pattern in (_DASHED_IPV4, _AUTHORITY):
            text = pattern.sub(lambda match: self._name("host", match[0]), text)
        for pattern in (_IPV6, _IPV4):
            text = pattern.sub(lambda match: self._name("address", match[0]), text)
        text = _DOMAIN.sub(lambda match: self._name("host", match[0]), text)
        return self._known_hosts(text)

    def _all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self._all(each) for each in value]
        if isinstance(value, dict):
            return {key: self._all(each) for key, each in value.items()}
        return value

    def _named(self, match: re.Match[str]) -> str:
        start, end = match.start(1) - match.start(), match.end(1) - match.start()
        whole = match[0]
        kind = "address" if _IPV4.fullmatch(match[1]) else "host"
        return whole[:start] + self._name(kind, match[1]) + whole[end:]

    def _name(self, kind: str, value: str) -> str:
        if _PSEUDONYM.match(value) or value == MASK:
            return value
        known = self._names[kind]
        return known.setdefault(value, f"{kind}-{len(known) + 1}")

    def _known_hosts(self, text: str) -> str:
        """A host that was recognised once is masked everywhere."""
        for host, name in self._names["host"].items():
            if len(host) >= 4:
                text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", name, text)
        return text
