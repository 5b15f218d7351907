"""`holdfast collect`: deletes expired checkpoints and orphans, or shows what it would delete.

Only the owner of a job deletes. While a pipeline runs, the pipeline is the owner; otherwise the command owns the job
while it deletes.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import figures
from holdfast.cli.collection_report import document_of, print_document, with_local
from holdfast.cli.observing import job_store, observe
from holdfast.cli.options import AsJson, Home, Job, JobArgument, OnConflict
from holdfast.cli.output import print_json, print_message
from holdfast.cli.owning import owning
from holdfast.cli.progress import count_progress
from holdfast.cli.reference import one_job
from holdfast.errors import HoldfastError, InvalidSettings, StorageError, StorageFull
from holdfast.repository.entries import Retention
from holdfast.repository.views import Observation
from holdfast.settings import Settings, seconds
from holdfast.storage.interface import ObjectStore

if TYPE_CHECKING:
    from holdfast.repository.survey import CollectionPlan, Found
    from holdfast.runtime.commands.leftovers import Leftover
    from holdfast.runtime.upkeep.freeing import Freed

Timeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for the answer of a running job.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted; change nothing.")]
Retained = Annotated[
    int | None, typer.Option("--retained", metavar="N", min=1, show_default=False, help="Keep the newest N.")
]
KeepHourly = Annotated[
    int | None,
    typer.Option(
        "--keep-hourly", metavar="N", min=0, show_default=False, help="Also keep one of each of the last N hours."
    ),
]
KeepDaily = Annotated[
    int | None,
    typer.Option(
        "--keep-daily", metavar="N", min=0, show_default=False, help="Also keep one of each of the last N days."
    ),
]
Grace = Annotated[
    str | None,
    typer.Option(
        "--grace",
        metavar="DURATION",
        show_default=False,
        help="How long the objects of a retired checkpoint stay, for restores that still read it.",
    ),
]


def collect(
    home: Home,
    name: JobArgument = None,
    job: Job = None,
    dry_run: DryRun = False,
    retained: Retained = None,
    keep_hourly: KeepHourly = None,
    keep_daily: KeepDaily = None,
    grace: Grace = None,
    timeout: Timeout = "60s",
    on_conflict: OnConflict = "refuse",
    as_json: AsJson = False,
) -> None:
    """Delete expired checkpoints and orphaned objects.

    Uses the retention settings of the job's last run, unless options override them.
    """
    from holdfast.repository.survey import look, plan_collection
    from holdfast.runtime.commands.leftovers import remove

    job = one_job(name, job)
    store = job_store(home, job)
    found = look(store)  # before the claim: manifests do not name their writer
    seen = observe(home, job, store)
    rule = _rule(seen, retained, keep_hourly, keep_daily, grace)
    running = seen.state.fencing_epoch if seen.running else None
    plan = plan_collection(store, found, seen.state, rule, seen.now, running)
    freed = None
    answer = None
    worth_it = plan.retire or any(not item.wait_s for item in plan.objects)
    if worth_it and not (dry_run or seen.running):
        plan, freed = _execute(store, seen, found, rule, on_conflict)
    elif seen.running and not dry_run:
        from holdfast.cli.asking_owner import ask_to_collect

        answer = ask_to_collect(store, seen, seconds("timeout", timeout))
    local = _leftovers(store, seen)
    removed = {} if dry_run else {item.place.location: remove(item) for item in local if not item.wait_s}
    document = with_local(document_of(seen, rule, plan, freed, answer), local, removed, seen.now)
    if as_json:
        print_json(document)
    else:
        print_document(document, dry_run=dry_run)
    if document.failed:
        first = document.failed[0]
        raise StorageError(
            f"could not delete {figures.counted(len(document.failed), 'object')}, the first being {first.key}: "
            f"{first.error}",
            hint="run the command again; the next run of the job retries, too",
        )


def _leftovers(store: ObjectStore, seen: Observation) -> "tuple[Leftover, ...]":
    """Leftovers of the job's work directory, if it can be seen from this host, and of its sink, while the job does not
    run."""
    from holdfast.runtime.commands.leftovers import left_at_the_sink, leftovers
    from holdfast.workdir.factory import work_directory

    run = seen.state.pipeline
    parent, _, folder = ("" if run is None else run.work).rpartition("/")
    if run is None or not (parent and folder):
        return ()
    try:
        work = work_directory(parent)
        root = work.at(folder)
    except HoldfastError:
        return ()
    now = seen.now.timestamp()
    staged = () if seen.running else left_at_the_sink(root, run, seen.state, store, now)
    return (*leftovers(root, work, run.lineage, now), *staged)


def _rule(
    seen: Observation, retained: int | None, keep_hourly: int | None, keep_daily: int | None, grace: str | None
) -> Retention | None:
    """The retention of the last run of the pipeline, overridden by the options. None when neither is known."""
    known = seen.state.retention
    grace_s = seconds("grace", grace) if grace is not None else None
    asked = {"retained": retained, "keep_hourly": keep_hourly, "keep_daily": keep_daily, "grace_s": grace_s}
    given = {name: value for name, value in asked.items() if value is not None}
    if seen.running and given:
        raise InvalidSettings(
            f"job {seen.job!r} is running with its own retention: {', '.join(sorted(given))} cannot be given now",
            hint="restart the job with other settings, or collect when it does not run",
        )
    if known is not None:
        return msgspec.structs.replace(known, **given)
    if retained is None and given:
        raise InvalidSettings(
            f"the last run of {seen.job!r} did not record its retention", hint="give --retained N, too"
        )
    return msgspec.convert(given, Retention) if given else None


def _execute(
    store: ObjectStore, seen: Observation, found: "Found", rule: Retention | None, on_conflict: str
) -> tuple["CollectionPlan", "Freed"]:
    from holdfast.repository.retention import in_grace
    from holdfast.repository.survey import plan_collection, retired_keys
    from holdfast.runtime.upkeep.freeing import free_without_owning
    from holdfast.storage.limited import Allowance

    try:
        return _execute_as_owner(store, seen, found, rule, on_conflict)
    except StorageFull as error:
        print_message(f"{error.message}; first deleting what needs no journal entry")
        waiting = retired_keys(store, seen.state, in_grace(seen.state, rule.grace_s if rule else 0.0, seen.now))
        known = plan_collection(store, found, seen.state, None, seen.now)
        ready = [item for item in known.objects if item.key not in waiting]
        freed = free_without_owning(
            store, seen.state, ready, Allowance(Settings.deletes_per_second), lambda count: None
        )
        if not freed.objects:
            raise
    plan, more = _execute_as_owner(store, seen, found, rule, on_conflict)
    more.objects, more.bytes = more.objects + freed.objects, more.bytes + freed.bytes
    return plan, more


def _execute_as_owner(
    store: ObjectStore, seen: Observation, found: "Found", rule: Retention | None, on_conflict: str
) -> tuple["CollectionPlan", "Freed"]:
    from holdfast.repository.reserve import keep_reserve
    from holdfast.repository.survey import plan_collection
    from holdfast.runtime.upkeep.freeing import append_retirement, clear, fold, free
    from holdfast.storage.limited import Allowance

    with owning(seen.job, seen.home, store, "collect", on_conflict) as journal:
        plan = plan_collection(store, found, journal.state, rule, seen.now)
        append_retirement(journal, plan.retire)
        now = [item for item in plan.objects if not item.wait_s]
        with count_progress("freeing", len(now)) as advance:
            freed = free(store, now, Allowance(Settings.deletes_per_second), advance, journal.require_standing)
        fold(journal, rule.grace_s if rule else 0.0, datetime.now(UTC))
        clear(store, journal)
        keep_reserve(store)
    return plan, freed
