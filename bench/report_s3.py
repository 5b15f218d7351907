"""The measurements against an S3 server as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.inside_store import Inside
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


def requests(console: Console, *measured: Counted) -> None:
    title = f"Requests to the S3 server for {measured[0].batches} batches"
    table = Table("variant", "checkpoints", title=title, title_justify="left")
    for name in (*KINDS, "all", "heartbeats", "writes"):
        table.add_column(name, justify="right")
    for counted in measured:
        each = (f"{counted.requests.get(kind, 0):,}" for kind in KINDS)
        table.add_row(
            counted.variant,
            str(counted.checkpoints),
            *each,
            f"{counted.all():,}",
            str(counted.heartbeats),
            f"{counted.writes():,}",
        )
    table.caption = (
        "plain Spark: a checkpoint with every batch. inside: holdfast, work directory on S3, too. "
        "writes: PUT, COPY, POST; heartbeats are PUTs"
    )
    console.print(table)


def inside(console: Console, measured: Sequence[Inside]) -> None:
    title = "Home and work directory in one bucket of an S3 server"
    table = Table(title=title, title_justify="left")
    columns = ("MB", "files", "checkpoint, s", "MB sent", "restore, s", "MB received", "restore, all bytes read, s")
    for name in columns:
        table.add_column(name, justify="right")
    for each in measured:
        table.add_row(
            f"{each.bytes / _MB:,.0f}",
            str(each.files),
            f"{each.checkpoint_s:.2f}",
            f"{each.checkpoint_sent / _MB:.1f}",
            f"{each.restore_s:.2f}",
            f"{each.restore_received / _MB:.1f}",
            f"{each.through_here_s:.2f}",
        )
    table.caption = "sent and received: small files, in packs. The checkpoint read every file once, for its digest"
    console.print(table)
