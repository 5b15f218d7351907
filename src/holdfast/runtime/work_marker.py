"""Whose a place for work directories is: `<work>/<job>/job.json`.

The marker is the claim on the place. It is created where there is none and changed only by runs of the same home, so of
two homes that are given one place the second is refused. It also remembers what the journal was like when a run last
looked: a home that knows less than its work directory was put back from an older copy.
"""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import msgspec

from holdfast.errors import Conflict, InvalidSettings, StorageUnreachable
from holdfast.identifiers import AttemptId, FencingEpoch, JobName, Sequence
from holdfast.repository.entries import Process
from holdfast.repository.ownership import known_dead
from holdfast.sinks.durable import storage_errors
from holdfast.storage.work_path import WorkPath, write_whole

NAME = "job.json"


class WorkMarker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What markers of the first versions do not say is empty."""

    job: JobName
    home: str
    lineage: str
    home_id: str = ""
    epoch: FencingEpoch = FencingEpoch(0)
    """Of the newest run that worked here."""
    claim: AttemptId = AttemptId("")
    """The attempt id of that run's `run-started`."""
    head: Sequence = Sequence(0)
    """The newest entry of the journal that a run here has known."""
    process: Process | None = None
    """Of that run."""

    def is_of(self, job: JobName, home: str, home_id: str) -> bool:
        """A home is known by its identity, wherever it is mounted. One that lost it, or had none, is known by its URL;
        whether it is another one there is told by the lineage."""
        return self.job == job and (self.home == home or (bool(home_id) and self.home_id == home_id))


def read_marker(root: WorkPath) -> WorkMarker | None:
    """None only when there is none: a marker that cannot be read is somebody's all the same."""
    path = root / NAME
    with storage_errors(f"read {path}"):
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(
            f"could not tell whose work directory {root} is: {path} is damaged: {error}",
            hint=f"move {root} away, or give this job another work directory: --work DIR",
        ) from error


def take_place(root: WorkPath, mine: WorkMarker, *, new_life: bool) -> None:
    """Make `root` the place of `mine`. Raises `Conflict` when it is somebody else's.

    With `new_life` what another life left there is set aside, not removed: it may be all that is left of it.
    """
    with storage_errors(f"use the work directory {root}"):
        root.mkdir(parents=True, exist_ok=True)
        standing = read_marker(root) or _created(root / NAME, mine)
        if standing is mine:
            return
        ours = standing.is_of(mine.job, mine.home, mine.home_id)
        if not (ours and standing.lineage == mine.lineage):
            if not new_life:
                raise somebody_elses(root, standing)
            _require_over(root, standing, mine)
            _set_aside(root, f"{mine.job}.stale-{standing.lineage[:8]}")
            root.mkdir(parents=True)
            if (winner := _created(root / NAME, mine)) is not mine:
                raise somebody_elses(root, winner)
            return
        if standing.epoch <= mine.epoch:
            write_whole(root / NAME, msgspec.json.encode(mine))


def remember_head(root: WorkPath, mine: WorkMarker, head: Sequence) -> None:
    """A run that was taken over leaves what the newer one wrote."""
    standing = read_marker(root)
    if standing is not None and (standing.epoch, standing.claim) == (mine.epoch, mine.claim) and standing.head < head:
        with storage_errors(f"write {root / NAME}"):
            write_whole(root / NAME, msgspec.json.encode(msgspec.structs.replace(mine, head=head)))


def somebody_elses(root: WorkPath, marker: WorkMarker) -> Conflict:
    return Conflict(
        f"could not use {root}: it is the work directory of job {marker.job!r} of {marker.home}, "
        f"life {marker.lineage[:8]}, run {marker.epoch}",
        hint="give this job a work directory of its own: --work DIR; or --new-life, which sets that one aside",
    )


def _require_over(root: WorkPath, theirs: WorkMarker, mine: WorkMarker) -> None:
    """A directory is not taken from under a process that can be seen to live."""
    process, here = theirs.process, mine.process
    if process is None or here is None or process == here or not process.boot_id:
        return
    visible = (process.boot_id, process.pid_namespace) == (here.boot_id, here.pid_namespace)
    if visible and not known_dead(process, here):
        raise Conflict(
            f"could not set {root} aside: process {process.pid} on this host works there, for job {theirs.job!r} of "
            f"{theirs.home}",
            hint="stop that process, or give this job a work directory of its own: --work DIR",
        )


def _created(path: WorkPath, mine: WorkMarker) -> WorkMarker:
    """The marker that stands there then: `mine`, or that of whoever was quicker."""
    beside = path.with_name(f".{path.name}-{mine.claim or mine.lineage}")
    data = msgspec.json.encode(mine)
    try:
        beside.write_bytes(data)
        _rename_if_free(beside, path)
    except FileExistsError:
        pass
    finally:
        beside.unlink(missing_ok=True)
    standing = read_marker(path.parent)
    if standing is None:
        raise StorageUnreachable(f"could not read {path}: it was just written and is not there")
    return mine if standing == mine else standing


def _rename_if_free(beside: WorkPath, path: WorkPath) -> None:
    """Raises `FileExistsError`. On a disk `beside` stays."""
    if not isinstance(beside, Path) or not isinstance(path, Path):
        _rename(beside, path)
        return
    try:
        os.link(beside, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        with path.open("xb") as file:
            file.write(beside.read_bytes())


def _set_aside(root: WorkPath, name: str) -> None:
    """A second one of that name is kept beside the first."""
    for number in count(1):
        target = root.with_name(name if number == 1 else f"{name}-{number}")
        if not target.exists():
            _rename(root, target)
            return


def _rename(path: WorkPath, target: WorkPath) -> None:
    if isinstance(path, Path):
        assert isinstance(target, Path)
        path.rename(target)
    else:
        assert not isinstance(target, Path)
        path.rename(target)


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(WorkMarker)
