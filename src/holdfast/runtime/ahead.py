"""What the query is asked before the claim: may it go on where the journal says that the job will?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.checkpoint.manifest import Manifest
from holdfast.identifiers import BatchId
from holdfast.storage.interface import ObjectStore
from holdfast.workdir.interface import WorkDirectory


@dataclass(frozen=True)
class Ahead:
    """Where that is, as far as it can be seen without owning the job."""

    barrier: BatchId
    """Of the checkpoint that is restored when there is no directory to go on in."""
    store: ObjectStore
    manifest: Callable[[], Manifest]
    """Of that checkpoint. Raises `Corrupt` or `StorageError`."""
    left: Callable[[], WorkDirectory | None]
    """The directory that the run before left on this host, when the job may go on in it."""
    may_have_more: Callable[[BatchId, bool], bool]
    """Whether a writer of the query's own may have got batches behind the one that is named, by all that the journal
    says; the second argument tells whether it goes on in what the run before left."""
