"""R5. What was compared before the claim holds for the journal that it was compared with."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.errors import Fenced
from holdfast.identifiers import BatchId
from holdfast.repository.state import JobState
from holdfast.runtime.run import comparing
from holdfast.sinks.protocol import SinkContext, StagedBatch
from holdfast.storage.interface import StoredObject
from tests.simulation.runs import Scene, SimulatedRun
from tests.simulation.sink import SimulatedSink
from tests.simulation.store import SimulatedStore
from tests.unit.test_scenarios_from_seeds import calm_scene, run_for


class Crossing:
    """The first run opens the sink and completes a checkpoint between the second one's look at the sink and its claim;
    it publishes nothing before the second one runs."""

    def __init__(self, scene: Scene, patch: pytest.MonkeyPatch) -> None:
        self._scene = scene
        self._looked = False
        self._list, self._open, self._publish = SimulatedStore.list, SimulatedSink.open, SimulatedSink.publish
        crossing = self

        def late_list(self: SimulatedStore, prefix: str, after: str = "") -> Iterator[StoredObject]:
            if prefix == "manifests/" and len(scene.runs) == 2 and not crossing._looked:
                crossing._looked = True  # the second one has compared, and claims next
                crossing._wait(lambda: bool(scene.checkers.completed))
            yield from crossing._list(self, prefix, after)

        def late_open(self: SimulatedSink, context: SinkContext, spark: object, schema: object) -> None:
            crossing._wait(lambda: crossing._looked)
            crossing._open(self, context, spark, schema)

        def late_publish(self: SimulatedSink, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
            first, second = scene.runs[:2]
            crossing._wait(lambda: self._process is not first.process or bool(second.runtime) or not second.alive)
            crossing._publish(self, upto, ledger)

        patch.setattr(SimulatedStore, "list", late_list)
        patch.setattr(SimulatedSink, "open", late_open)
        patch.setattr(SimulatedSink, "publish", late_publish)

    def _wait(self, until: Callable[[], bool]) -> None:
        while not until():
            self._scene.world.sleep(0.05)

    def second(self) -> SimulatedRun:
        SimulatedRun(self._scene, self._scene.hosts[0], "refuse")
        run_for(self._scene, 0.5)
        return SimulatedRun(self._scene, self._scene.hosts[1], "takeover")


def test_a_run_that_opened_its_sink_between_the_look_and_the_claim_is_gone_on_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Simulation seed 5149: the sink was looked at when it knew nothing of the job. Before the claim the run before
    opened it and completed a checkpoint; the output was to begin behind that one, without its rows."""
    scene = calm_scene()
    second = Crossing(scene, monkeypatch).second()
    run_for(scene, 10.0)
    assert second.failure is None
    assert second.runtime is not None, "it runs"
    assert scene.table.rows(), "and readers see every row, which the checkers have compared"


def test_who_claims_while_it_is_compared_again_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = calm_scene()
    compare = comparing.compare

    def compare_late(location: Any, state: JobState, *others: Any) -> Any:
        if len(scene.runs) == 2 and state.run is not None and state.run.process.pid == 2:
            third = SimulatedRun(scene, scene.hosts[0], "takeover")
            while third.runtime is None:
                scene.world.sleep(0.05)
        return compare(location, state, *others)

    monkeypatch.setattr(comparing, "compare", compare_late)
    second = Crossing(scene, monkeypatch).second()
    run_for(scene, 10.0)
    assert len(scene.runs) == 3, "it was compared again"
    assert isinstance(second.failure, Fenced)
    assert scene.runs[2].failure is None
