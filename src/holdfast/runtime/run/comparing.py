"""Gathers what is known of a job outside of its journal, for `memory` to compare. Leaves no trace.

Marker, heartbeat and sink are read after the journal. When one of them seems to be newer, the journal is read again: a
run that claims the job meanwhile is no conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import Conflict
from holdfast.identifiers import AttemptId, FencingEpoch
from holdfast.repository.entries import CheckpointCompleted, RunStarted
from holdfast.repository.ownership import read_heartbeat
from holdfast.repository.state import JobState
from holdfast.runtime.recovery.memory import Agreement, Asked, Memory, agree, of_heartbeat, of_sink, of_work
from holdfast.runtime.recovery.recovery import is_copied
from holdfast.runtime.recovery.resuming import is_new_place
from holdfast.runtime.work_marker import read_marker, somebody_elses
from holdfast.sinks.protocol import SinkContext, SinkState
from holdfast.storage.home_identity import read_home_identity

if TYPE_CHECKING:
    from holdfast.runtime.run.launching import JobLocation


@dataclass(frozen=True)
class Outside:
    """What was found there, and what was agreed on."""

    agreement: Agreement
    sink: SinkState | None
    """None when the query has a writer of its own."""
    new_place: bool = False
    """The sink holds nothing of this life of the job, which has checkpoints."""
    accepts: bool = False
    """The sink is meant to be what it is: what was staged there may be gone."""

    @property
    def may_resume_locally(self) -> bool:
        """The directory of the run before counts on what that run had published."""
        return not (self.agreement.older_home or self.agreement.new_life or self.new_place or self.accepts)

    def context(self, place: JobLocation, claimed: RunStarted) -> SinkContext:
        return SinkContext(
            place.job,
            claimed.fencing_epoch,
            claimed.lineage,
            claimed.attempt,
            new_life=self.agreement.new_life,
            accept=self.accepts or self.new_place,
            looked=self.sink.fencing_epoch if self.sink is not None else FencingEpoch(0),
        )


def known_to(place: JobLocation, state: JobState) -> SinkContext:
    """What the journal knows before this run."""
    run = state.run
    return SinkContext(
        place.job,
        state.fencing_epoch,
        state.lineage or "",
        run.attempt if run is not None else AttemptId(""),
        new_life=place.settings.new_life,
        accept=place.settings.accept_sink,
    )


def compare_here(place: JobLocation, state: JobState) -> Agreement:
    """What can be compared without Spark. Raises `Conflict`."""
    return agree(place.job, place.home, state, _memories_here(place), _asked(place))


def compare(place: JobLocation, state: JobState, sink: SinkState | None, described: str) -> Outside:
    """Raises `Conflict` when a person must choose."""
    memories = _memories_here(place)
    if sink is not None:
        memories.append(of_sink(described, sink))
    agreement = agree(place.job, place.home, state, memories, _asked(place))
    newest = state.newest_of_the_line()
    new_place = sink is not None and newest is not None and is_new_place(sink, state.lineage or "")
    if new_place and newest is not None and not agreement.new_life:
        _require_no_output(place, state, newest, described)
    return Outside(agreement, sink, new_place, sink is not None and place.settings.accept_sink)


def _memories_here(place: JobLocation) -> list[Memory]:
    root = place.work / place.job
    marker, heartbeat = read_marker(root), read_heartbeat(place.store)
    memories = [of_heartbeat(heartbeat)] if heartbeat is not None else []
    if marker is None:
        return memories
    identity = read_home_identity(place.root) if place.root is not None else None
    home_id = identity.id if identity is not None else ""
    if not marker.is_of(place.job, place.home, home_id) and not place.settings.new_life:
        raise somebody_elses(root, marker)
    return [*memories, of_work(str(root), marker)]


def _asked(place: JobLocation) -> Asked:
    settings = place.settings
    return Asked(settings.new_life, settings.accept_older_home, settings.accept_sink)


def _require_no_output(place: JobLocation, state: JobState, newest: CheckpointCompleted, described: str) -> None:
    """The sink knows nothing of a job that has published: it was emptied or replaced, or it is another one."""
    durable = newest.barrier_batch_id
    if place.settings.accept_sink or is_copied(state, newest.id):
        return
    raise Conflict(
        f"could not start job {place.job!r} on {place.home}: it has a checkpoint at batch {durable}, and {described} "
        f"holds no output of it",
        hint="put the sink back, or name the one that the job wrote to; or let the output begin there after batch "
        f"{durable}: --accept-sink",
    )
