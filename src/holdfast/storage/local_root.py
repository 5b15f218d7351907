"""The directory of a local home: whether it is still the one that was opened, and access to the folders below it.

Everything is opened from a handle on the root, one name at a time, and no link is followed: nothing outside of a home
can be read, written or deleted through it. The root itself may be a link.

The device and inode prove cheaply that the root is the one that was opened. When they changed, `home.json` decides: the
same disk mounted again is the same home, an empty mount point or another disk is not.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from holdfast.errors import StorageDenied, StorageUnreachable
from holdfast.storage.home_identity import KEY

DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LONGEST_IDENTITY = 1 << 16


class _Id(msgspec.Struct):
    id: str


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_ID_DECODER = msgspec.json.Decoder(_Id)


class LinkInTheWay(OSError):
    """A symbolic link below a home."""

    def __init__(self) -> None:
        super().__init__(
            errno.ELOOP, "it is, or is reached by, a symbolic link, and links below a home are not followed"
        )


class LocalRoot:
    def __init__(self, path: Path) -> None:
        self.path = path
        handle = self._opened()
        try:
            self._place = _place(handle)
            self._home = _home_id(handle)
        finally:
            os.close(handle)

    @contextmanager
    def folder(self, name: str, *, make: bool = False) -> Iterator[int]:
        """A handle on the folder `name` below the root, "" for the root itself, created if `make` is set.

        Raises `FileNotFoundError` when there is none, `StorageUnreachable` when the root is not the one that was
        opened. The root itself is never created: a missing one must stay an error.
        """
        handle = self._opened()
        try:
            self._require_same(handle)
            for part in name.split("/") if name else ():
                handle = _down(handle, part, make)
            yield handle
        finally:
            os.close(handle)

    def _opened(self) -> int:
        try:
            return os.open(self.path, _FOLDER)
        except NotADirectoryError as error:
            why = f"could not open {self.path}: it is not a directory"
            raise StorageUnreachable(why, hint="name a directory") from error
        except OSError as error:
            why = f"could not open {self.path}: {error.strerror}"
            if error.errno in DENIED:
                raise StorageDenied(why) from error
            raise StorageUnreachable(why, hint=f"mount it, or create it: mkdir -p {self.path}") from error

    def _require_same(self, handle: int) -> None:
        place = _place(handle)
        if place == self._place:
            # A claim may have created it since the root was opened.
            self._home = self._home or _home_id(handle)
            return
        found = _home_id(handle)
        if found is None or found != self._home:
            raise StorageUnreachable(
                f"{self.path} is no longer the directory that was opened: that one was {_shown(self._home)}, "
                f"what is there now is {_shown(found)}",
                hint=f"mount {self.path} again",
            )
        self._place = place


def _down(handle: int, part: str, make: bool) -> int:
    """A handle on the folder `part` in `handle`. The caller closes it; on an error it is closed here."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=handle)
    try:
        below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=handle)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(part, dir_fd=handle, follow_symlinks=False).st_mode):
            raise LinkInTheWay from None
        raise
    os.close(handle)
    return below


def _place(handle: int) -> tuple[int, int]:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def _home_id(handle: int) -> str | None:
    """None when `home.json` is missing or cannot be read: then the home is unknown."""
    try:
        file = os.open(KEY, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
    except OSError:
        return None
    try:
        return _ID_DECODER.decode(os.read(file, _LONGEST_IDENTITY)).id
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        os.close(file)


def _shown(home: str | None) -> str:
    return f"home {home}" if home else f"not a home with a readable {KEY}"
