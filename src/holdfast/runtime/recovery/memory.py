"""Whether the home, the work directory and the sink remember the same job. Pure.

The journal decides what is true of a job, but an empty journal is also what a missing mount looks like, and an old one
what a backup looks like. So before a claim the journal is compared with what others know:

    who              life  run (number and claim)  newest entry  published
    work marker       x              x                  x
    heartbeat                        x                  x
    sink              x              x                               x

A new life begins only where nobody knows another one of that name. A home goes on only if it knows at least what they
know; else it is older than they are, and rows that readers have seen would be taken back, or batches cut twice. Either
is refused with both sides named, unless a person has asked for it. Output beyond the newest barrier is explained by an
entry that abandons those batches, as long as the new timeline has no checkpoint: before it has one, the sink is
rewound.
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


@dataclass(frozen=True)
class Memory:
    """What one place besides the journal knows of a job name."""

    where: str
    life: int | None = None
    """Fingerprint of the lineage, None when it does not say."""
    epoch: FencingEpoch = _NO_RUN
    claim: int | None = None
    """Fingerprint of the claim of run `epoch`, None when it does not say."""
    head: Sequence = _NO_ENTRY
    published: BatchId | None = None

    def __bool__(self) -> bool:
        """Whether it knows the job at all."""
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
    """What a person has asked for, knowing of it."""

    new_life: bool = False
    older_home: bool = False
    accept_sink: bool = False


@dataclass(frozen=True)
class Agreement:
    begins: bool = False
    """A life begins with this run."""
    new_life: bool = False
    """Somebody knows another one, and a person asked for it all the same."""
    older_home: bool = False
    """The home knows less than others, and a person wants it so: nothing but its checkpoints counts."""
    above: Sequence = _NO_ENTRY
    """The run's number must be higher than this: somebody obeys the higher number."""


def agree(job: JobName, home: str, state: JobState, memories: Many[Memory], asked: Asked) -> Agreement:
    """Raises `Conflict` when a person must choose."""
    known = [memory for memory in memories if memory]
    above = Sequence(max((max(memory.epoch, memory.head) for memory in known), default=0))
    lineage = state.lineage
    strangers = [memory for memory in known if lineage is None or _of_another_life(memory, lineage)]
    if strangers and not asked.new_life:
        raise _birth(job, home, strangers) if lineage is None else _another_life(job, home, state, strangers)
    # Who does not say of which life it knows may know the other one, which a person has spoken about.
    ours = [memory for memory in known if memory not in strangers and (memory.life is not None or not strangers)]
    reasons = {memory.where: why for memory in ours if (why := ahead(state, memory))}
    if reasons and not asked.older_home:
        raise _older(job, home, state, reasons)
    return Agreement(lineage is None, bool(strangers), bool(reasons), above)


def _of_another_life(memory: Memory, lineage: str) -> bool:
    return memory.life is not None and memory.life != fingerprint(lineage)


def ahead(state: JobState, memory: Memory) -> str | None:
    """What `memory` knows that the journal does not, None when the journal knows at least as much."""
    if memory.epoch > state.fencing_epoch and not _is_before_a_jump(state, memory.epoch):
        return f"knows run {memory.epoch}, the home's newest is run {state.fencing_epoch}"
    if memory.head > state.head:
        return f"knows entry {memory.head} of the journal, the home's newest is entry {state.head}"
    if (why := _another_run(state, memory)) is not None:
        return why
    durable = newest_barrier(state)
    if memory.published is not None and not covers(durable, memory.published):
        shown = abandoned_but_shown(state)
        if shown is None or memory.published > shown:
            at = "no checkpoint" if durable is None else f"a checkpoint at batch {durable}"
            return f"shows batches up to {memory.published}, the home has {at} and no entry that abandoned the rest"
    return None


def _another_run(state: JobState, memory: Memory) -> str | None:
    """Runs are compared by number and claim: a home that was put back hands the same number out again."""
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
    """A fold keeps an old run for the sake of its savepoint, and not the runs that came after it."""
    return state.folded is not None and epoch <= state.folded.upto


def _is_before_a_jump(state: JobState, epoch: FencingEpoch) -> bool:
    """The journal went on above these numbers on purpose: they are also those of the home that it was copied from, or
    of runs that were lost and abandoned."""
    return any(epoch < (run.next_sequence or 0) for run in state.runs)


def newest_barrier(state: JobState) -> BatchId | None:
    newest = state.newest_of_the_line()
    return None if newest is None else newest.barrier_batch_id


def covers(durable: BatchId | None, published: BatchId) -> bool:
    return durable is not None and published <= durable


def abandoned_but_shown(state: JobState) -> BatchId | None:
    """The newest batch that a sink may still show although an entry abandoned it: the sink is not rewound yet.

    Once the new line has a checkpoint, the sink was rewound before it, and an old entry explains nothing any more.
    """
    newest = state.newest_of_the_line()
    since = newest.sequence if newest is not None else 0
    entries: list[WentBack | CheckpointCorrupt] = [entry for entry in state.corrupt.values() if entry.passed_over]
    entries += [state.went_back] if state.went_back is not None else []
    batches = [batch for entry in entries if entry.sequence > since for batch in _batches_of(state, entry)]
    return max(batches, default=None)


def may_return(state: JobState, is_dead: Callable[[RunStarted], bool]) -> list[CheckpointCompleted]:
    """Checkpoints that were passed over and may come back when every byte is right again, the newest first.

    Nothing was completed since, so nothing was published on the other line of batches, nobody asked to go elsewhere,
    and every run on that line has said that it ended, or is seen to be dead: none of them wakes up and clears away what
    is needed.
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
    rows = f", and the rows in {', '.join(stays)} stay, so what is read again stands there twice" if stays else ""
    return f"Or go on with this home: --new-life; what it has not read is read from the source's beginning{rows}"


def _older(job: JobName, home: str, state: JobState, reasons: dict[str, str]) -> Conflict:
    durable = newest_barrier(state)
    to = "to nothing" if durable is None else f"to batch {durable}"
    return Conflict(
        f"could not start job {job!r} on {home}: the home is older than what it is compared with: "
        + "; ".join(f"{where} {why}" for where, why in reasons.items()),
        hint="put the newest copy of the home back, or start where that one is; or go on from this one: "
        f"--accept-older-home, which rewinds the output {to}",
    )
