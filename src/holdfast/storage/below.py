"""Paths from outside, checked to be below their root before anything is done with them.

A manifest, a ledger entry, a record or a marker may be damaged or malicious. The paths in it are used only through
`below`, or by a work directory, which asks `plain_parts`.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import Corrupt


def plain_parts(relative: str) -> tuple[str, ...]:
    """The parts of a path that can only lead downwards, or `Corrupt`. Does not check links on the disk."""
    parts = tuple(relative.split("/"))
    if "\0" in relative or any(part in ("", ".", "..") for part in parts):
        raise Corrupt(f"the path {relative!r} is not plain: it must be relative, without empty, '.' or '..' parts")
    return parts


def plain_name(name: str) -> str:
    """`name` when it is one part of a path, or `Corrupt`."""
    if len(plain_parts(name)) > 1:
        raise Corrupt(f"{name!r} is a path where a plain name must be")
    return name


def below(root: Path, relative: str) -> Path:
    """`root / relative` when that is below `root` and no symbolic link leads there, or `Corrupt`.

    The root itself may be a link: the user chose it.
    """
    path = root
    for part in plain_parts(relative):
        path = path / part
        if path.is_symlink():
            raise Corrupt(
                f"the path {relative!r} leads out of {root}: {path} is a symbolic link",
                hint="replace it with a directory or a file",
            )
    return path
