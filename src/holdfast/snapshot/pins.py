"""Hard links that keep the files of a barrier until they are copied, whatever Spark deletes or replaces meanwhile.

    .<directory>.pins/<ticket>/<inode>

Spark removes a file by its name and replaces one by renaming another over it, so a link keeps the planned bytes. A link
is named by the inode: it is the planned file or nothing, and one link serves all names of the same file. Links take no
space but that of the files which Spark has deleted since; they live as long as their checkpoint is under way.
"""

import errno
import os
import shutil
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

from holdfast.checkpoint.layout import NotPlannable, WorkFile
from holdfast.job_log import log
from holdfast.snapshot.planned_file import Changed, require_same
from holdfast.storage.work_path import WorkPath

SUFFIX = ".pins"
_NO_LINKS = (errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EACCES)


class Pins:
    """The pins of one work directory. Safe to use from several threads: each ticket has a folder of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._folder = directory.with_name(f".{directory.name}{SUFFIX}")
        self._held: dict[Hashable, Path] = {}
        self._possible = True

    def hold(self, ticket: Hashable, files: Iterable[WorkFile]) -> bool:
        """Pin these files; False when the file system has no links, now and from then on.

        Raises `NotPlannable` when a file is not, or no longer, the one that was planned.
        """
        if not self._possible:
            return False
        folder = self._folder / str(ticket)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file in files:
                self._link(file, folder / str(file.inode))
        except (NotPlannable, OSError) as error:
            shutil.rmtree(folder, ignore_errors=True)
            if not isinstance(error, OSError):
                raise
            self._possible = error.errno not in _NO_LINKS
            log.info("files of a barrier cannot be pinned in %s, they are copied as they are: %s", self._folder, error)
            return False
        self._held[ticket] = folder
        return True

    def release(self, ticket: Hashable) -> None:
        """May be repeated, and come before `hold` has ended: then whoever holds releases once more."""
        self._held.pop(ticket, None)
        shutil.rmtree(self._folder / str(ticket), ignore_errors=True)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the files that are held lie, for `path_of`."""
        return tuple(self._held.copy().values())

    def _link(self, file: WorkFile, pin: Path) -> None:
        try:
            os.link(self._directory / file.path, pin)
            require_same(pin.stat(), file)
        except FileExistsError:
            return
        except FileNotFoundError as error:
            raise NotPlannable(f"{file.path} vanished before it was pinned") from error
        except Changed as error:
            raise NotPlannable(f"{file.path} {error.reason}", error.trouble) from error


def path_of(directory: WorkPath, pins: Sequence[Path], file: WorkFile) -> WorkPath:
    """Where to read a planned file: its pin, or its place in the directory."""
    for folder in pins:
        if (pin := folder / str(file.inode)).exists():
            return pin
    return directory / file.path
