"""How lives begin, and what a checkpoint does to batches, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.during import During
from bench.ratio import quantile
from bench.recovery import WAYS, Recoveries

_NAMES = {
    "plain": "plain Spark, its directory",
    "tuned": "plain Spark, tuned, its directory",
    "local": "holdfast, its directory",
    "home": "holdfast, from the home",
}


def recoveries(console: Console, measured: Sequence[Recoveries]) -> None:
    table = Table("state", "way", title="From the start of a life to its first batch", title_justify="left")
    for name in ("median s", "each round", "others"):
        table.add_column(name, justify="right")
    for size in measured:
        for way in WAYS:
            seconds = size.seconds[way]
            each = " ".join(f"{value:.2f}" for value in seconds)
            state = f"{size.state_bytes / (1 << 20):.0f} MB"
            table.add_row(state, _NAMES[way], f"{median(seconds):.2f}", each, f"{size.others:.2f}")
        table.add_section()
    table.caption = "others: cores that other programs kept busy in the life that they disturbed most"
    console.print(table)


def during(console: Console, measured: During) -> None:
    table = Table("batches", title="Batches with and without a checkpoint under way", title_justify="left")
    for name in ("count", "median ms", "p99 ms"):
        table.add_column(name, justify="right")
    for name, times in (("without", measured.without), ("during", measured.during)):
        shown = (f"{quantile(times, share) * 1000:.0f}" for share in (0.5, 0.99))
        table.add_row(name, str(len(times)), *shown)
    table.caption = (
        f"{measured.checkpoints} checkpoints; one was under way in {measured.share:.0%} of the time of the second row; "
        f"others kept {measured.others:.2f} cores busy"
    )
    console.print(table)
