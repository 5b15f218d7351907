"""An exactly-once writer lost its Kafka transaction."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "kafka-transaction-failed"
_TOO_LONG = re.compile(
    r"transaction timeout is larger than the maximum|InvalidTransactionTimeout|INVALID_TRANSACTION_TIMEOUT"
)
_EXPIRED = re.compile(
    r"old epoch|expired by the broker|exceeding the transaction timeout|InvalidTxnState|InvalidPidMapping"
    r"|InvalidProducerEpoch|UnknownProducerId"
)
_FENCED = re.compile(r"ProducerFencedException|newer producer with the same transactionalId")
_VARIANTS = (("too-long", _TOO_LONG), ("expired", _EXPIRED), ("fenced", _FENCED))


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    for name, pattern in _VARIANTS:
        if pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name)
    return Clue(shown(event))


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="an exactly-once writer could not open, keep or commit its Kafka transaction",
    rules=(
        Rule(
            CODE,
            (
                "ProducerFencedException",
                "InvalidTxnStateException",
                "InvalidPidMappingException",
                "InvalidProducerEpochException",
                "UnknownProducerIdException",
                "newer producer with the same transactionalId",
                "transaction timeout is larger than the maximum",
                "exceeding the transaction timeout",
                "previous transactional or idempotent request has failed",
                "InitProducerIdResponse",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "too-long",
            "the writer asks for a longer transaction time-out than the brokers allow",
            Fix(
                flink=(
                    "properties.transaction.timeout.ms: 900000",
                    "# or on the brokers: transaction.max.timeout.ms=3600000; it must exceed the longest outage",
                ),
                holdfast=("# sinks of holdfast stage files and publish them; they hold no transaction open",),
            ),
            for_variant("too-long", weight=65),
        ),
        Cause(
            "expired",
            "the transaction was open for longer than its time-out, and the broker aborted it: "
            "checkpoints took longer, or the job was down for longer",
            Fix(
                flink=(
                    "properties.transaction.timeout.ms: <longer than interval, checkpoint and outage together>",
                    "# on the brokers: transaction.max.timeout.ms at least as long",
                    "execution.checkpointing.interval: 1m",
                    "# what was in the aborted transaction is lost: resume from the checkpoint before it",
                ),
                holdfast=("# sinks of holdfast stage files and publish them; they hold no transaction open",),
            ),
            for_variant("expired", weight=60),
        ),
        Cause(
            "fenced",
            "another writer uses the same transactional id: a second deployment, or an attempt that was not yet gone",
            Fix(
                flink=(
                    "sink.transactional-id-prefix: <of this job alone>",
                    "# stop the other deployment; each job needs a prefix of its own",
                ),
                holdfast=('on_conflict="refuse"', "# the second deployment is refused at its start"),
            ),
            for_variant("fenced", weight=58),
        ),
        Cause(
            "unknown",
            "an earlier request of the same transaction failed; the first such error in the log shows why",
            Fix(flink=("# the first ProducerFenced, InvalidTxnState or TimeoutException in the log shows why",)),
            always(),
        ),
    ),
    references=("Flink docs: Kafka connector, exactly-once", "FLINK-23839"),
)
