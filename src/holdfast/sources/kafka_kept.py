"""How long Kafka's brokers keep what checkpoints need."""

from collections.abc import Mapping, Sequence

from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.identifiers import CheckpointId
from holdfast.job_log import log
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.positions import Positions, least, parsed
from holdfast.sources.restorable import Offsets, Restorable, restorable


class KafkaKept:
    def __init__(self, inputs: Sequence[KafkaInput]) -> None:
        """They have the same brokers."""
        self._inputs = inputs

    def look(self, offsets: Offsets, now: float) -> Mapping[CheckpointId, Restorable]:
        needs = {
            id: least(self._positions(each, by.get(each.name)) for each in self._inputs) for id, by in offsets.items()
        }
        brokers = self._inputs[0].open()
        try:
            kept = brokers.kept({part for positions in needs.values() for part in positions}, now)
        finally:
            brokers.close()
        return {id: restorable(id, positions, kept, now) for id, positions in needs.items()}

    def _positions(self, each: KafkaInput, offset: str | None) -> Positions:
        try:
            return {} if offset is None else parsed(offset)
        except NotUnderstood as error:
            log.debug("the offsets of %s are not known: %s", each.subscribed, error)
            return {}
