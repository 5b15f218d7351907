"""Parses a sink as given on the command line, e.g. `delta:/data/orders`."""

from __future__ import annotations

from holdfast.errors import InvalidSettings
from holdfast.sinks.delta import Delta
from holdfast.sinks.files import Files
from holdfast.sinks.protocol import Sink

_KINDS: dict[str, type[Delta] | type[Files]] = {"delta": Delta, "files": Files, "parquet": Files}


def parse_sink(text: str) -> Sink:
    kind, colon, place = text.partition(":")
    if not colon or kind not in _KINDS or not place.strip():
        known = ", ".join(f"{name}:PATH" for name in _KINDS)
        raise InvalidSettings.of("sink", text, f"must be one of {known}", hint="--sink delta:/data/orders")
    return _KINDS[kind](place)
