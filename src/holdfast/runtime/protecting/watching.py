"""Looks at the directory of somebody else's query: what it has planned and committed, and whether it is still the same.

A query that is restarted goes on in its directory, and nothing changes. But the directory can be gone, hold another
query, or an older copy of itself; and a second driver can write there, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.checkpoint.layout import newest_barrier
from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import Conflict, Corrupt, HoldfastError, JobFailed, StorageError, StorageUnreachable
from holdfast.identifiers import BatchId, Digest, JobName
from holdfast.plans.query_id import query_id
from holdfast.storage.durable import storage_error
from holdfast.workdir.interface import WorkDirectory

GLANCE_S = 5.0
"""So long a look waits for one answer of a file system on other machines."""


@dataclass(frozen=True)
class Watchers:
    """Who is told of what is seen. Called on the lane that looks."""

    planned: Callable[[BatchId], None]
    """The newest batch that is planned."""
    gone: Callable[[str], None]
    """The directory cannot be seen any more, in words."""
    back: Callable[[], None]
    """It is there again."""
    rewritten: Callable[[str], None]
    """A file that Spark writes once has other contents now."""
    over: Callable[[HoldfastError], None]
    """The directory holds something else: this run must not go on."""


@dataclass(frozen=True)
class _Offsets:
    identity: str
    digest: Digest


class DirectoryWatch:
    def __init__(self, job: JobName, files: WorkDirectory, query: str, tell: Watchers) -> None:
        self._job = job
        self._files = files.within(GLANCE_S)
        self._query = query
        self._tell = tell
        self._known: dict[BatchId, _Offsets] = {}
        self._newest = BatchId(-1)
        """The newest batch that was seen to be planned."""
        self._shrunk = False
        """The last look saw fewer batches than the one before it. While a directory is deleted that is so, too."""
        self._over = False

    def look(self) -> BatchId | None:
        """The newest barrier. Raises `StorageError` when the directory does not show one that can be used."""
        if self._over:
            raise StorageUnreachable(f"{self._files.location} holds something else")
        try:
            found = self._look_there()
        except StorageError as error:
            if not self._over:
                self._tell.gone(error.message)
            raise
        self._tell.back()
        return found

    def _look_there(self) -> BatchId | None:
        try:
            return self._look()
        except OSError as error:
            hint = f"if it was moved, protect the new place; if it is lost: holdfast restore {self._job} DIR"
            raise storage_error(f"look at {self._files.location}", error, hint) from error

    def _look(self) -> BatchId | None:
        files = self._files
        self._require_the_query(files.read("metadata"))
        identities = {
            BatchId(int(name)): file.identity
            for file in files.scan("offsets")
            if (name := file.path.rpartition("/")[2]).isascii() and name.isdigit()
        }
        newest = max(identities, default=BatchId(-1))
        if newest < self._newest:
            self._went_back(newest)
        self._shrunk = False
        barrier = newest_barrier(files.names("commits"))
        self._compare(identities)
        if newest > self._newest:
            self._newest = newest
        if newest >= 0:
            self._tell.planned(newest)
        return barrier

    def _require_the_query(self, metadata: bytes) -> None:
        try:
            found = query_id(metadata.decode())
        except (Corrupt, UnicodeDecodeError) as error:
            raise StorageUnreachable(f"could not look at {self._files.location}: {error}") from error
        if found != self._query:
            self._end(another_query(self._job, self._files.location, self._query, found))

    def _went_back(self, newest: BatchId) -> None:
        """Raises. An older copy stays as it is; a directory that is being deleted is gone at the next look."""
        if not self._shrunk:
            self._shrunk = True
            raise StorageUnreachable(
                f"could not look at {self._files.location}: batch {self._newest} was planned there, and now "
                f"{'none' if newest < 0 else f'batch {newest}'} is"
            )
        self._end(
            JobFailed(
                f"job {self._job!r} stops: {self._files.location} had planned batch {self._newest}, and now ends with "
                f"{'none' if newest < 0 else f'batch {newest}'}: it was restored, or replaced by an older copy",
                hint="start protect again: it compares the directory with what the home has",
            )
        )

    def _end(self, error: HoldfastError) -> None:
        self._over = True
        self._tell.over(error)
        raise StorageUnreachable(error.message)

    def _compare(self, identities: dict[BatchId, str]) -> None:
        """A copy that was put in the place of the directory has other identities, and the same contents."""
        for batch, identity in identities.items():
            known = self._known.get(batch)
            if known is not None and known.identity == identity:
                continue
            try:
                digest = digest_of(self._files.read(f"offsets/{batch}"))
            except FileNotFoundError:
                continue
            if known is not None and known.digest != digest:
                self._tell.rewritten(f"offsets/{batch}")
            self._known[batch] = _Offsets(identity, digest)
        for batch in self._known.keys() - identities.keys():
            del self._known[batch]


def another_query(job: JobName, location: str, known: str, found: str) -> Conflict:
    return Conflict(
        f"could not protect {location} as job {job!r}: the job holds query {known}, and now query {found} works there: "
        "the directory was deleted and made anew, or is another one",
        hint="protect it under a name of its own: --job NAME; what the job holds stays, and can be restored",
    )
