"""Classifies commits of other writers by their effect on the rows of a job.

Other writers may add, delete, update, merge, compact and vacuum; holdfast never undoes that. Restoring the table to an
older version, replacing it or emptying it removes published rows without the job's consent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from holdfast.identifiers import JobName

NOTE = "holdfast"
"""Key of holdfast's own note in a commit."""


class CommitEffect(Enum):
    """The effect of a commit on the rows before it."""

    NONE = "leaves them"
    REWRITES = "may move, change or delete rows, one by one"
    TAKES_AWAY = "takes published rows away as a whole"


_REWRITING = {"DELETE", "UPDATE", "MERGE", "OPTIMIZE", "REORG", "CLUSTER BY", "FSCK", "FSCK REPAIR TABLE", "ZORDER"}
_TAKING_AWAY = {"RESTORE", "TRUNCATE", "CLONE", "REMOVE"}


def effect_of(commit: Mapping[str, Any]) -> CommitEffect:
    """By the operation that the commit records; an unknown operation does not tell about files it removes."""
    operation = str(commit.get("operation", "")).upper()
    parameters: Mapping[str, Any] = commit.get("operationParameters") or {}
    if operation in _TAKING_AWAY or "REPLACE" in operation:
        return CommitEffect.TAKES_AWAY
    if "OVERWRITE" in str(parameters.get("mode", "")).upper() or parameters.get("outputMode") == "Complete":
        return CommitEffect.TAKES_AWAY
    if operation == "DELETE" and not _has_condition(parameters):
        return CommitEffect.TAKES_AWAY
    return CommitEffect.REWRITES if operation in _REWRITING else CommitEffect.NONE


def _has_condition(parameters: Mapping[str, Any]) -> bool:
    """Spark writes a list of conditions, deltalake a text."""
    text = str(parameters.get("predicate", "")).strip().strip("[]\"'").strip()
    return text.lower() not in ("", "true")


def is_own(commit: Mapping[str, Any], job: JobName) -> bool:
    note = commit.get(NOTE)
    if not isinstance(note, Mapping):
        return False
    return note.get("job") == job or str(note.get("app", "")).startswith(f"holdfast:{job}:")


def shown(commit: Mapping[str, Any]) -> str:
    """`version 7, RESTORE {'version': '2'}`, without long values."""
    parameters = {
        key: value for key, value in (commit.get("operationParameters") or {}).items() if len(str(value)) < 80
    }
    return f"version {commit.get('version')}, {commit.get('operation')}" + (f" {parameters}" if parameters else "")


def foreign_since_own(history: Iterable[Mapping[str, Any]], job: JobName) -> list[Mapping[str, Any]]:
    """Commits after the newest commit of the job itself, newest first, as `history` is."""
    found: list[Mapping[str, Any]] = []
    for commit in history:
        if is_own(commit, job):
            break
        found.append(commit)
    return found
