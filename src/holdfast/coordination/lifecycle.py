"""The lifecycle of one checkpoint: every phase, every signal, every transition. What is not in the table cannot happen.

A signal that the table does not list for a phase is stale: it changes statistics at most. One exception is in the table
too: the journal decides. A checkpoint that was aborted while its journal entry was undecided becomes COMPLETED when
that entry turns out to exist.
"""

from enum import Enum


class Phase(Enum):
    STARTING = "starting"
    """Taking an id in the journal, while the files of the barrier are planned."""
    PLANNING = "planning"
    """Has its id and waits for the plan: the list of the barrier's files."""
    COPYING = "copying"
    """Shards are being copied; each one acknowledges."""
    SEALING = "sealing"
    """Manifest, then journal entry."""
    COMPLETED = "completed"
    FAILED = "failed"


class Signal(Enum):
    BEGUN = "begun"
    PLANNED = "planned"
    ALL_ACKNOWLEDGED = "all acknowledged"
    SEALED = "sealed"
    ABORTED = "aborted"
    """It timed out, a step or shard failed permanently, or it was superseded."""
    SETTLED = "settled"
    """The journal entry, once undecided, was found to exist."""


TRANSITIONS: dict[tuple[Phase, Signal], Phase] = {
    (Phase.STARTING, Signal.BEGUN): Phase.PLANNING,
    (Phase.STARTING, Signal.ABORTED): Phase.FAILED,
    (Phase.PLANNING, Signal.PLANNED): Phase.COPYING,
    (Phase.PLANNING, Signal.ABORTED): Phase.FAILED,
    (Phase.COPYING, Signal.ALL_ACKNOWLEDGED): Phase.SEALING,
    (Phase.COPYING, Signal.ABORTED): Phase.FAILED,
    (Phase.SEALING, Signal.SEALED): Phase.COMPLETED,
    (Phase.SEALING, Signal.ABORTED): Phase.FAILED,
    (Phase.FAILED, Signal.SETTLED): Phase.COMPLETED,
    (Phase.FAILED, Signal.SEALED): Phase.COMPLETED,
}

ENDED = frozenset({Phase.COMPLETED, Phase.FAILED})


def after(phase: Phase, signal: Signal) -> Phase | None:
    """The next phase, or None when the signal is stale in this phase."""
    return TRANSITIONS.get((phase, signal))
