"""Compares where a job would resume with what Kafka's brokers still have, before anything is claimed or changed.

Brokers that cannot be asked refuse nothing: Spark asks them, too. The answers are kept until the query starts, so the
checks of one start ask once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdfast.checkpoint.query_facts import KafkaFacts
from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, JobName
from holdfast.job_log import log
from holdfast.sources.brokers import BrokersFailed, Cluster, Refused
from holdfast.sources.comparing import Kind, Needed, RecordedSource, SourceTrouble, troubles
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.positions import Positions, furthest, positions_in

_NAMED = 3
"""A message names so many troubles."""
_ATTEMPTS, _PAUSE_S = 3, 1.0
_BEGIN_AGAIN = "or begin again, from the oldest records that there are: a new job name, with a sink of its own"
_SKIP = 'or give them up: .option("failOnDataLoss", "false")'
_SAME = "has the same records at the same offsets, --accept-source"
_WAYS_OUT: Mapping[Kind, str] = {
    "another_cluster": f"let the reader use the cluster that it read from; if the other one {_SAME}; {_BEGIN_AGAIN}",
    "recreated": f"if the new topic {_SAME}; {_BEGIN_AGAIN}",
    "topic_gone": f"bring the topic back with its records; {_SKIP}; {_BEGIN_AGAIN}",
    "partitions_gone": f"bring the partitions back with their records; {_SKIP}; {_BEGIN_AGAIN}",
    "aged_out": "resume from a newer checkpoint, if one was chosen; bring the records back from a mirror or a tier; "
    f"{_SKIP}; {_BEGIN_AGAIN}",
    "cut_off": f"wait if brokers are still coming up; bring the records back from a replica; {_SKIP}; {_BEGIN_AGAIN}",
}


class OffsetFiles(Protocol):
    """What is needed of a checkpoint directory."""

    def names(self, folder: str = "") -> list[str]: ...

    def read(self, path: str) -> bytes: ...


class SourceCheck:
    def __init__(
        self,
        job: JobName,
        inputs: Sequence[KafkaInput],
        *,
        installed: bool,
        accept: bool,
        sleep: Callable[[float], None],
    ) -> None:
        """`installed`: whether brokers can be asked. `accept`: the user says that offsets of another cluster or topic
        fit."""
        self._job = job
        self._inputs = inputs if installed else ()
        self._accept = accept
        self._sleep = sleep
        self._answers: dict[tuple[str, frozenset[str]], Cluster | None] = {}
        self.skipped: tuple[str, ...] = ()
        """What readers with failOnDataLoss=false pass over where the job resumes, in words."""
        if inputs and not installed:
            log.info("not checked whether Kafka still has what the job needs. Try: pip install 'holdfast-spark[kafka]'")

    def refusal(
        self,
        directory: OffsetFiles,
        barrier: BatchId,
        recorded: Mapping[str, KafkaFacts],
        plan: bytes | None = None,
    ) -> Conflict | None:
        """Why the query cannot resume after this batch, None when it can, or when that cannot be known. `plan`: the
        offsets of the newest batch that would be repeated."""
        found: list[SourceTrouble] = []
        skipped: list[str] = []
        for each in self._inputs:
            needed = _needed(each, directory, barrier, plan)
            if needed is None or not needed.start:
                continue
            refused, passed = self._judged(each, needed, recorded.get(each.name, KafkaFacts()))
            found += refused
            skipped += passed
        self.skipped = tuple(skipped)
        if not found:
            return None
        named = "; ".join(trouble.message for trouble in found[:_NAMED])
        more = f"; and {len(found) - _NAMED} more like this" if len(found) > _NAMED else ""
        return Conflict(
            f"could not resume job {self._job!r} after batch {barrier}, because Kafka does not have what it needs: "
            f"{named}{more}",
            hint=_WAYS_OUT[found[0].kind],
        )

    def facts(self, held: Mapping[str, KafkaFacts], positions: Mapping[str, Positions]) -> dict[str, KafkaFacts]:
        """For the record of the query: cluster and topics, as the brokers name them. What is not known now is kept."""
        made = {}
        for each in self._inputs:
            topics = frozenset(part.topic for part in positions.get(each.name, ())) | frozenset(each.topics)
            found = self._look(each, topics)
            before = held.get(each.name, KafkaFacts())
            if found is None:
                made[each.name] = before
                continue
            ids = {name: topic.id for name, topic in found.topics.items() if topic is not None and topic.id is not None}
            made[each.name] = KafkaFacts(cluster=found.id, topics=ids)
        return made or dict(held)

    def forget(self) -> None:
        """The brokers may answer otherwise the next time."""
        self._answers.clear()

    def _judged(self, each: KafkaInput, needed: Needed, facts: KafkaFacts) -> tuple[list[SourceTrouble], list[str]]:
        """What is refused, and what the reader passes over."""
        topics = frozenset(part.topic for part in needed.start)
        cluster = self._look(each, topics | frozenset(each.topics))
        if cluster is None:
            return [], []
        found = troubles(RecordedSource(facts.cluster, facts.topics), needed, cluster)
        if self._accept and any(trouble.of_another_topic for trouble in found):
            for trouble in found:
                log.warning("accepted with --accept-source: %s", trouble.message)
            found = troubles(RecordedSource(None, {}), needed, cluster)
        refused, passed = [], []
        for trouble in found:
            if trouble.harmless:
                log.info("the source %s: %s", each.subscribed, trouble.message)
            elif each.fail_on_data_loss or trouble.of_another_topic:
                refused.append(trouble)
            else:
                passed.append(trouble.message)
                log.warning("failOnDataLoss=false: the reader skips what is gone: %s", trouble.message)
        return refused, passed

    def _look(self, each: KafkaInput, topics: frozenset[str]) -> Cluster | None:
        key = (each.name, topics)
        if key not in self._answers:
            self._answers[key] = self._asked(each, topics)
        return self._answers[key]

    def _asked(self, each: KafkaInput, topics: frozenset[str]) -> Cluster | None:
        for again in reversed(range(_ATTEMPTS)):
            try:
                return _answer(each, topics)
            except BrokersFailed as error:
                if again and error.why is Refused.LEADER:  # a topic that was just created has none for a moment
                    self._sleep(_PAUSE_S)
                    continue
                log.warning(
                    "could not check whether Kafka still has what %s needs: %s. Try: %s",
                    each.subscribed,
                    error.message,
                    error.hint,
                )
                break
        return None


def _answer(each: KafkaInput, topics: frozenset[str]) -> Cluster:
    brokers = each.open()
    try:
        return brokers.look(topics)
    finally:
        brokers.close()


def _needed(each: KafkaInput, directory: OffsetFiles, barrier: BatchId, plan: bytes | None) -> Needed | None:
    try:
        start = positions_in(directory.read(f"offsets/{barrier}"), each.name)
        cut = [int(name) for name in directory.names("offsets") if name.isdigit() and int(name) > barrier]
        planned = [start, *(positions_in(directory.read(f"offsets/{batch}"), each.name) for batch in cut)]
        planned += [positions_in(plan, each.name)] if plan is not None else []
    except (OSError, NotUnderstood) as error:
        log.debug("the offsets of %s are not compared with the brokers: %s", each.subscribed, error)
        return None
    return Needed(start, furthest(planned))


def positions_at(inputs: Sequence[KafkaInput], directory: OffsetFiles, barrier: BatchId | None) -> dict[str, Positions]:
    """Where the sources are after this batch, as far as it is known."""
    found: dict[str, Positions] = {}
    for each in inputs if barrier is not None else ():
        try:
            found[each.name] = positions_in(directory.read(f"offsets/{barrier}"), each.name)
        except (OSError, NotUnderstood) as error:
            log.debug("the offsets of %s are not known: %s", each.subscribed, error)
    return found
