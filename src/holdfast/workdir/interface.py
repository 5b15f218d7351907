"""What holdfast needs of the place where Spark keeps a checkpoint directory.

The least that every place can do: objects with names, read whole, written whole or not at all, listed by prefix. What a
place can do beyond that is an ability. A place need not have directories: a file appears with every folder above it,
and a folder without files may not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from holdfast.checkpoint.layout import FileTrouble, WorkFile
from holdfast.identifiers import Ticket

BUILDING = ".restoring-"
"""Names of directories that are being built begin with a dot and the name that they will get, then this."""
PINS = ".pins"


@dataclass(frozen=True)
class DirectoryAbilities:
    """What differs between places. Callers ask these, never the type."""

    pins: bool
    """Files can be kept while Spark deletes their names. Some file systems refuse all the same: `pin` says so."""
    takes_over_by_rename: bool
    """A directory is taken from the run before by renaming it: what is left of that run writes elsewhere from then on.
    Without it the directory is built anew out of the files of the other, which stays as it is."""
    verifies_reads: bool
    """A byte that is read is the byte that was written, or reading fails. A failure to read is no damage then."""
    remote: bool
    """Others answer, and may not do so now: it is worth asking again, and several things at once."""


class Changed(Exception):
    """The file is not, or no longer, the one that was planned."""

    def __init__(self, reason: str, trouble: FileTrouble) -> None:
        super().__init__(reason, trouble)
        self.reason = reason
        self.trouble = trouble


class Handle(Protocol):
    """An open file. `read` gives at most so many bytes, and none only at the end."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, position: int, /) -> int: ...


class Building(Protocol):
    """A directory that nobody sees yet. Safe to use from several threads."""

    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        """A new file; `FileExistsError` when it was written before. What `chunks` raises is raised."""

    def take(self, file: WorkFile) -> None:
        """The planned file of the directory that is taken from, without its bytes passing through here if possible.

        Raises `Changed` when that is not, or no longer, the planned file.
        """


class WorkDirectory(Protocol):
    """A directory, and all that is below it.

    Every path is relative to it, with `/` between its parts, and plain: `Corrupt` is raised for one that could lead
    elsewhere. What goes wrong is an `OSError`; `FileNotFoundError` only when the place itself says that nothing is
    there. Safe to use from several threads. It can be pickled, and finds in another process what it finds here.
    """

    @property
    def abilities(self) -> DirectoryAbilities: ...

    @property
    def location(self) -> str:
        """What Spark is given as `checkpointLocation`, and people are shown."""

    @property
    def scheme(self) -> str:
        """Of the file system that Spark uses for it."""

    @property
    def spark_root(self) -> str:
        """How the files that Spark writes name the directory: always with a scheme."""

    @property
    def mounted_at(self) -> Path | None:
        """Where it is a directory of the operating system, also for processes without holdfast."""

    def at(self, folder: str) -> Self:
        """The directory below, whether it is there or not."""

    def within(self, seconds: float) -> Self:
        """The same for somebody who has no more time for an answer, as far as the place can keep to it."""

    # --- looking ---

    def identity(self) -> str:
        """The same wherever it is the same directory, and another one for a directory that took its name. Of a
        directory that Spark has begun: `FileNotFoundError` when it holds no `metadata` yet, or is not there."""

    def exists(self, path: str = "") -> bool: ...

    def names(self, folder: str = "") -> list[str]:
        """Of files and folders directly in it, in any order; none when it is not there."""

    def folders(self, folder: str = "") -> list[str]:
        """The names of folders alone."""

    def stat(self, path: str) -> WorkFile: ...

    def scan(self, folder: str = "", skip: str | None = None) -> Iterator[WorkFile]:
        """Every file below `folder`, hidden ones too, without what is below `skip`, a name in it. What vanishes or
        appears meanwhile may be in the answer or not; what was there all the time is."""

    # --- bytes ---

    def open(self, path: str) -> AbstractContextManager[Handle]: ...

    def read(self, path: str) -> bytes: ...

    def open_planned(self, file: WorkFile) -> AbstractContextManager[Handle]:
        """The planned file, its pin if it has one; proved to be that before and after it is used. Raises `Changed`."""

    def write_atomic(self, path: str, data: bytes) -> None:
        """Durable when it returns. Readers find the old bytes or the new ones. One writer at a time per path."""

    def create(self, path: str, data: bytes) -> None:
        """Of all who create a path at the same time one wins, the others get `FileExistsError`."""

    def remove(self, path: str) -> None:
        """A file. Harmless when it is not there."""

    # --- the directory itself ---

    def make(self) -> None:
        """Have it there, empty, where directories can be empty. `FileExistsError` when there is one."""

    def build(self, taking_from: Self | None = None) -> AbstractContextManager[Building]:
        """It appears, with all that was written, when the block ends well; nothing is left when it does not.

        Where files appear one by one, `metadata` is the last: without it Spark finds no query to resume.
        `FileExistsError` when there is a directory that is not empty, at the beginning or at the end. All of it is
        durable then, but what is taken from another directory need not be: that one is still there.
        """

    def move_to(self, to: Self) -> None:
        """Becomes `to`, beside it. `FileExistsError` when that is there. In one step with `takes_over_by_rename`."""

    def remove_tree(self) -> None:
        """It and all that is below, as far as that can be removed."""

    def remove_if_empty(self) -> None:
        """Harmless when it is not."""

    # --- pins ---

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        """Keep these files for `open_planned` until `unpin`, whatever becomes of their names. False where that is not
        possible. Raises `NotPlannable` when one is not, or no longer, the planned one."""

    def unpin(self, ticket: Ticket) -> None:
        """May be repeated, and come before `pin` has ended: then whoever pins releases once more."""
