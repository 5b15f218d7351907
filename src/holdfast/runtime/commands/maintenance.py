"""Writing to a job whose pipeline does not run: a claim like a run's, heartbeats, entries, and an end.

Maintenance owns the job while it runs, so every rule about owners applies to it: it fences a stalled run, and a later
claim fences it. It makes no batches, changes no work directory and opens no sink. That is why recovery may ignore it.

A command must not stop a pipeline that is only paused. So it takes the job when the last run has recorded its end, or
when its process is visibly dead. It takes it from a run that disappeared only with `--on-conflict takeover`, and then
after watching its heartbeat for a whole timeout. Another command that disappeared is watched in the same way, without
that option.
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
that both use must still accept the copy."""
OnConflict = Literal["refuse", "takeover"]
_HINT = "wait until that run ends, or stop it, and try again"
_VANISHED_HINT = (
    "if that run no longer exists: --on-conflict takeover, which watches its heartbeat first; or start the job, "
    "which does the same"
)


@dataclass(frozen=True)
class Origin:
    """The source of a copy: its lineage, its newest entry, its retention, and whether its runs publish batch by
    batch."""

    lineage: str
    head: Sequence
    retention: Retention | None = None
    shows_batches: bool = False


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
    """Own the job inside the block; yields a loaded journal that accepts appends.

    `store` is the job's part of the home. `doing` completes "could not … job NAME", e.g. "collect garbage of". Raises
    `OwnedByAnotherRun` when a live run owns the job, when one disappeared without recording its end and `on_conflict`
    is not `takeover`, or when another run claims it at the same moment. Inside the block an append raises `Fenced` when
    a newer run has taken the job.
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
        post=lambda fenced: None,  # the next append raises the same
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
    """The claim takes all sequence numbers up to far above the source's newest at once, by the same create-if-absent.

    So no two claims can disagree about where the journal continues, and a stalled run finds no free number below.
    """
    if origin is None:
        return claim

    def make(stamp: Stamp) -> AnyEntry:
        behind = stamp["sequence"] == 1 or origin.head > stamp["sequence"]
        above = Sequence(origin.head + COPY_LEAD) if behind else None
        return msgspec.structs.replace(
            claim(stamp),
            lineage=origin.lineage,
            next_sequence=above,
            retention=origin.retention,
            shows_batches=origin.shows_batches,
        )

    return make
