"""The owner of a folder of work directories: `<work>/<job>/job.json`.

The marker is the claim on the folder. It is created where there is none and changed only by runs of the same home, so
of two homes with the same folder the second is refused. It also records the journal's newest entry at the last run: a
home that has less than its work directory was restored from an older copy.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count

import msgspec

from holdfast.errors import Conflict, InvalidSettings, StorageUnreachable
from holdfast.identifiers import AttemptId, FencingEpoch, JobName, Sequence
from holdfast.repository.entries import Process
from holdfast.repository.ownership import known_dead
from holdfast.storage.durable import storage_errors
from holdfast.workdir.interface import WorkDirectory

NAME = "job.json"
ASIDE_SINCE = "set-aside"


class WorkMarker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields that markers of the first versions lack are empty."""

    job: JobName
    home: str
    lineage: str
    home_id: str = ""
    epoch: FencingEpoch = FencingEpoch(0)
    """The epoch of the newest run that worked here."""
    claim: AttemptId = AttemptId("")
    """The attempt id of that run's `run-started`."""
    head: Sequence = Sequence(0)
    """The newest journal entry that a run here has read."""
    process: Process | None = None
    """The process of that run."""

    def is_of(self, job: JobName, home: str, home_id: str) -> bool:
        """A home is identified by its identity, wherever it is mounted. One that lost it, or had none, is identified by
        its URL; the lineage then shows whether it is another home."""
        return self.job == job and (self.home == home or (bool(home_id) and self.home_id == home_id))


def read_marker(root: WorkDirectory) -> WorkMarker | None:
    """None only when there is none: an unreadable marker still has an owner."""
    path = f"{root.location}/{NAME}"
    with storage_errors(f"read {path}"):
        try:
            data = root.read(NAME)
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(
            f"could not determine the owner of the work directory {root.location}: {path} is damaged: {error}",
            hint=f"move {root.location} elsewhere, or give this job another work directory: --work DIR",
        ) from error


def take_place(work: WorkDirectory, mine: WorkMarker, *, new_life: bool) -> None:
    """Make the folder of its job in `work` the folder of `mine`. Raises `Conflict` when it belongs to another job.

    With `new_life` what another lineage left there is set aside, not removed: it may be the only copy.
    """
    root = work.at(mine.job)
    with storage_errors(f"use the work directory {root.location}"):
        standing = read_marker(root) or _created(root, mine)
        if standing is mine:
            return
        ours = standing.is_of(mine.job, mine.home, mine.home_id)
        if not (ours and standing.lineage == mine.lineage):
            if not new_life:
                raise somebody_elses(root, standing)
            _require_over(root, standing, mine)
            _set_aside(root, work, f"{mine.job}.stale-{standing.lineage[:8]}")
            if (winner := _created(root, mine)) is not mine:
                raise somebody_elses(root, winner)
            return
        if standing.epoch <= mine.epoch:
            root.write_atomic(NAME, msgspec.json.encode(mine))


def remember_head(root: WorkDirectory, mine: WorkMarker, head: Sequence) -> None:
    """A run that was taken over keeps what the newer one wrote."""
    standing = read_marker(root)
    if standing is not None and (standing.epoch, standing.claim) == (mine.epoch, mine.claim) and standing.head < head:
        with storage_errors(f"write {root.location}/{NAME}"):
            root.write_atomic(NAME, msgspec.json.encode(msgspec.structs.replace(mine, head=head)))


def somebody_elses(root: WorkDirectory, marker: WorkMarker) -> Conflict:
    return Conflict(
        f"could not use {root.location}: it is the work directory of job {marker.job!r} of {marker.home}, "
        f"life {marker.lineage[:8]}, run {marker.epoch}",
        hint="give this job a work directory of its own: --work DIR; or --new-life, which sets that one aside",
    )


def _require_over(root: WorkDirectory, theirs: WorkMarker, mine: WorkMarker) -> None:
    """A directory is not taken from a process that is visibly alive."""
    process, here = theirs.process, mine.process
    if process is None or here is None or process == here or not process.boot_id:
        return
    visible = (process.boot_id, process.pid_namespace) == (here.boot_id, here.pid_namespace)
    if visible and not known_dead(process, here):
        raise Conflict(
            f"could not set {root.location} aside: process {process.pid} on this host works there, for job "
            f"{theirs.job!r} of {theirs.home}",
            hint="stop that process, or give this job a work directory of its own: --work DIR",
        )


def _created(root: WorkDirectory, mine: WorkMarker) -> WorkMarker:
    """The resulting marker: `mine`, or that of a run that was faster."""
    with suppress(FileExistsError):
        root.create(NAME, msgspec.json.encode(mine))
    standing = read_marker(root)
    if standing is None:
        raise StorageUnreachable(f"could not read {root.location}/{NAME}: it was just written and is not there")
    return mine if standing == mine else standing


def _set_aside(root: WorkDirectory, work: WorkDirectory, name: str) -> None:
    """A second one of that name is kept beside the first. Places on a network do not record when a directory was
    renamed: there the time of a file in it shows since when it has been aside."""
    if root.abilities.remote:
        root.write_atomic(ASIDE_SINCE, b"by --new-life\n")
    for number in count(1):
        with suppress(FileExistsError):
            root.move_to(work.at(name if number == 1 else f"{name}-{number}"))
            return


# Created here: msgspec crashes the process when threads create the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(WorkMarker)
