"""Something could not be turned into bytes, or back: a function, a record or a value of the state."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "serializer-failed"
_VARIANTS = (
    ("generic", re.compile(r"Generic types have been disabled")),
    ("not-serializable", re.compile(r"NotSerializableException|[Tt]ask not serializable|are not serializable")),
    ("kryo", re.compile(r"KryoException")),
)
_OF_ANOTHER_FINDING = re.compile(
    r"No space left|Unable to find class|ClassNotFound|StateMigrationException|OutOfMemory|Could not restore"
    r"|StateBackend for restore|creating StreamOperatorStateContext"
)
"""What was written by another version of the program, or cannot be read back at all."""


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if _OF_ANOTHER_FINDING.search(text):
        return None
    for name, pattern in _VARIANTS:
        if pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name)
    return None


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a function, a record or state could not be serialized",
    rules=(
        Rule(
            CODE,
            (
                "NotSerializableException",
                "ask not serializable",
                "functions are not serializable",
                "Generic types have been disabled",
                "KryoException",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "not-serializable",
            "a function refers to something that exists only in the driver or the client, such as a connection, a "
            "client, a context or the object around it; the serialization stack names it",
            Fix(
                flink=(
                    "# make the field transient and create it in open()",
                    "# copy what the function needs from the object around it into local variables first",
                ),
                spark=(
                    "# create connections and clients within foreachPartition or foreachBatch",
                    "# copy what the function needs from the object around it into local values first",
                    "# with DStreams and checkpoint(), all that foreachRDD refers to is written, too",
                ),
            ),
            for_variant("not-serializable", weight=55),
        ),
        Cause(
            "generic",
            "the type has no serializer of Flink's own, and the job forbids the general one (Kryo)",
            Fix(
                flink=(
                    "pipeline.generic-types: true",
                    "# or make it a POJO, or name its type: .returns(...), TypeInformation",
                )
            ),
            for_variant("generic", weight=60),
        ),
        Cause(
            "kryo",
            "Kryo cannot rebuild the value: its class has no usable constructor or holds what Kryo cannot copy (its "
            "`Serialization trace` names the field), or reader and writer have different versions or registrations",
            Fix(
                flink=(
                    "# give the class that the trace names a serializer: pipeline.default-kryo-serializers",
                    "# or make it a POJO; the job and the cluster must have the same version of its library",
                ),
                spark=(
                    "spark.serializer=org.apache.spark.serializer.JavaSerializer",
                    "# or register a serializer for the class that the trace names: spark.kryo.registrator",
                ),
            ),
            always(40),
        ),
    ),
    references=("Flink docs: Data Types & Serialization", "Spark docs: Tuning, data serialization"),
)
