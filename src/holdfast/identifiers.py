"""One type per number. Each docstring-comment says what the number orders."""

import re
from typing import Annotated, NewType

import msgspec

from holdfast.errors import InvalidSettings

# Spark's micro-batch number; orders the batches of one query.
BatchId = NewType("BatchId", int)

# Orders the checkpoints of one job over all runs; rises by one, never reused.
CheckpointId = NewType("CheckpointId", int)

# Orders the runs of one job: the sequence number of the run's `run-started` entry.
FencingEpoch = NewType("FencingEpoch", int)

# Position in the journal; starts at 1.
Sequence = NewType("Sequence", int)

# BLAKE3 of an object's bytes, 64 lower-case hexadecimal digits. Part of keys: a decoder refuses anything else.
Digest = NewType("Digest", Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")])

# The unit of snapshot work: a state store directory relative to the work directory, or "control".
ShardId = NewType("ShardId", str)

# Unique per attempt to write a journal entry; tells one's own write from another's.
AttemptId = NewType("AttemptId", str)

# One attempt at a checkpoint within a run; exists before, and also without, a checkpoint id.
Ticket = NewType("Ticket", int)

# A request for a checkpoint or a stop that waits for its answer.
RequestId = NewType("RequestId", int)

JobName = NewType("JobName", str)

CONTROL_SHARD = ShardId("control")

HOME_IDENTITY = "home.json"
"""The one name directly below a home that is no job's (`storage/home_identity.py`)."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NAME_RULE = "must be 1 to 128 letters, digits, '.', '_' or '-', start with a letter or digit, and not contain '..'"


def _checked_name(field: str, value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value) or ".." in value:
        raise InvalidSettings.of(field, value, _NAME_RULE)
    return str(value)  # what is stored is a plain string, whatever kind of string was given


def job_name(value: object) -> JobName:
    """A job's name becomes a path in the home and in the work directory, so it must be a plain name."""
    name = _checked_name("job", value)
    if name == HOME_IDENTITY:
        raise InvalidSettings.of("job", value, "is the name of a file in every home")
    return JobName(name)


def identity_name(value: object) -> str:
    """The name of a process in the heartbeat that others read."""
    return _checked_name("identity", value)


def savepoint_name(value: object, field: str = "savepoint") -> str:
    return _checked_name(field, value)
