"""Checks the query against where it would resume, before the job is claimed and before gigabytes of state are restored.

Only the few small files of a checkpoint that describe the query are fetched; the restored directory will contain the
same. The previous run's directory may still turn out to be unusable; then the checkpoint is restored instead. So a
start is refused here only when both would refuse it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from holdfast.checkpoint.manifest import Manifest, ManifestFile
from holdfast.errors import Conflict, Corrupt, HoldfastError, NewerFormat, StorageError
from holdfast.identifiers import BatchId, JobName
from holdfast.job_log import begin_step, log
from holdfast.plans.log import Standing
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.own_writer import (
    Repeats,
    Taken,
    WriterRecord,
    require_alone,
    require_earlier,
    require_no_skips,
)
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.restorer import restore
from holdfast.workdir.unfinished import brief_directory

_DESCRIPTIONS = frozenset({"_metadata", "_stateSchema"})


@dataclass(frozen=True)
class PlaceAhead:
    directory: WorkDirectory
    barrier: BatchId
    standing: Standing
    """The plans that the home has of the batches behind the barrier."""
    broken: Callable[[Taken, str, BatchId], Conflict]
    """As in `Ahead`."""
    may_have_more: Callable[[BatchId], bool]
    """As in `Ahead`."""
    recorded: WriterRecord
    other: Callable[[], JobName | None]
    """As in `Ahead`."""
    goes_back: bool = False
    """As in `Ahead`."""
    new_line: bool = False
    """As in `Ahead`, where the home has no plan of it yet."""
    may_be_empty: bool = False
    """As in `Ahead`."""

    @property
    def newest_plan(self) -> BatchId:
        """Up to there the home has the plans of all batches behind the barrier."""
        return self.standing.plans[-1].batch_id if self.standing.plans else self.barrier

    @property
    def plan(self) -> bytes | None:
        """The offsets of that newest plan, None when there is none behind the barrier."""
        return self.standing.plans[-1].offsets.encode() if self.standing.plans else None


Ask = Callable[[PlaceAhead], HoldfastError | None]
"""Why the query cannot resume there, None when it can."""


def refusal_of_writer(
    job: JobName, taken: Taken, place: PlaceAhead, *, repeats: Repeats, accept: bool
) -> Conflict | None:
    """Why a writer of the user's own would lose rows there, or have them twice."""
    try:
        taken = replace(taken, planned=max(taken.planned, place.newest_plan))
        more = place.may_have_more(taken.planned)
        require_no_skips(job, taken, repeats, may_have_more=more, goes_back=place.goes_back)
        require_alone(job, taken, repeats, place.other)
        require_earlier(
            job,
            taken,
            place.barrier,
            place.recorded,
            may_be_empty=place.may_be_empty,
            accept=accept,
            warn=log.debug,
        )
    except Conflict as error:
        return error
    return None


def refusal_ahead(ahead: Ahead, ask: Ask) -> HoldfastError | None:
    try:
        here = ahead.left()
        refused = None if here is None else _refusal_here(here, ahead, ask)
        if here is not None and refused is None:
            return None
        return _refusal_in_checkpoint(ahead, ask, refused)
    except (StorageError, Corrupt, NewerFormat, OSError) as error:
        log.debug("the query is compared with its checkpoint after the claim: %s", error)
        return None


def _refusal_here(directory: WorkDirectory, ahead: Ahead, ask: Ask) -> HoldfastError | None:
    barrier = newest_barrier(directory)
    if barrier is None:
        return None
    standing = ahead.standing(barrier)
    return ask(
        PlaceAhead(
            directory,
            barrier,
            standing,
            ahead.broken,
            lambda planned: ahead.may_have_more(planned, True),
            ahead.recorded(True),
            ahead.other,
            ahead.goes_back,
            ahead.new_line and not standing.plans,
            ahead.may_be_empty,
        )
    )


def _refusal_in_checkpoint(ahead: Ahead, ask: Ask, refused_here: HoldfastError | None) -> HoldfastError | None:
    begin_step("comparing the query with its checkpoint")
    with brief_directory("holdfast-ahead-") as scratch:
        directory = work_directory(str(scratch)).at("described")
        _fetch_description(ahead, directory)
        standing = ahead.standing(ahead.barrier)
        place = PlaceAhead(
            directory,
            ahead.barrier,
            standing,
            ahead.broken,
            lambda planned: ahead.may_have_more(planned, False),
            ahead.recorded(False),
            ahead.other,
            ahead.goes_back,
            ahead.new_line and not standing.plans,
            ahead.may_be_empty,
        )
        refused = ask(place)
    return None if refused is None else refused_here or refused


def _fetch_description(ahead: Ahead, directory: WorkDirectory) -> None:
    manifest = ahead.manifest()
    restore(ahead.store, described_by(manifest), directory)
    for file in manifest.files():  # an operator without a description counts too
        top, *below = file.path.split("/")
        if top == "state" and below[0].isdigit():
            with suppress(FileExistsError):
                directory.at(f"state/{below[0]}").make()


def described_by(manifest: Manifest) -> Manifest:
    """The part of a checkpoint that describes its query, without its data."""
    shards = (
        msgspec.structs.replace(shard, files=tuple(file for file in shard.files if _describes(file)))
        for shard in manifest.shards
    )
    return msgspec.structs.replace(manifest, shards=tuple(shard for shard in shards if shard.files))


def _describes(file: ManifestFile) -> bool:
    top, *below = file.path.split("/")
    if top != "state":
        return top in ("metadata", "offsets", "commits", "query")
    # Every partition has the same; Spark and holdfast read the one of partition 0.
    return not _DESCRIPTIONS.isdisjoint(below) and (not below[1].isdigit() or below[1] == "0")
