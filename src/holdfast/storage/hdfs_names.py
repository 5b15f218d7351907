"""Keys as paths of HDFS, and back.

A component of a path may not contain ':', may not be '.' or '..', and some names that begin with a dot mean something
to the NameNode ('.snapshot', '.reserved'). So ':', control characters and a leading dot are written as in URLs: %3A,
%2E; and '%' as %25, which makes it reversible. Names that begin with '.tmp-' stay: those are temporary files.
"""

import re
from urllib.parse import unquote

TEMPORARY = ".tmp-"

_FORBIDDEN = re.compile(r"[%:\x00-\x1f\x7f]|^\.(?!tmp-)")


def to_path(key: str) -> str:
    return "/".join(_FORBIDDEN.sub(_escaped, component) for component in key.split("/"))


def to_component(name: str) -> str:
    """The component of a key that is called `name` in HDFS."""
    return unquote(name)


def _escaped(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"
