"""The login of a Kafka client, as Java writes it: `…PlainLoginModule required username="x" password="y";`. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_LOGIN = re.compile(r"\s*([\w.$]+)\s+(?i:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL)
_OPTION = re.compile(r"""\s*([\w.\-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class NotJaas(Exception):
    """The message holds nothing of the text, which has a password in it."""


@dataclass(frozen=True)
class Login:
    module: str
    """The class of the login module, without its package."""
    options: Mapping[str, str] = field(repr=False)


def parsed(text: str) -> Login:
    """Raises `NotJaas`."""
    found = _LOGIN.fullmatch(text)
    if found is None:
        raise NotJaas('it is not of the form `CLASS required name="value" …;`')
    options: dict[str, str] = {}
    rest = found[2]
    while rest.strip():
        option = _OPTION.match(rest)
        if option is None:
            raise NotJaas(f'what follows its option number {len(options)} is not of the form name="value"')
        options[option[1]] = _plain(option[2])
        rest = rest[option.end() :]
    return Login(found[1].rpartition(".")[2], options)


def _plain(value: str) -> str:
    return _ESCAPE.sub(r"\1", value[1:-1]) if value[:1] in ("'", '"') else value
