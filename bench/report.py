"""The measurements as tables and bars on the terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.cluster import VARIANTS as CLUSTER_VARIANTS
from bench.cluster import Measured, job_of, neighbour_of
from bench.home_bytes import Written
from bench.pipeline import VARIANTS, Life, Load
from bench.ratio import Ratio, quantile
from bench.restore import Restores
from bench.rounds import Round, batch_times, lives_of, processor_per_batch, throughput

_WIDTH = 20
_MB = 1 << 20


def opening(console: Console, load: Load, quick: bool) -> None:
    console.print(
        f"[bold]holdfast bench[/]{' (quick)' if quick else ''}: windowed aggregation, RocksDB with changelog, "
        f"{load.state_keys:,} keys of state, {load.keys:,} new and {load.keys:,} closed per batch, 4 partitions, "
        f"local[2] on {os.cpu_count()} cores; checkpoints every 5 s"
    )


def lives(console: Console, rounds: Sequence[Round]) -> None:
    table = Table("round", "variant", title="Pipeline, back-to-back batches", title_justify="left")
    for name in ("batches/s", "median ms", "p99 ms", "CPU ms", "ckpts", "others"):
        table.add_column(name, justify="right")
    for number, round in enumerate(rounds, 1):
        for life in round.lives:
            table.add_row(str(number), life.variant, *_figures([life]), _checkpoints([life]), f"{life.others:.2f}")
        table.add_section()
    for variant in VARIANTS:
        if found := lives_of(rounds, variant):
            table.add_row("all", variant, *_figures(found), _checkpoints(found), "", style="bold")
    table.caption = "CPU: per batch, Spark and Python together. others: cores that other programs kept busy meanwhile"
    console.print(table)


def _figures(found: Sequence[Life]) -> tuple[str, str, str, str]:
    times = batch_times(found)
    seconds = (quantile(times, 0.5), quantile(times, 0.99), processor_per_batch(found))
    middle, worst, processor = (f"{value * 1000:.0f}" for value in seconds)
    return f"{throughput(found):.3f}", middle, worst, processor


def _checkpoints(found: Sequence[Life]) -> str:
    if found[0].variant != "holdfast":
        return ""
    completed, failed = sum(life.checkpoints for life in found), sum(life.failed_checkpoints for life in found)
    return f"{completed} ({failed} failed)" if failed else str(completed)


def coordinator(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    figures(console, "Coordinator", rows)


def figures(console: Console, title: str, rows: Sequence[tuple[str, str]]) -> None:
    table = Table("figure", "value", title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def home_bytes(console: Console, homes: Sequence[Written]) -> None:
    table = Table(title="Bytes per checkpoint, kB", title_justify="left")
    for name in ("round", "ckpts", "changed", "written", "data", "manifest", "journal", "leftover", "ratio"):
        table.add_column(name, justify="right")
    for number, home in enumerate(homes, 1):
        each = (home.changed, home.bytes, home.objects, home.manifests, home.journal, home.leftovers)
        shown = (f"{value / home.checkpoints / 1024:,.0f}" for value in each)
        table.add_row(str(number), str(home.checkpoints), *shown, f"{home.bytes / home.changed:.3f}")
    table.caption = f"a whole checkpoint has {_size(homes[-1].total)}"
    console.print(table)


def restores(console: Console, measured: Restores) -> None:
    table = Table("way", title="Restore, warm cache", title_justify="left")
    for name in ("MB/s", "seconds", "each round"):
        table.add_column(name, justify="right")
    ways = (
        ("holdfast restore", measured.holdfast),
        ("cp -r, hashing", measured.copied),
        ("cp -r, sync, hashing", measured.copied_durably),
    )
    for way, seconds in ways:
        speed = measured.throughput(seconds)
        each = " ".join(f"{value:.2f}" for value in seconds)
        table.add_row(way, f"{speed / _MB:.0f}", f"{measured.bytes / speed:.2f}", each)
    table.caption = f"{measured.files:,} files, {_size(measured.bytes)}"
    console.print(table)


def cluster(console: Console, measured: Measured) -> None:
    table = Table("variant", title="Standalone cluster, two workers of two cores", title_justify="left")
    for name in ("median ms", "p99 ms", "neighbour's", "p99 ms", "ckpts", "others"):
        table.add_column(name, justify="right")
    for variant in CLUSTER_VARIANTS:
        lives = [life for life in measured.lives if life.variant == variant]
        times = [measured.times(variant, whose) for whose in (job_of, neighbour_of)]
        shown = [f"{quantile(found, share) * 1000:.0f}" for found in times for share in (0.5, 0.99)]
        made, failed = sum(life.checkpoints for life in lives), sum(life.failed_checkpoints for life in lives)
        others = f"{max(life.others for life in lives):.2f}"
        table.add_row(variant, *shown, f"{made} ({failed} failed)" if failed else str(made), others)
    table.caption = "neighbour: another query of the same application. others: cores that other programs kept busy"
    console.print(table)


def summary(console: Console, ratios: Sequence[Ratio]) -> None:
    """One bar per ratio; the scale ends at twice what it is compared with."""
    table = Table(title="holdfast, as a multiple of what it is compared with", title_justify="left")
    table.add_column("ratio")
    table.add_column(f"0{'1':>{_WIDTH // 2}}{'2':>{_WIDTH - _WIDTH // 2 - 1}}", width=_WIDTH)
    table.add_column("measured", justify="right")
    table.add_column("expected", justify="right")
    for ratio in ratios:
        bar = Bar(2.0, 0.0, min(ratio.value, 2.0), width=_WIDTH, color=_color(ratio))
        name = f"{ratio.name} {'↑' if ratio.more_is_better else '↓'}"
        table.add_row(name, bar, f"{ratio.value:.3f}", Text.assemble(ratio.promise, " ", _mark(ratio)))
    table.caption = "↑ more is better   ↓ less is better"
    console.print(table)


def closing(console: Console, ratios: Sequence[Ratio]) -> None:
    if any(ratio.disturbed for ratio in ratios):
        console.print(
            "[yellow]? Other programs kept the machine busy meanwhile (column others): "
            "ratios of time say nothing. Run it again on an idle machine.[/]"
        )
    missed = [ratio for ratio in ratios if ratio.met is False]
    for ratio in missed:
        console.print(f"[red]✗ {ratio.name}: {ratio.value:.3f}, expected {ratio.promise}[/]")
    if not missed and any(ratio.met for ratio in ratios) and not any(ratio.disturbed for ratio in ratios):
        console.print("[green]✓ what was promised held[/]")


def _color(ratio: Ratio) -> str:
    return {True: "green", False: "red", None: "blue"}[ratio.met]


def _mark(ratio: Ratio) -> Text:
    if ratio.met is None:
        return Text("?" if ratio.disturbed and ratio.expected else "", style="yellow")
    return Text("✓", style="green") if ratio.met else Text("✗", style="red")


def _size(count: float) -> str:
    return f"{count / _MB:.1f} MB" if count >= _MB else f"{count / 1024:.1f} kB"
