"""Parses the first line of an event."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from holdfast.doctor.reading.formats import AFTER_LEVEL, JSON_START, LAYOUTS, WITHOUT_TIME
from holdfast.doctor.reading.prefixes import Stripped, stripped, unwrapped, without_cri, without_one
from holdfast.doctor.reading.times import has_zone, milliseconds

_MOST_PREFIXES = 3
_LEVELS = {"WARNING": "WARN", "SEVERE": "ERROR", "CRITICAL": "FATAL"}


class FirstLine(Struct, frozen=True):
    message: str
    time: int | None = None
    level: str | None = None
    logger: str | None = None
    thread: str | None = None
    context: str = ""
    """Flink's nested context: what stands in brackets behind the logger."""
    is_json: bool = False


def first_line(line: str) -> tuple[Stripped, FirstLine] | None:
    """None when no event begins here."""
    found = _laid_out(line)
    if found is None:
        return None
    rest, layout = found
    return rest, FirstLine(rest.text, rest.time, is_json=True) if layout.re is JSON_START else _by_layout(rest, layout)


def writer_of(line: str) -> tuple[str, ...]:
    """Which of several processes that share a file wrote this line; empty when it is unknown."""
    found = _laid_out(line)
    return stripped(line).writer if found is None else found[0].writer


def _laid_out(line: str) -> tuple[Stripped, re.Match[str]] | None:
    """The layout is matched before a prefix is removed: some times are both."""
    rest = unwrapped(line)
    rest = without_cri(rest) or rest  # what stands behind its time is no level, so this line has no other layout
    for _ in range(_MOST_PREFIXES + 1):
        if (found := _layout_of(rest.text)) is not None:
            return rest, found
        if (without := without_one(rest)) is None:
            return None
        rest = without
    return None


def _layout_of(text: str) -> re.Match[str] | None:
    for layout in LAYOUTS:
        if (found := layout.match(text)) is not None:
            return found
    return JSON_START.match(text) if text.startswith("{") else None


def level_name(text: str | None) -> str | None:
    if not text:
        return None
    name = text.upper()
    return _LEVELS.get(name, name)


def _by_layout(line: Stripped, found: re.Match[str]) -> FirstLine:
    text, parts = line.text, found.groupdict()
    first = FirstLine(
        text[found.end() :].strip(),
        _time(parts.get("time"), line.time),
        level_name(parts.get("level")),
        _tags(parts.get("logger")),
        parts.get("thread"),
    )
    if not parts.get("level") or first.logger is not None:
        return first
    from_level = text[found.start("level") + len(parts["level"]) :].lstrip(" \t]:").rstrip()
    return _after_level(first, from_level)


def _after_level(first: FirstLine, text: str) -> FirstLine:
    if first.time is None and (skipped := WITHOUT_TIME.match(text)):
        text = text[skipped.end() :]
    for layout in AFTER_LEVEL:
        found = layout.match(text)
        if found is not None:
            parts = found.groupdict()
            return replace(
                first,
                message=parts["message"].strip(),
                logger=parts["logger"],
                thread=first.thread or parts.get("thread"),
                context=(parts.get("context") or "").strip(),
            )
    return replace(first, message=text)


def _time(written: str | None, by_collector: int | None) -> int | None:
    """A time with a zone is preferred to one without, and the collector's time to none."""
    if written is None:
        return by_collector
    if by_collector is not None and not has_zone(written):
        return by_collector
    return milliseconds(written) or by_collector


def _tags(text: str | None) -> str | None:
    return text.strip() if text else None
