"""Input for the query's check before the claim: can it resume where the journal indicates?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.checkpoint.manifest import Manifest
from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, JobName
from holdfast.plans.log import Standing
from holdfast.runtime.own_writer import Taken, WriterRecord
from holdfast.storage.interface import ObjectStore
from holdfast.workdir.interface import WorkDirectory


@dataclass(frozen=True)
class Ahead:
    """Where the job would resume, as far as that is visible without owning it."""

    barrier: BatchId
    """The barrier of the checkpoint to restore when there is no directory to resume in."""
    store: ObjectStore
    manifest: Callable[[], Manifest]
    """The manifest of that checkpoint. Raises `Corrupt` or `StorageError`."""
    left: Callable[[], WorkDirectory | None]
    """The previous run's directory on this host, when the job may resume in it."""
    standing: Callable[[BatchId], Standing]
    """The plans that the home has of the batches after the given one, as far as they would be repeated. Raises
    `StorageError`."""
    broken: Callable[[Taken, str, BatchId], Conflict]
    """The refusal when one of them is missing or damaged, which the second argument says; the third is the barrier."""
    may_have_more: Callable[[BatchId, bool], bool]
    """Whether, according to the journal, the query's own writer may have received batches after the given one. The
    second argument: whether the job resumes in the previous run's directory."""
    recorded: Callable[[bool], WriterRecord]
    """The argument is as the second one of `may_have_more`."""
    other: Callable[[], JobName | None] = lambda: None
    """Another job that was made of the same query, and has gone on from there."""
    goes_back: bool = False
    """This start leaves the batches behind the barrier that the job has planned."""
    new_line: bool = False
    """Batches behind the barrier are cut anew: the job goes back, or has gone back and taken no checkpoint since."""
    may_be_empty: bool = False
    """The sink of the query's own writer may be another one than before, with nothing in it."""
