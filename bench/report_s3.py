"""The measurements against an S3 server as tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench.object_store import HOLDFAST, RCLONE, STEPS, TUNED, Transfers
from bench.s3_requests import KINDS, Counted

_MB = 1 << 20


def transfers(console: Console, measured: Transfers) -> None:
    table = Table("step", "way", title="S3 server, rclone copy of the same files beside it", title_justify="left")
    for name in ("MB/s", "each round, s"):
        table.add_column(name, justify="right")
    for step in STEPS:
        for way in (HOLDFAST, RCLONE, TUNED):
            seconds = measured.seconds[way, step]
            speed = "" if step == "incremental" else f"{measured.bytes / min(seconds) / _MB:.0f}"
            table.add_row(step, way, speed, " ".join(f"{value:.2f}" for value in seconds))
        table.add_section()
    others = " ".join(f"{value:.2f}" for value in measured.others)
    table.caption = (
        f"{measured.files:,} files, {measured.bytes / _MB:,.0f} MB; MB/s of the best round; incremental: 1 % changed; "
        f"cores that other programs kept busy, by round: {others}"
    )
    console.print(table)


def requests(console: Console, plain: Counted, holdfast: Counted) -> None:
    title = f"Requests to the S3 server for {plain.batches} batches"
    table = Table("variant", "checkpoints", title=title, title_justify="left")
    for name in (*KINDS, "heartbeats", "writes"):
        table.add_column(name, justify="right")
    for counted in (plain, holdfast):
        each = (f"{counted.requests.get(kind, 0):,}" for kind in KINDS)
        table.add_row(
            counted.variant, str(counted.checkpoints), *each, str(counted.heartbeats), f"{counted.writes():,}"
        )
    table.caption = "plain Spark: a checkpoint with every batch. writes: PUT, COPY, POST; heartbeats are PUTs"
    console.print(table)
