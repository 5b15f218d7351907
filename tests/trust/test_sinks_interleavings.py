"""Two runs at once, in every order of their steps, on real directories and real Delta tables.

Each run is a greenlet that stops at every step of its sink. All schedules with a few changes from one run to the other
are tried. Spark is not needed: batches are pyarrow tables.
"""

from __future__ import annotations

import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import greenlet
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from holdfast.errors import Fenced, HoldfastError
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks import Delta, Files, Sink, SinkContext, StagedBatch
from holdfast.sinks.committed import Written
from holdfast.sinks.protocol import Step, no_step

DEEPER = int(os.environ.get("HOLDFAST_DEEPER", "0"))
"""More changes between the runs than fit into a quick test; 1 takes minutes."""
SCHEMA = StructType([StructField("id", LongType()), StructField("text", StringType())])
Rows = Counter[tuple[int, str]]


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(batch: pa.Table, directory: Path, _: tuple[str, ...] = ()) -> Written:
        directory.mkdir(parents=True)
        paths = [directory / f"part-{number}.parquet" for number in range(batch.num_rows)]
        for number, path in enumerate(paths):
            pq.write_table(batch.slice(number, 1), path)
        return Written(batch.num_rows, {path: path.stat().st_size for path in paths})

    monkeypatch.setattr("holdfast.sinks.files.write_parquet", write)
    monkeypatch.setattr("holdfast.sinks.delta.write_parquet", write)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # power cuts are not played here


@dataclass
class Place:
    kind: Callable[..., Any]
    path: Path
    uniques: Iterator[int] = field(default_factory=count)
    seen: dict[str, Rows] = field(default_factory=dict)
    """What a file, or a version of a table, holds; neither ever changes."""

    def run(self, epoch: int, step: Step = no_step) -> Sink:
        sink: Sink = self.kind(self.path, step=step, unique=lambda: f"u{next(self.uniques)}")
        sink.open(SinkContext(JobName("orders"), FencingEpoch(epoch), "home-1"), None, SCHEMA)  # type: ignore[arg-type]
        return sink

    def rows(self) -> Rows:
        """What a reader sees now."""
        if self.kind is Delta:
            version = max(path.name for path in (self.path / "_delta_log").glob("*.json"))
            return self._cached(version, lambda: DeltaTable(str(self.path)).to_pyarrow_table())
        visible = [path for path in self.path.iterdir() if path.is_file()]
        return sum((self._cached(path.name, lambda path=path: pq.read_table(path)) for path in visible), Counter())

    def _cached(self, key: str, read: Callable[[], pa.Table]) -> Rows:
        if key not in self.seen:
            self.seen[key] = Counter((row["id"], row["text"]) for row in read().to_pylist())
        return self.seen[key]


def stage(sink: Sink, *batches: int, attempt: str = "a") -> tuple[StagedBatch, ...]:
    tables = {n: pa.table({"id": [n * 10, n * 10 + 1], "text": [f"{n}{attempt}"] * 2}) for n in batches}
    return tuple(sink.stage(table, BatchId(n)) for n, table in tables.items())  # type: ignore[arg-type]


def shown(*batches: str) -> Rows:
    return Counter((int(batch[:-1]) * 10 + n, batch) for batch in batches for n in range(2))


def started(place: Place, published: int) -> tuple[StagedBatch, ...]:
    """Run 1 staged the batches 0 to 2 and published up to `published`, then died."""
    first = place.run(1)
    ledger = stage(first, 0, 1, 2)
    first.publish(BatchId(published), ledger)
    return ledger


Life = Callable[[Place, tuple[StagedBatch, ...], Step], None]


def publishes(epoch: int) -> Life:
    def life(place: Place, ledger: tuple[StagedBatch, ...], step: Step) -> None:
        sink = place.run(epoch, step)
        sink.publish(BatchId(1), ledger)
        sink.discard(())

    return life


def publishes_late(place: Place, ledger: tuple[StagedBatch, ...], step: Step) -> None:
    """Asks only at the end of its life; the other run may come and go before."""
    place.run(2, step).publish(BatchId(1), ledger)


def resumes_at_0(epoch: int) -> Life:
    def life(place: Place, _: tuple[StagedBatch, ...], step: Step) -> None:
        sink = place.run(epoch, step)
        sink.rewind(BatchId(0))
        sink.discard(())
        sink.publish(BatchId(1), stage(sink, 1, attempt=str(epoch)))

    return life


def recovers_at_0(place: Place, _: tuple[StagedBatch, ...], step: Step) -> None:
    sink = place.run(2, step)
    sink.rewind(BatchId(0))
    sink.discard(())


def keeps(epoch: int) -> Life:
    def life(place: Place, ledger: tuple[StagedBatch, ...], step: Step) -> None:
        sink = place.run(epoch, step)
        sink.discard(ledger[1:])
        if epoch == 3:
            sink.publish(BatchId(2), ledger)

    return life


CASES: dict[str, tuple[int, Life, Life, Rows, int]] = {
    "both publish the same": (0, publishes_late, publishes(3), shown("0a", "1a"), 1),
    "the newer resumes before what the older publishes": (
        0,
        publishes_late,
        resumes_at_0(3),
        shown("0a", "13"),
        1,
    ),
    "both take back": (1, recovers_at_0, resumes_at_0(3), shown("0a", "13"), 1),
    "both resume and publish": (1, resumes_at_0(2), resumes_at_0(3), shown("0a", "13"), 1),
    "both keep what was staged": (0, keeps(2), keeps(3), shown("0a", "1a", "2a"), 2),
}


KINDS = [
    (Files, 1 + DEEPER),
    pytest.param(Files, 2 + DEEPER, marks=pytest.mark.long),
    (Delta, 1 + DEEPER),
]


@pytest.mark.parametrize(("kind", "switches"), KINDS)
@pytest.mark.parametrize("case", CASES)
def test_whatever_the_order_readers_see_what_the_newer_run_wants(
    kind: Any, switches: int, case: str, tmp_path: Path
) -> None:
    published, older, newer, expected, upto = CASES[case]
    for place, schedule in every_order(kind, switches, published, (older, newer), tmp_path):
        assert place.rows() == expected, schedule
        assert place.run(4).published() == upto, schedule


@pytest.mark.parametrize(("kind", "switches"), KINDS)
def test_a_run_that_wants_what_an_older_one_takes_back_gets_it_whole_or_an_error(
    kind: Any, switches: int, tmp_path: Path
) -> None:
    """The journal should prevent it; if it does not, no row may get lost in silence."""
    refused = []

    def insists(place: Place, ledger: tuple[StagedBatch, ...], step: Step) -> None:
        refused.clear()
        try:
            place.run(3, step).publish(BatchId(1), ledger)
        except HoldfastError as error:
            refused.append(error)

    for place, schedule in every_order(kind, switches, 1, (recovers_at_0, insists), tmp_path):
        assert refused or place.rows() == shown("0a", "1a"), schedule
        assert not any(isinstance(error, Fenced) for error in refused), schedule


def every_order(
    kind: Any, switches: int, published: int, lives: tuple[Life, Life], folder: Path
) -> Iterator[tuple[Place, tuple[int, ...]]]:
    """Play the two lives in every order with up to `switches` turns, each from the same start."""
    start = folder / "start"
    ledger = started(Place(kind, start), published)
    schedules: list[tuple[int, ...]] = [()]
    while schedules:
        schedule = schedules.pop()
        place = Place(kind, folder / "place")
        shutil.copytree(start, place.path)
        last = play(place, ledger, lives, schedule)
        yield place, schedule
        shutil.rmtree(place.path)
        if len(schedule) < switches:
            schedules += [(*schedule, length) for length in range(1 if schedule else 0, last)]


def play(place: Place, ledger: tuple[StagedBatch, ...], lives: tuple[Life, Life], schedule: tuple[int, ...]) -> int:
    """The runs take turns, the older first, each turn as many steps long as `schedule` says; then each goes to its end.

    The older may be fenced, the newer may not fail, and no reader may ever see a row twice.
    Returns how many steps were taken after the schedule by the run whose turn it was.
    """
    hub = greenlet.getcurrent()

    def living(life: Life) -> None:
        try:
            life(place, ledger, lambda _: hub.switch())
        except Fenced:
            assert life is lives[0]

    def take_turn(run: greenlet.greenlet, length: float) -> int:
        taken = 0
        while not run.dead and taken < length:
            run.switch()
            taken += 1
            assert max(place.rows().values(), default=0) <= 1, schedule
        return taken

    runs = [greenlet.greenlet(lambda life=life: living(life)) for life in lives]
    for turn, length in enumerate(schedule):
        take_turn(runs[turn % 2], length)
    last = take_turn(runs[len(schedule) % 2], math.inf)
    take_turn(runs[(len(schedule) + 1) % 2], math.inf)
    return last
