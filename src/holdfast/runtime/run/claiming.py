"""Checks whether the job may be claimed, and claims it: the one entry that makes a run the owner."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import msgspec

from holdfast.errors import Conflict, Fenced, OwnedByAnotherRun
from holdfast.identifiers import Sequence
from holdfast.job_log import log
from holdfast.repository.entries import Retention, RunStarted
from holdfast.repository.journal import Journal, MakeEntry
from holdfast.repository.ownership import TAKE_OVER, Held, Silence, refusal
from holdfast.repository.state import JobState
from holdfast.runtime.ownership.watching import Watcher
from holdfast.runtime.plans.keeping import Mode
from holdfast.runtime.recovery.memory import Agreement
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.work_marker import WorkMarker
from holdfast.settings import RunSettings
from holdfast.storage.home_identity import ensure_home_identity
from holdfast.version import VERSION

T = TypeVar("T")

_READINGS = 3


def require_claimable(location: JobLocation, journal: Journal) -> Silence | None:
    """The silence that was watched, if any. Loads the journal. Raises `OwnedByAnotherRun`."""
    if location.settings.on_conflict == "takeover":
        journal.load()
        return None
    around = location.around
    watcher = Watcher(location.store, around.process, around.clock, around.sleep, around.report)
    answer = watcher.answer(journal, location.silence)
    if isinstance(answer, Held):
        raise refusal(location.job, location.home, answer)
    log.debug("the job may be claimed: %s", answer.why)
    return answer.silence


def agreed(location: JobLocation, journal: Journal, compare: Callable[[JobState], T]) -> T:
    """A conflict counts only when the journal, read again after it, has not changed; a busy journal is read a few
    times."""
    for _ in range(_READINGS):
        head = journal.state.head
        try:
            return compare(journal.state)
        except Conflict:
            require_claimable(location, journal)
            if journal.state.head == head:
                raise
    return compare(journal.state)


def claim(location: JobLocation, journal: Journal, agreement: Agreement, sink: str, plans: Mode | None) -> RunStarted:
    """Losing the race for the claim raises the same error as an existing owner."""
    settings = location.settings
    heartbeat, work = settings.heartbeat_s, location.work.at(location.job).location
    with _losing_is_refused(location):
        if agreement.above > journal.state.head:
            jump = run_started(journal, location.around, heartbeat, "", "maintenance")
            journal.claim(_taking_numbers(jump, Sequence(agreement.above + 1)))
        mine = run_started(journal, location.around, heartbeat, work, "pipeline", retention_of(settings))
        return journal.claim(_telling(mine, location, sink, plans))


def claim_beside(location: JobLocation, journal: Journal) -> RunStarted:
    """For a run that has no query of its own, and only reads the directory at `location.work`."""
    settings = location.settings
    mine = run_started(journal, location.around, settings.heartbeat_s, "", "pipeline", retention_of(settings))
    telling = _telling(mine, location, "", "prefer")
    with _losing_is_refused(location):
        return journal.claim(lambda stamp: msgspec.structs.replace(telling(stamp), protects=location.work.url))


@contextmanager
def _losing_is_refused(location: JobLocation) -> Iterator[None]:
    try:
        yield
    except Fenced as error:
        raise OwnedByAnotherRun(
            f"could not start job {location.job!r} on {location.home}: {error.message}", hint=TAKE_OVER
        ) from error


def run_started(
    journal: Journal,
    around: Environment,
    heartbeat: float,
    work: str,
    purpose: Literal["pipeline", "maintenance"],
    retention: Retention | None = None,
) -> MakeEntry:
    """The claim of a run in this environment."""
    lineage = journal.state.lineage or around.new_attempt()
    return lambda stamp: RunStarted(
        **stamp,
        lineage=lineage,
        process=around.process,
        heartbeat_s=heartbeat,
        work=work,
        holdfast=VERSION,
        purpose=purpose,
        retention=retention,
    )


def retention_of(settings: RunSettings) -> Retention:
    return Retention(
        retained=settings.retained,
        keep_hourly=settings.keep_hourly,
        keep_daily=settings.keep_daily,
        grace_s=settings.grace_s,
    )


def home_identity(location: JobLocation) -> str:
    """ "" where a home has none."""
    if location.root is None:
        return ""
    around = location.around
    return ensure_home_identity(location.root, id=around.new_attempt(), now=around.clock.wall()).id


def marker_of(location: JobLocation, claimed: RunStarted, home_id: str) -> WorkMarker:
    """The marker that this run writes into the work directory."""
    return WorkMarker(
        job=location.job,
        home=location.home,
        lineage=claimed.lineage,
        home_id=home_id,
        epoch=claimed.fencing_epoch,
        claim=claimed.attempt,
        head=claimed.sequence,
        process=location.around.process,
    )


def _taking_numbers(claim: MakeEntry, upto: Sequence) -> MakeEntry:
    """The claim takes all numbers below `upto` at once, so that the next run is newer than any recorded elsewhere."""

    return lambda stamp: msgspec.structs.replace(claim(stamp), next_sequence=max(upto, Sequence(stamp["sequence"] + 1)))


def _telling(claim: MakeEntry, location: JobLocation, sink: str, plans: Mode | None) -> MakeEntry:
    """Adds the settings by which readers judge the run."""
    interval, file = location.settings.interval_s, str(location.state_file or "")
    return lambda stamp: msgspec.structs.replace(
        claim(stamp), interval_s=interval, state_file=file, sink=sink, plans=plans or ""
    )
