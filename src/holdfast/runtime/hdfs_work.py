"""Work directories on HDFS, which has no links: the directory of the run before is taken over by renaming it.

That takes it away from whatever of that run is still alive. All that Spark and holdfast write there they write by name,
and the old name leads elsewhere from then on: a batch that was under way is in what was taken over, with its commit, or
can never be committed there. A file that is open for writing goes along, and no barrier needs it.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.checkpoint.relocation import names_places, relocated
from holdfast.identifiers import FencingEpoch
from holdfast.runtime.local_work import LocalWorkplace
from holdfast.runtime.ports import RunDirectory, Workplace
from holdfast.runtime.work_folder import FolderWorkplace
from holdfast.runtime.work_marker import WorkMarker
from holdfast.sinks.durable import storage_errors
from holdfast.snapshot.carrier import Carrier, copy_shards
from holdfast.storage.hdfs_path import HdfsPath
from holdfast.storage.work_path import WorkPath


class HdfsWorkplace(FolderWorkplace[HdfsPath]):
    def adopt(self, previous: RunDirectory, epoch: FencingEpoch) -> RunDirectory:
        target = self._next_path(epoch)
        with storage_errors(f"take over {previous.location}"):
            (self._root / previous.location.rpartition("/")[2]).rename(target)
            _relocate(target)
        return self._directory(target)


def _relocate(directory: HdfsPath) -> None:
    """A run that dies before this has left a directory to the next one, which does it."""
    for operator in (directory / "state").names():
        folder = f"state/{operator}/_metadata/v2"
        for name in (directory / folder).names():
            if names_places(path := f"{folder}/{name}"):
                before = (directory / path).read_bytes()
                if (after := relocated(before, str(directory))) != before:
                    (directory / path).write_whole(after)


def workplace_at(
    work: WorkPath, marker: WorkMarker, carry: Carrier = copy_shards, *, new_life: bool = False
) -> Workplace:
    if isinstance(work, Path):
        return LocalWorkplace(work, marker, carry, new_life=new_life)
    return HdfsWorkplace(work, marker, carry, new_life=new_life)
