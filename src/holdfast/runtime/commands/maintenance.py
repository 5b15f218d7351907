"""Writing to a job whose pipeline does not run: a claim like a run's, heartbeats, entries, and an end.

Maintenance owns the job for as long as it takes, so everything that holds for owners holds for it: it fences whoever
stalled, and it is fenced by whoever claims after it. It makes no batches, touches no work directory and opens no sink.
That is why recovery may look past it.

A command is no reason to stop a pipeline that only paused. So it takes the job when its run has said that it ended, or
when its process can be seen to be dead; from a run that vanished only when a person says so, and then after watching
its heartbeat for a whole life. Another command that vanished is watched likewise, and needs nobody to say so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import msgspec

from holdfast.errors import Fenced, OwnedByAnotherRun
from holdfast.identifiers import JobName, Sequence
from holdfast.job_log import about
from holdfast.repository.entries import AnyEntry, Retention, Stamp
from holdfast.repository.journal import Journal, MakeEntry
from holdfast.repository.ownership import Held, Unseen, read_heartbeat, refusal, standing
from holdfast.runtime.ownership.ownership_watch import OwnershipWatch
from holdfast.runtime.ownership.watching import Watcher
from holdfast.runtime.run.claiming import run_started
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.run_end import record_run_end
from holdfast.storage.interface import ObjectStore

HEARTBEAT_S = 5.0
COPY_LEAD = 1_000_000
"""How far a copy's journal jumps above its source's: the source may have started again since the last copy, and a sink
that both know must obey the copy all the same."""
OnConflict = Literal["refuse", "takeover"]
_HINT = "wait until that run has ended, or stop it, and try again"
_VANISHED_HINT = (
    "if that run is gone for good: --on-conflict takeover, which watches its heartbeat first; or start the job, "
    "which does the same"
)


@dataclass(frozen=True)
class Origin:
    """What a job is a copy of: the life of its source, how far its journal had come, and how much it keeps."""

    lineage: str
    head: Sequence
    retention: Retention | None = None


@contextmanager
def maintenance(
    job: JobName,
    home: str,
    store: ObjectStore,
    doing: str,
    around: Environment | None = None,
    origin: Origin | None = None,
    on_conflict: OnConflict = "refuse",
) -> Iterator[Journal]:
    """Own the job inside the block; the journal that comes back is loaded and may be appended to.

    `store` is the job's part of the home. `doing` completes "could not … job NAME", e.g. "collect garbage of".
    Raises `OwnedByAnotherRun` when a run owns the job that lives, or that vanished without saying so unless
    `on_conflict` is `takeover`, or when another claims it at the same moment. Inside the block an append raises
    `Fenced` when a newer run has taken the job.
    """
    environment = around or Environment.real()
    journal = Journal(
        store, new_attempt=environment.new_attempt, now=environment.clock.wall, readers=environment.readers
    )
    with about(job):
        _require_free(job, home, store, journal, doing, environment, on_conflict)
        with _owning(job, home, store, journal, doing, environment, origin):
            yield journal


def _require_free(
    job: JobName,
    home: str,
    store: ObjectStore,
    journal: Journal,
    doing: str,
    around: Environment,
    on_conflict: OnConflict,
) -> None:
    """Loads the journal."""
    answer = standing(journal.load(), read_heartbeat(store), around.process)
    if isinstance(answer, Unseen):
        if answer.purpose == "pipeline" and on_conflict == "refuse":
            raise refusal(job, home, answer, doing, _VANISHED_HINT)
        answer = Watcher(store, around.process, around.clock, around.sleep, around.report).answer(journal)
    if isinstance(answer, Held):
        raise refusal(job, home, answer, doing, _HINT)


@contextmanager
def _owning(
    job: JobName,
    home: str,
    store: ObjectStore,
    journal: Journal,
    doing: str,
    around: Environment,
    origin: Origin | None,
) -> Iterator[None]:
    try:
        claimed = journal.claim(_of_copy(run_started(journal, around, HEARTBEAT_S, "", "maintenance"), origin))
    except Fenced as error:
        raise OwnedByAnotherRun(f"could not {doing} job {job!r} on {home}: {error.message}", hint=_HINT) from error
    watch = OwnershipWatch(
        store=store,
        journal=journal,
        process=around.process,
        started_at=claimed.at,
        interval=HEARTBEAT_S,
        application_id=lambda: None,
        clock=around.clock,
        post=lambda fenced: None,  # the next append says the same
    )
    watch.beat()
    reason = f"could not {doing} the job"
    try:
        with around.beating(watch, HEARTBEAT_S):
            yield
        reason = f"maintenance: {doing} the job"
    finally:
        record_run_end(journal, reason)


def _of_copy(claim: MakeEntry, origin: Origin | None) -> MakeEntry:
    """The claim takes all numbers up to far above the source's newest one at once, by the same create-if-absent.

    So no two claims can disagree about where the journal goes on, and nobody who stalled finds a free number below.
    """
    if origin is None:
        return claim

    def make(stamp: Stamp) -> AnyEntry:
        behind = stamp["sequence"] == 1 or origin.head > stamp["sequence"]
        above = Sequence(origin.head + COPY_LEAD) if behind else None
        return msgspec.structs.replace(
            claim(stamp), lineage=origin.lineage, next_sequence=above, retention=origin.retention
        )

    return make
