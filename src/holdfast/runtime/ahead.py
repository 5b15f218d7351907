"""Input for the query's check before the claim: can it resume where the journal indicates?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.checkpoint.manifest import Manifest
from holdfast.identifiers import BatchId
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
    newest_plan: Callable[[BatchId], BatchId]
    """The newest batch up to which the home has a plan of every batch after the given one, or that one itself."""
    may_have_more: Callable[[BatchId, bool], bool]
    """Whether, according to the journal, the query's own writer may have received batches after the given one. The
    second argument: whether the job resumes in the previous run's directory."""
    plan_offsets: Callable[[BatchId], bytes]
    """What the home's plan of a batch says that it reads. Raises `StorageError` or `Corrupt`."""
    new_line: bool = False
    """Batches behind the barrier are cut anew: the job goes back, or has gone back and taken no checkpoint since."""
    may_be_empty: bool = False
    """The sink of the query's own writer may be another one than before, with nothing in it."""
