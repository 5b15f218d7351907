"""Files that Spark writes once, and that a newer checkpoint has with other bytes: another driver writes there. Pure.

Snapshots of state are left out: two executors may each upload one of the same version, and they mean the same.
"""

import re

from holdfast.checkpoint.manifest import Manifest

_LOG_ENTRY = re.compile(r"(?:offsets|commits)/\d+|sources/[^/]+/\d+(?:\.compact)?", re.ASCII)
_STATE_CHANGE = re.compile(r"state/.+/\d+(?:_[0-9A-Za-z-]+)?\.(?:delta|changelog)", re.ASCII)


def rewritten(before: Manifest, after: Manifest) -> tuple[str, ...]:
    """The paths, in order."""
    held = {file.path: file.digest for file in before.files()}
    changed = (file.path for file in after.files() if held.get(file.path, file.digest) != file.digest)
    return tuple(sorted(path for path in changed if is_log_entry(path) or _STATE_CHANGE.fullmatch(path)))


def is_log_entry(path: str) -> bool:
    """A task that ran twice may have written a file of state twice. Nothing but a second driver writes one of these."""
    return _LOG_ENTRY.fullmatch(path) is not None
