"""What containers, collectors and tools put in front of every line, taken off."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from holdfast.doctor.formats import DOCKER_START, PREFIXES
from holdfast.doctor.times import has_zone, milliseconds

_MOST = 3
_LEVELS = frozenset(("TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL"))
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LABEL = re.compile(r'(?:pod|pod_name|instance|host|hostname)="([^"]*)"')


class _DockerLine(msgspec.Struct):
    log: str
    stream: str = ""
    time: str = ""


_docker = msgspec.json.Decoder(_DockerLine)


@dataclass(frozen=True, slots=True)
class Stripped:
    """`text` is what the process itself wrote; lines with the same `writer` were written by the same process."""

    text: str
    writer: tuple[str, ...] = ()
    host: str | None = None
    time: int | None = None
    """By the collector's clock, which says its zone."""


def stripped(line: str) -> Stripped:
    """All prefixes, also in front of a line that continues an event."""
    taken = _undocked(line)
    for _ in range(_MOST):
        without = without_one(taken)
        if without is None:
            break
        taken = without
    return taken


def unwrapped(line: str) -> Stripped:
    """Only what is around the whole line."""
    return _undocked(line)


def without_one(line: Stripped) -> Stripped | None:
    for kind, pattern in PREFIXES.items():
        found = pattern.match(line.text)
        if found is None or found.groupdict().get("host") in _LEVELS:
            continue
        parts = found.groupdict()
        host = parts.get("host") or _labelled(parts.get("labels"))
        writer = tuple(part for part in (kind, parts.get("host"), parts.get("labels"), parts.get("stream")) if part)
        return Stripped(
            line.text[found.end() :],
            line.writer if kind == "timestamps" else (*line.writer, *writer),
            host or line.host,
            _exact(parts.get("time")) or line.time,
        )
    return None


def _undocked(line: str) -> Stripped:
    text = (_COLOUR.sub("", line) if "\x1b" in line else line).lstrip("\x00\ufeff")
    if not text.startswith(DOCKER_START):
        return Stripped(text)
    try:
        docker = _docker.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return Stripped(text.removeprefix(DOCKER_START), ("docker", ""))  # cut off
    return Stripped(docker.log.rstrip("\r\n"), ("docker", docker.stream), time=milliseconds(docker.time))


def _exact(text: str | None) -> int | None:
    return milliseconds(text) if text and has_zone(text) else None


def _labelled(labels: str | None) -> str | None:
    found = _LABEL.search(labels) if labels else None
    return found[1] if found else None
