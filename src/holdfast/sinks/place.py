"""Where a sink writes, and the names that it generates there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

from blake3 import blake3

from holdfast.errors import InvalidSettings
from holdfast.sinks.protocol import SinkContext

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def local_place(kind: str, value: object) -> Path:
    """The absolute path that `value`, a path or a file:// URL, names."""
    field = f"{kind} sink"
    if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
        raise InvalidSettings.of(field, value, "must be the path of a directory")
    text = str(value)
    if _SCHEME.match(text):
        url = urlsplit(text)
        if url.scheme != "file" or url.netloc not in ("", "localhost") or not url.path:
            raise InvalidSettings.of(
                field,
                value,
                "must be a local path or a file:/// URL",
                hint=f"write to a mounted path: {kind}:/data/orders",
            )
        text = unquote(url.path)
    return Path(text).absolute()


def owner_name(context: SinkContext) -> str:
    """A path component that no other job, and no job of the same name in another home, ever uses."""
    return f"{context.job}-{blake3(context.lineage.encode()).hexdigest()[:8]}"


def require(module: str, extra: str) -> ModuleType:
    """The optional package `module`, imported on first use so that `import holdfast.sinks` needs no extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidSettings(
            f"the {extra} sink could not import the Python package {module.partition('.')[0]!r}: {error}",
            hint=f"pip install 'holdfast-spark[{extra}]'",
        ) from error
