"""The syntax of keys. Every store checks a key here before it does anything with it.

A key is a path of plain names: no empty part, no `.` or `..`, no slash at its ends, no NUL. So no key means a place
outside of its store, and no two keys mean the same object.
"""

from holdfast.errors import InvalidKey

_NOT_A_NAME = ("", ".", "..")


def checked_key(operation: str, key: str, place: str) -> str:
    """`key` itself. Raises `InvalidKey` before the store at `place` is accessed."""
    if "\0" in key or any(part in _NOT_A_NAME for part in key.split("/")):
        raise _refused(operation, key, place)
    return key


def checked_prefix(prefix: str, place: str) -> str:
    """The prefix of a listing: whole names of folders, then the beginning of a name."""
    folder, slash, begun = prefix.rpartition("/")
    if "\0" in begun or (slash and not folder):
        raise _refused("list", prefix, place)
    if slash:
        checked_key("list", folder, place)
    return prefix


def _refused(operation: str, key: str, place: str) -> InvalidKey:
    return InvalidKey(
        f"could not {operation} {key!r} in {place}: an object's name has no empty part, no '.' or '..', "
        "no slash at its ends and no NUL"
    )
