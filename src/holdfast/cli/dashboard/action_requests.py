"""A POST to an action, read: of a form of our pages, or of a script with JSON. Pure."""

from dataclasses import dataclass
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
    savepoint: bool
    """Else a checkpoint now."""
    name: str | None = None
    """Of the savepoint."""
    word: str | None = None
    """What a form of our pages contains."""


def action_at(path: str) -> Action | None:
    """What a POST to this path asks for; None when it is no action."""
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["api", "v1", "jobs", job, "checkpoints"]:
            return Action(job, savepoint=False)
        case ["api", "v1", "jobs", job, "savepoints"]:
            return Action(job, savepoint=True)
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
    return Action(action.job, action.savepoint, name, word)
