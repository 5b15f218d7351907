"""A POST to an action, read: of a form of our pages, or of a script with JSON. Pure."""

from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import parse_qs, unquote

import msgspec

from holdfast.cli.dashboard.guard import FORM_WORD
from holdfast.errors import InvalidSettings

LARGEST = 4096
"""Bytes of a request: a name and a word."""


class _Body(msgspec.Struct):
    name: str | None = None


_DECODER = msgspec.json.Decoder(_Body)


@dataclass(frozen=True)
class Action:
    job: str
    kind: Literal["checkpoint", "savepoint", "drop", "collect"]
    name: str | None = None
    """Of the savepoint to make or drop."""
    word: str | None = None
    """What a form of our pages contains."""

    @property
    def words(self) -> str:
        match self.kind:
            case "checkpoint":
                return "make a checkpoint"
            case "collect":
                return "delete what it does not need"
            case "savepoint":
                return f"make savepoint {self.name}"
            case "drop":
                return f"drop savepoint {self.name}"


def action_at(path: str) -> Action | None:
    """What a POST to this path asks for; None when it is no action."""
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["api", "v1", "jobs", job, "checkpoints"]:
            return Action(job, "checkpoint")
        case ["api", "v1", "jobs", job, "savepoints"]:
            return Action(job, "savepoint")
        case ["api", "v1", "jobs", job, "savepoints", name, "drop"]:
            return Action(job, "drop", name)
        case ["api", "v1", "jobs", job, "collect"]:
            return Action(job, "collect")
    return None


def with_body(action: Action, kind: str, body: bytes) -> Action:
    """`InvalidSettings` when the body is not what its type says."""
    if kind.partition(";")[0].strip().lower() == "application/json":
        try:
            name, word = (_DECODER.decode(body).name if body else None), None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidSettings(f"could not read the request: {error}", hint='{"name": "before-upgrade"}') from None
    else:
        try:
            fields = parse_qs(body.decode(errors="replace"), max_num_fields=8)
        except ValueError as error:
            raise InvalidSettings(f"could not read the form: {error}") from None
        name, word = fields.get("name", [None])[0], fields.get(FORM_WORD, [None])[0]
    return replace(action, name=action.name if action.kind == "drop" else name, word=word)
