"""Checks that the home, the work directory and the sink belong to the same job. Pure.

The journal is the truth about a job, but a missing mount looks like an empty journal, and a backup like an old one. So
before a claim the journal is compared with the other records:

    record        lineage  run (number and claim)  newest entry  published
    work marker       x              x                  x
    heartbeat                        x                  x
    sink              x              x                               x

A new lineage begins only where no record has another one of that name. A home is used only if its journal has at least
what the records have. Otherwise it is older than they are: rows that readers have seen would be taken back, or batches
would run twice. Either is refused with both sides named, unless the user asked for it. Output beyond the newest barrier
is explained by the plans of those batches, which are repeated as they were, or by an entry that abandons them, as long
as the new timeline has no checkpoint: before it has one, the sink is rewound.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, FencingEpoch, JobName, Sequence
from holdfast.repository.entries import CheckpointCompleted, CheckpointCorrupt, RunStarted, WentBack
from holdfast.repository.ownership import Heartbeat
from holdfast.repository.state import JobState
from holdfast.runtime.work_marker import WorkMarker
from holdfast.sinks.protocol import SinkState, fingerprint

_NO_RUN = FencingEpoch(0)
_NO_ENTRY = Sequence(0)
_ANY = BatchId(1 << 62)
"""Newer than every batch."""


@dataclass(frozen=True)
class Memory:
    """The record of a job name in one place besides the journal."""

    where: str
    life: int | None = None
    """Fingerprint of the lineage, None when the record has none."""
    epoch: FencingEpoch = _NO_RUN
    claim: int | None = None
    """Fingerprint of the claim of run `epoch`, None when the record has none."""
    head: Sequence = _NO_ENTRY
    published: BatchId | None = None

    def __bool__(self) -> bool:
        """Whether it has any record of the job."""
        return self.life is not None or self.epoch > _NO_RUN

    def __str__(self) -> str:
        known = [f"run {self.epoch}"] if self.epoch else []
        known += [f"entry {self.head}"] if self.head else []
        known += [f"output up to batch {self.published}"] if self.published is not None else []
        return f"{self.where} knows {', '.join(known) or 'a life of it'}"


def of_work(where: str, marker: WorkMarker) -> Memory:
    claim = fingerprint(marker.claim) if marker.claim else None
    return Memory(f"the work directory {where}", fingerprint(marker.lineage), marker.epoch, claim, marker.head)


def of_heartbeat(heartbeat: Heartbeat) -> Memory:
    claim = fingerprint(heartbeat.claim) if heartbeat.claim else None
    return Memory("the heartbeat beside the journal", None, heartbeat.fencing_epoch, claim, heartbeat.head)


def of_sink(where: str, state: SinkState) -> Memory:
    return Memory(where, state.life, state.fencing_epoch, state.claim, published=state.published)


@dataclass(frozen=True)
class Asked:
    """What the user has explicitly asked for."""

    new_life: bool = False
    older_home: bool = False


@dataclass(frozen=True)
class Agreement:
    new_life: bool = False
    """Another place has another lineage, and the user asked for a new one."""
    older_home: bool = False
    """The home is older than the other records, and the user accepts that: only its checkpoints count."""
    above: Sequence = _NO_ENTRY
    """The run's fencing epoch must exceed this: other places accept only the higher number."""


def agree(
    job: JobName,
    home: str,
    state: JobState,
    memories: Many[Memory],
    asked: Asked,
    planned: BatchId | None = None,
) -> Agreement:
    """`planned`: the newest batch that the home has a plan of, with all behind the newest barrier. Raises `Conflict`
    when the user must choose."""
    known = [memory for memory in memories if memory]
    above = Sequence(max((max(memory.epoch, memory.head) for memory in known), default=0))
    lineage = state.lineage
    strangers = [memory for memory in known if lineage is None or _of_another_life(memory, lineage)]
    if strangers and not asked.new_life:
        raise _birth(job, home, strangers) if lineage is None else _another_life(job, home, state, strangers)
    # A record without a lineage may be of the other lineage, which the user has decided about.
    ours = [memory for memory in known if memory not in strangers and (memory.life is not None or not strangers)]
    reasons = {memory.where: why for memory in ours if (why := ahead(state, memory, planned))}
    if reasons and not asked.older_home:
        raise _older(job, home, state, reasons)
    return Agreement(bool(strangers), bool(reasons), above)


def _of_another_life(memory: Memory, lineage: str) -> bool:
    return memory.life is not None and memory.life != fingerprint(lineage)


def ahead(state: JobState, memory: Memory, planned: BatchId | None = None) -> str | None:
    """What `memory` has that the home does not, None when the home has at least as much. `planned` as in `agree`."""
    if memory.epoch > state.fencing_epoch and not _is_before_a_jump(state, memory.epoch):
        return f"knows run {memory.epoch}, the home's newest is run {state.fencing_epoch}"
    if memory.head > state.head:
        return f"knows entry {memory.head} of the journal, the home's newest is entry {state.head}"
    if (why := _another_run(state, memory)) is not None:
        return why
    durable = newest_barrier(state)
    if memory.published is not None and not (covers(durable, memory.published) or covers(planned, memory.published)):
        shown = abandoned_but_shown(state)
        if shown is None or memory.published > shown:
            at = "no checkpoint" if durable is None else f"a checkpoint at batch {durable}"
            return f"shows batches up to {memory.published}, the home has {at} and no entry that abandoned the rest"
    return None


def _another_run(state: JobState, memory: Memory) -> str | None:
    """Runs are compared by number and claim: a home restored from a backup assigns the same number again."""
    if memory.epoch == _NO_RUN or memory.claim is None or _is_before_a_jump(state, memory.epoch):
        return None
    run = next((run for run in state.runs if run.fencing_epoch == memory.epoch), None)
    if run is not None:
        same = fingerprint(run.attempt) == memory.claim
        return None if same else f"knows another run {memory.epoch} than the home does"
    if state.runs[0].fencing_epoch > memory.epoch or _may_be_folded(state, memory.epoch):
        return None
    return f"knows run {memory.epoch}, which the home's journal does not have"


def _may_be_folded(state: JobState, epoch: FencingEpoch) -> bool:
    """A fold keeps an old run because of its savepoint, but not the runs after it."""
    return state.folded is not None and epoch <= state.folded.upto


def _is_before_a_jump(state: JobState, epoch: FencingEpoch) -> bool:
    """The journal skipped these numbers on purpose: they also belong to the home that it was copied from, or to runs
    that were lost and abandoned."""
    return any(epoch < (run.next_sequence or 0) for run in state.runs)


def newest_barrier(state: JobState) -> BatchId | None:
    newest = state.newest_of_the_line()
    return None if newest is None else newest.barrier_batch_id


def covers(durable: BatchId | None, published: BatchId) -> bool:
    return durable is not None and published <= durable


def abandoned_but_shown(state: JobState) -> BatchId | None:
    """The newest batch that a sink may still show although an entry abandoned it: the sink is not rewound yet.

    Once the new timeline has a checkpoint, the sink was rewound before it, and an old entry explains nothing. A run
    that publishes batch by batch may have shown more than the entry knows, until the newer run opened the sink.
    """
    newest = state.newest_of_the_line()
    since = newest.sequence if newest is not None else 0
    entries: list[WentBack | CheckpointCorrupt] = [entry for entry in state.corrupt.values() if entry.passed_over]
    entries += [state.went_back] if state.went_back is not None else []
    batches = [batch for entry in entries if entry.sequence > since for batch in _batches_of(state, entry)]
    if batches and showed_batches(state):
        return _ANY
    return max(batches, default=None)


def showed_batches(state: JobState) -> bool:
    """Whether a run of the job has published batch by batch, here or in the home that it was copied from."""
    return any((run.sink and run.plans) or run.shows_batches for run in state.runs)


def may_return(state: JobState, is_dead: Callable[[RunStarted], bool]) -> list[CheckpointCompleted]:
    """Checkpoints that were passed over and are usable again when every byte is right, the newest first.

    This requires that nothing was completed since, so nothing was published on the other timeline; that no rewind
    elsewhere was requested; and that every run on that timeline has recorded its end or is visibly dead, so none of
    them can resume and remove what is needed.
    """
    since = max((entry.sequence for entry in state.completed.values()), default=_NO_ENTRY)
    if state.went_back is not None:
        since = max(since, state.went_back.sequence)
    pipelines = {run.fencing_epoch: run for run in state.runs[:-1] if run.purpose == "pipeline"}
    return [
        state.completed[id]
        for id, entry in sorted(state.corrupt.items(), reverse=True)
        if entry.passed_over
        and not entry.refused
        and entry.sequence > since
        and id not in state.retired
        and entry.fencing_epoch in pipelines
        and all(epoch in state.ends or is_dead(run) for epoch, run in pipelines.items() if epoch >= entry.fencing_epoch)
    ]


def _batches_of(state: JobState, entry: WentBack | CheckpointCorrupt) -> list[BatchId]:
    ids = entry.abandoned if isinstance(entry, WentBack) else (entry.id,)
    batches = [state.completed[id].barrier_batch_id for id in ids if id in state.completed]
    return [*batches, entry.published] if entry.published is not None else batches


def _birth(job: JobName, home: str, strangers: list[Memory]) -> Conflict:
    return Conflict(
        f"could not start job {job!r} on {home}: this home has never seen it, but {'; '.join(map(str, strangers))}",
        hint=f"put the home back: is a disk not mounted, or was another --home meant? {_new_life(strangers)}",
    )


def _another_life(job: JobName, home: str, state: JobState, strangers: list[Memory]) -> Conflict:
    return Conflict(
        f"could not start job {job!r} on {home}: the home has run {state.fencing_epoch} of one life of it, and another "
        f"life is known elsewhere: {'; '.join(map(str, strangers))}",
        hint=f"name the home that belongs to it (--home), or give this job a name of its own. {_new_life(strangers)}",
    )


def _new_life(strangers: list[Memory]) -> str:
    stays = [memory.where for memory in strangers if memory.published is not None]
    rows = f", and the rows in {', '.join(stays)} stay, so rows that are read again are duplicated" if stays else ""
    return f"Or go on with this home: --new-life; what it has not read is read from the source's beginning{rows}"


def _older(job: JobName, home: str, state: JobState, reasons: dict[str, str]) -> Conflict:
    durable = newest_barrier(state)
    to = "to nothing" if durable is None else f"to batch {durable}"
    return Conflict(
        f"could not start job {job!r} on {home}: the home is older than what it is compared with: "
        + "; ".join(f"{where} {why}" for where, why in reasons.items()),
        hint="restore the newest copy of the home, or start where that one is; or resume from this one: "
        f"--accept-older-home, which rewinds the output {to}",
    )
