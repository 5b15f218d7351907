"""Facts about a query that its checkpoint depends on: the same for one that ran and for one that is to start.

An unknown fact is None. It is then not compared.
"""

import msgspec

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
DEDUPLICATION_ORDER = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str | None = None
    """Such as "files", "kafka", "rate"."""
    place: str | None = None
    """Path, topics or table that the offsets refer to."""
    servers: str | None = None
    """Servers that the place is on."""
    name: str | None = None
    """Given by the user, where Spark finds offsets by name and not by position."""

    def __str__(self) -> str:
        shown = " ".join(part for part in (self.kind or "unknown", self.place) if part)
        return f"{self.name}: {shown}" if self.name else shown


class Column(msgspec.Struct, frozen=True):
    """A column of a state row. The fields of a struct follow it, with dotted names."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


class StateStore(msgspec.Struct, frozen=True):
    name: str
    """Of the store and, where it has several, the column family in it."""
    key: tuple[Column, ...]
    value: tuple[Column, ...]


class Operator(msgspec.Struct, frozen=True, omit_defaults=True):
    id: int
    name: str
    """Spark's own short name."""
    stores: tuple[StateStore, ...] | None = None
    computes: tuple[str, ...] | None = None
    """What the state is computed from, as expressions without Spark's numbering. Spark itself does not store this."""


class KafkaFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which brokers a Kafka source had, by the names that they gave themselves."""

    cluster: str | None = None
    topics: dict[str, str] = {}
    """The id of each topic, which changes when a topic is deleted and created again."""


class QueryFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    spark: str | None = None
    output_mode: str | None = None
    conf: dict[str, str] = {}
    sources: tuple[Source, ...] | None = None
    """In the order in which Spark numbers them."""
    operators: tuple[Operator, ...] | None = None
    kafka: dict[str, KafkaFacts] = {}
    """By the name of the source in Spark's offsets. Not compared with the query, but with the brokers."""


def encode(facts: QueryFacts) -> bytes:
    return msgspec.json.encode(facts)


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(QueryFacts)


def decode(data: bytes) -> QueryFacts | None:
    """None for what cannot be parsed: it is then not compared."""
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError:
        return None


_FRIENDLY = {
    "stateStoreSave": "aggregation",
    "StatefulStreamlineAggregate": "aggregation",
    "sessionWindowStateStoreSaveExec": "session windows",
    "symmetricHashJoin": "stream-stream join",
    "dedupe": "dropDuplicates",
    "dedupeWithinWatermark": "dropDuplicatesWithinWatermark",
    "globalLimit": "limit",
}


def operator_title(name: str) -> str:
    return _FRIENDLY.get(name, name)


def described(facts: QueryFacts) -> dict[str, str]:
    """For display, in a manifest."""
    conf = facts.conf
    shown = {
        "spark": facts.spark,
        "output_mode": facts.output_mode,
        "state_store_provider": conf.get(PROVIDER),
        "state_format": conf.get(FORMAT),
        "state_encoding": conf.get(ENCODING),
        "changelog": conf.get(CHANGELOG),
        "shuffle_partitions": conf.get(SHUFFLE_PARTITIONS),
        "sources": None if facts.sources is None else "; ".join(map(str, facts.sources)),
        "operators": None if facts.operators is None else "; ".join(operator_title(o.name) for o in facts.operators),
    }
    return {name: value for name, value in shown.items() if value is not None}
