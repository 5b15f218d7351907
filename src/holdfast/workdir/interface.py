"""What holdfast needs from the place where Spark keeps a checkpoint directory.

Every place has named objects that are read whole, written whole or not at all, and listed by prefix. Anything beyond
that is an ability. A place need not have directories: a file appears with every folder above it, and a folder without
files may not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from holdfast.checkpoint.layout import FileTrouble, WorkFile
from holdfast.identifiers import Ticket
from holdfast.storage.interface import StoredAt

BUILDING = ".restoring-"
"""Names of directories that are being built begin with a dot and the name that they will get, then this."""
PINS = ".pins"


@dataclass(frozen=True)
class DirectoryAbilities:
    """What differs between places. Callers check these, never the type."""

    pins: bool
    """Files can be kept after Spark deletes their names. Some file systems still refuse; then `pin` returns False."""
    takes_over_by_rename: bool
    """The directory of the previous run is taken over by renaming it: processes left from that run cannot write to it
    any more. Without this ability a new directory is built from its files, and it stays unchanged."""
    verifies_reads: bool
    """Every read returns the bytes that were written, or fails. So a failed read is not damage."""
    remote: bool
    """Access goes over a network and may fail for a while: retries and parallel requests are worthwhile."""


class Changed(Exception):
    """The file is not, or no longer, the one that was planned."""

    def __init__(self, reason: str, trouble: FileTrouble) -> None:
        super().__init__(reason, trouble)
        self.reason = reason
        self.trouble = trouble


class Handle(Protocol):
    """An open file. `read` returns at most `size` bytes, and none only at the end."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, position: int, /) -> int: ...


class Building(Protocol):
    """A directory that is not visible yet. Thread-safe."""

    def write(self, path: str, chunks: Iterable[bytes]) -> None:
        """A new file; `FileExistsError` when it was written before. Exceptions of `chunks` propagate."""

    def take(self, file: WorkFile) -> None:
        """Add the planned file of the source directory, if possible without copying its bytes through this process.

        Raises `Changed` when it is not, or no longer, the planned file.
        """

    def copy_inside(self, path: str, source: StoredAt) -> bool:
        """A new file from that version of an object, if the store of this directory can copy it without its bytes
        passing through here. False when it cannot, or there is no such version; then `path` can still be written."""


class WorkDirectory(Protocol):
    """A directory with everything below it.

    Every path is relative to it, with `/` between its parts; a path that could lead outside raises `Corrupt`. Failures
    are `OSError`s; `FileNotFoundError` only when the place itself reports that nothing is there. Thread-safe. It can be
    pickled, and means the same directory in another process.
    """

    @property
    def abilities(self) -> DirectoryAbilities: ...

    @property
    def location(self) -> str:
        """Spark's `checkpointLocation`, also shown in messages."""

    @property
    def url(self) -> str:
        """What the factory makes the same directory of: the location, with options where it has some."""

    @property
    def scheme(self) -> str:
        """The URL scheme of the file system that Spark uses for it."""

    @property
    def spark_root(self) -> str:
        """The directory as it appears in files that Spark writes: always with a scheme."""

    @property
    def mounted_at(self) -> Path | None:
        """Its path in the operating system, which processes without holdfast can use; None when it has none."""

    def at(self, folder: str) -> Self:
        """The directory below, whether it exists or not."""

    def within(self, seconds: float) -> Self:
        """The same directory with this timeout for each answer, as far as the place supports timeouts."""

    # --- looking ---

    def identity(self) -> str:
        """The same in every process for the same directory, and different for a directory that replaced it under its
        name; without pins and renames only if that one is of another query. `FileNotFoundError` when Spark has written
        no `metadata` yet, or the directory does not exist."""

    def exists(self, path: str = "") -> bool: ...

    def names(self, folder: str = "") -> list[str]:
        """Of files and folders directly in it, in any order; empty when it does not exist."""

    def folders(self, folder: str = "") -> list[str]:
        """Names of folders only."""

    def stat(self, path: str) -> WorkFile: ...

    def changed_at(self, path: str = "") -> float:
        """When a file was written, or something appeared directly in a folder or left it: Unix time by the clock of the
        place. A rename counts where the place notes it. `FileNotFoundError` when it does not exist."""

    def scan(self, folder: str = "", skip: str | None = None) -> Iterator[WorkFile]:
        """Every file below `folder`, including hidden ones, without those below its subfolder `skip`. Files that appear
        or are deleted meanwhile may or may not be included; all others are."""

    # --- bytes ---

    def open(self, path: str) -> AbstractContextManager[Handle]: ...

    def read(self, path: str) -> bytes: ...

    def open_planned(self, file: WorkFile) -> AbstractContextManager[Handle]:
        """The planned file, or its pin if it has one. Its identity is proved before and after use. Raises `Changed`."""

    def stored_at(self, file: WorkFile) -> StoredAt | None:
        """The planned file as an object that its store can copy; None where files are no objects."""

    def write_atomic(self, path: str, data: bytes) -> None:
        """Durable when it returns. Readers find the old bytes or the new ones. One writer at a time per path."""

    def create(self, path: str, data: bytes) -> None:
        """If several writers create a path at the same time, one wins and the others get `FileExistsError`."""

    def remove(self, path: str) -> None:
        """Removes a file. Harmless when it does not exist."""

    # --- the directory itself ---

    def make(self) -> None:
        """Create it empty, where directories can be empty. `FileExistsError` when it exists."""

    def build(self, taking_from: Self | None = None) -> AbstractContextManager[Building]:
        """The directory appears with all its files when the block ends without an error; otherwise nothing is left.

        Where files appear one by one, `metadata` is the last: without it Spark finds no query to resume.
        `FileExistsError` when there is a directory that is not empty, at the beginning or at the end. Afterwards all
        written files are durable. Files taken from another directory need not be: that directory still has them.
        """

    def move_to(self, to: Self) -> None:
        """Rename it to its sibling `to`. `FileExistsError` when that exists. Atomic with `takes_over_by_rename`."""

    def remove_tree(self) -> str | None:
        """Removes it recursively, as far as possible. Says why something is left; None when nothing is."""

    def remove_if_empty(self) -> None:
        """Harmless when it is not empty."""

    # --- pins ---

    def pin(self, ticket: Ticket, files: Sequence[WorkFile]) -> bool:
        """Keep these files for `open_planned` until `unpin`, even if Spark deletes or replaces them. False where that
        is not possible. Raises `NotPlannable` when one is not, or no longer, the planned one."""

    def unpin(self, ticket: Ticket) -> None:
        """Idempotent. May come before `pin` has ended: then the caller of `pin` must call it again."""
