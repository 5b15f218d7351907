"""What `holdfast restore` does so that plain Spark goes on with the query's own writer."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Conflict, Corrupt, InvalidSettings, NotFound
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.plans.leaving import Batches, Continuation, continuation, put_plans_in_place, without_rows
from holdfast.plans.log import PlanLog
from holdfast.plans.query_id import query_id
from holdfast.plans.spark_logs import put_in_place
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.lines import line_folder, line_of
from holdfast.repository.state import JobState
from holdfast.storage.durable import storage_errors
from holdfast.storage.interface import ObjectStore
from holdfast.workdir.barriers import newest_barrier

if TYPE_CHECKING:
    from holdfast.runtime.commands.spark_output import Output
    from holdfast.workdir.interface import WorkDirectory


class ContinuationDocument(msgspec.Struct, frozen=True, kw_only=True):
    """How the query goes on with its own writer. Batches are given as the first and the last one."""

    writer: str | None
    """The sink that was looked at; null when none was named."""
    writer_has: int | None
    """Its newest batch, -1 for none; null when it was not looked at."""
    planned_batch_id: int
    """The newest batch whose plan is known; the barrier when none is."""
    skipped: Batches | None
    replayed: Batches | None
    repeated: int | None
    missing: Batches | None
    twice: Batches | None
    exact: bool
    steps: tuple[str, ...]
    broken: str | None = None
    """Why later plans cannot be used."""


def writes_itself(state: JobState) -> bool:
    """Whether the query has a writer of its own. A job that was adopted and has not run has."""
    return state.pipeline is None or not state.pipeline.sink


def is_of_the_line(state: JobState, chosen: CheckpointCompleted) -> bool:
    return chosen.id not in state.abandoned and chosen.line == line_of(state)


def require_output(sink: str, query: str) -> None:
    """Raises when it cannot be seen how far the output is. Called before anything is written."""
    _output(sink, query)


def continued(
    job: str,
    target: "WorkDirectory",
    store: ObjectStore,
    state: JobState,
    chosen: CheckpointCompleted,
    sink: str | None,
    *,
    stateful: bool,
) -> ContinuationDocument | None:
    """Puts plans in place in the restored directory, as far as that is right before the query runs. None where it does
    not name its query: Spark would begin a new one."""
    try:
        query = query_id(target.read("metadata").decode())
    except (FileNotFoundError, Corrupt) as error:
        log.debug("no plans are put in place: %s", error)
        return None
    output = None if sink is None else _output(sink, query)
    standing = PlanLog(store, line_folder(state)).behind(chosen.barrier_batch_id)
    if is_of_the_line(state, chosen) and all(query_id(plan.metadata) == query for plan in standing.plans):
        plans, broken = standing.plans, standing.broken
    else:
        plans, broken = (
            (),
            "the job has left this history: batches after it were planned anew" if standing.plans else None,
        )
    planned = plans[-1].batch_id if plans else chosen.barrier_batch_id
    has = None if output is None else output.newest if output.newest is not None else BatchId(-1)
    way = continuation(chosen.barrier_batch_id, planned, has, stateful=stateful)
    with storage_errors(f"put plans in place in {target.location}"):
        put_plans_in_place(target, plans, way)
    return ContinuationDocument(
        writer=None if output is None else output.writer,
        writer_has=has,
        planned_batch_id=way.known,
        skipped=way.skipped,
        replayed=way.replayed,
        repeated=way.repeated,
        missing=way.missing,
        twice=way.twice,
        exact=way.exact,
        steps=tuple(_steps(job, target.location, sink, way)),
        broken=broken,
    )


def put_one_in_place(
    job: str, target: "WorkDirectory", store: ObjectStore, state: JobState, batch: BatchId, sink: str | None
) -> None:
    """`holdfast restore JOB DIR --plan N`. Raises when the directory does not end with the batch before it.

    A batch that nobody has a plan of passes without rows, if the output has it.
    """
    doing = f"could not put the plan of batch {batch} of job {job!r} in place in {target.location}"
    with storage_errors(f"read {target.location}"):
        newest = newest_barrier(target)
        if newest != batch - 1:
            ends = "has no committed batch" if newest is None else f"has committed batch {newest}"
            raise Conflict(f"{doing}: it {ends}", hint="first run the batches before it, one by one, in their order")
        query = query_id(target.read("metadata").decode())
        plans = PlanLog(store, line_folder(state)).behind(newest).plans
        if plans and query_id(plans[0].metadata) != query:
            raise InvalidSettings(f"{doing}: another query works there", hint="name the directory of this query")
        if not plans and not _has(sink, query, batch):
            hint = "start the query with its own writer; or, if the output has that batch: --sink PATH"
            raise NotFound(f"{doing}: the home has no plan of it", hint=hint)
        put_in_place(target, plans[0] if plans else without_rows(target, batch))


def _has(sink: str | None, query: str, batch: BatchId) -> bool:
    newest = None if sink is None else _output(sink, query).newest
    return newest is not None and newest >= batch


def _output(sink: str, query: str) -> "Output":
    from holdfast.cli.adopt import whole
    from holdfast.runtime.commands.spark_output import look_at
    from holdfast.workdir.factory import readable_directory

    return look_at(readable_directory(whole(sink)), query)


def _steps(job: str, place: str, sink: str | None, way: Continuation) -> Iterator[str]:
    if (replayed := way.replayed) is not None:
        first, last = replayed
        yield (
            f"run the query over {place} with Trigger.Once and a writer that keeps nothing, such as "
            f"foreachBatch into format noop: it repeats batch {first}"
        )
        look = f" --sink {sink}" if way.twice is not None else ""
        if last > first:
            yield (
                f"holdfast restore {job} {place} --plan {first + 1}{look}, and the first step again; "
                f"{'then' if last == first + 1 else 'and so on'} up to batch {last}"
            )
        if way.repeated is not None:
            yield f"holdfast restore {job} {place} --plan {way.repeated}"
    yield f"start the query over {place} with its own writer"
