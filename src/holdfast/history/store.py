"""Whether the home is slow, or expensive."""

import math
from statistics import median

import msgspec

from holdfast.finding import Finding
from holdfast.history.numbers import ENOUGH, Numbers, as_setting, seconds
from holdfast.repository.entries import PhaseDuration
from holdfast.storage.metered import Usage
from holdfast.storage.prices import dollars_a_month

_SLOW_SEALING_MS = 2_000
"""Sealing is two small writes in a row; a healthy home does them in well under a second."""
_SLOW_BYTES_A_SECOND = 2_000_000
_WORTH_MEASURING = 10_000_000
_EXPENSIVE_DOLLARS = 30.0
_LONGEST_STRETCH = 10


def slow_store(numbers: Numbers) -> Finding | None:
    sealing = numbers.phase_ms("sealing", "journal")
    if len(sealing) < ENOUGH or median(sealing) < _SLOW_SEALING_MS:
        return None
    typical = median(sealing)
    return numbers.finding(
        "store-slow",
        "warning",
        "the home answers slowly",
        f"writing the manifest and the journal entry, two small objects, took {seconds(typical)} on median over "
        f"the last {len(sealing)} checkpoints",
        (
            f'storage_deadline="{as_setting(max(30_000, 10 * typical))}"',
            "# a home in the region and network of the driver answers in a few dozen milliseconds",
        ),
        ((item, f"checkpoint {item.id}: phases {_phases(item.phases)}") for item in numbers.recent),
    )


def slow_upload(numbers: Numbers) -> Finding | None:
    rates = [
        (item.bytes_new or 0) / (milliseconds / 1000)
        for item, milliseconds in zip(numbers.recent, numbers.phase_ms("copying", "copy"), strict=False)
        if milliseconds and (item.bytes_new or 0) >= _WORTH_MEASURING
    ]
    if len(rates) < ENOUGH or median(rates) >= _SLOW_BYTES_A_SECOND:
        return None
    return numbers.finding(
        "upload-slow",
        "warning",
        "new state is uploaded slowly",
        f"{median(rates) / 1_000_000:.1f} MB a second on median over the last {len(rates)} checkpoints",
        ("parallelism=16", "# measure the connection to the home with a plain copy of one large file"),
        (
            (item, f"checkpoint {item.id}: {item.bytes_new} new bytes, phases {_phases(item.phases)}")
            for item in numbers.recent
        ),
    )


def expensive(numbers: Numbers) -> Finding | None:
    newest = next((item for item in numbers.recent if item.requests), None)
    if newest is None or newest.requests is None or numbers.interval_ms is None:
        return None
    dollars = dollars_a_month(numbers.seen.home, Usage(**msgspec.structs.asdict(newest.requests)))
    if dollars is None or dollars < _EXPENSIVE_DOLLARS:
        return None
    factor = min(_LONGEST_STRETCH, math.ceil(2 * dollars / _EXPENSIVE_DOLLARS))
    return numbers.finding(
        "requests-expensive",
        "info",
        "requests to the home cost more than necessary",
        f"at this rate they cost about ${dollars:,.0f} a month by list price; each checkpoint costs the same, "
        "so fewer checkpoints cost less",
        (f'interval="{as_setting(numbers.interval_ms * factor)}"',),
        [(newest, f"checkpoint {newest.id}: {newest.requests.put} PUT, {newest.requests.get} GET")],
    )


def _phases(phases: tuple[PhaseDuration, ...]) -> str:
    return ", ".join(f"{phase.name} {seconds(phase.ms)}" for phase in phases)
