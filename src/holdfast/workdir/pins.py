"""Hard links that keep the files of a barrier until they are copied, even if Spark deletes or replaces them meanwhile.

    .<directory>.pins/<ticket>/<identity>

Spark removes a file by its name and replaces one by renaming another over it, so a link keeps the planned bytes. The
name of a link is the identity of the file: it is the planned file or does not exist, and one link serves all names of
the same file. Links use only the space of files that Spark has deleted since. They exist while their checkpoint is in
progress.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.checkpoint.layout import NotPlannable, WorkFile
from holdfast.identifiers import Ticket
from holdfast.job_log import log
from holdfast.workdir.interface import PINS, Changed
from holdfast.workdir.planned_file import require_same

_NO_LINKS = (errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EACCES)


class Pins:
    """The pins of one directory. Thread-safe: each ticket has its own folder."""

    def __init__(self, directory: Path, look: Callable[[Path], WorkFile], held: Iterable[Ticket] = ()) -> None:
        """`look` returns the identity of a file. `held` are tickets of another process."""
        self._directory = directory
        self._look = look
        self._folder = directory.with_name(f".{directory.name}{PINS}")
        self._held = dict.fromkeys(held)
        self._possible = True

    @property
    def held(self) -> tuple[Ticket, ...]:
        return tuple(self._held.copy())

    def hold(self, ticket: Ticket, files: Iterable[WorkFile]) -> bool:
        """Pin these files. False when the file system has no hard links; then every later call returns False too.

        Raises `NotPlannable` when a file is not, or no longer, the one that was planned.
        """
        if not self._possible:
            return False
        folder = self._folder / str(ticket)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file in files:
                self._link(file, folder / file.identity)
        except NotPlannable:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            self._possible = error.errno not in _NO_LINKS
            log.info("cannot pin the files of a barrier in %s; copying them unpinned: %s", self._folder, error)
            return False
        self._held[ticket] = None
        return True

    def release(self, ticket: Ticket) -> None:
        self._held.pop(ticket, None)
        shutil.rmtree(self._folder / str(ticket), ignore_errors=True)

    def path_of(self, file: WorkFile) -> Path | None:
        """Where a planned file is pinned, None when it is not."""
        for ticket in self.held:
            if (pin := self._folder / str(ticket) / file.identity).exists():
                return pin
        return None

    def _link(self, file: WorkFile, pin: Path) -> None:
        try:
            os.link(self._directory / file.path, pin)
            require_same(self._look(pin), file)
        except FileExistsError:
            return
        except FileNotFoundError as error:
            raise NotPlannable(f"{file.path} vanished before it was pinned") from error
        except Changed as error:
            raise NotPlannable(f"{file.path} {error.reason}", error.trouble) from error
