"""R5. What was compared before the claim holds for the journal that it was compared with."""

from collections.abc import Iterator

import pytest

from holdfast.identifiers import BatchId
from holdfast.sinks.protocol import SinkContext, StagedBatch
from holdfast.storage.interface import StoredObject
from tests.simulation.runs import Scene, SimulatedRun
from tests.simulation.sink import SimulatedSink
from tests.simulation.store import SimulatedStore
from tests.unit.test_scenarios_from_seeds import calm_scene, run_for


def wait_for_a_checkpoint(scene: Scene) -> None:
    while not scene.checkers.completed:
        scene.world.sleep(0.05)


def test_a_run_that_opened_its_sink_between_the_look_and_the_claim_is_gone_on_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Simulation seed 5149: the sink was looked at when it knew nothing of the job. Before the claim the run before
    opened it and completed a checkpoint; the output was to begin behind that one, without its rows."""
    scene = calm_scene()
    looked: list[SimulatedRun] = []
    list_objects, open_sink, publish = SimulatedStore.list, SimulatedSink.open, SimulatedSink.publish

    def late_list(self: SimulatedStore, prefix: str, after: str = "") -> Iterator[StoredObject]:
        if prefix == "manifests/" and len(scene.runs) == 2 and not looked:
            looked.append(scene.runs[1])  # which has compared, and claims next
            wait_for_a_checkpoint(scene)
        yield from list_objects(self, prefix, after)

    def late_open(self: SimulatedSink, context: SinkContext, spark: object, schema: object) -> None:
        while not looked:
            scene.world.sleep(0.05)
        open_sink(self, context, spark, schema)

    def late_publish(self: SimulatedSink, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
        while self._process is scene.runs[0].process and looked[0].runtime is None and looked[0].alive:
            scene.world.sleep(0.05)
        publish(self, upto, ledger)

    monkeypatch.setattr(SimulatedStore, "list", late_list)
    monkeypatch.setattr(SimulatedSink, "publish", late_publish)
    monkeypatch.setattr(SimulatedSink, "open", late_open)
    SimulatedRun(scene, scene.hosts[0], "refuse")
    run_for(scene, 0.5)
    second = SimulatedRun(scene, scene.hosts[1], "takeover")
    run_for(scene, 10.0)
    assert second.failure is None
    assert second.runtime is not None, "it runs"
    assert scene.table.rows(), "and readers see every row, which the checkers have compared"
