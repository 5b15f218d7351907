"""Whether a query may resume from a checkpoint. Pure: facts about the checkpoint and the query in, differences out.

A difference is refused when Spark would fail on it, or would silently compute something wrong: Spark finds offsets by a
source's position, and state by an operator's number and the types of its columns. Other differences are warnings.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from holdfast.checkpoint.difference import Difference, refuse, warn
from holdfast.checkpoint.query_facts import CHANGELOG, FORMAT, PROVIDER, SHUFFLE_PARTITIONS, QueryFacts, Source
from holdfast.checkpoint.state_compatibility import operator_differences
from holdfast.showing import masked

_KEPT_FROM_CHECKPOINT = {
    SHUFFLE_PARTITIONS: "shuffle partitions",
    PROVIDER: "state store provider",
    "spark.sql.streaming.stateStore.encodingFormat": "state encoding",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": "RocksDB format",
    "spark.sql.streaming.stateStore.compression.codec": "state compression",
    "spark.sql.streaming.aggregation.stateFormatVersion": "aggregation state format",
    "spark.sql.streaming.join.stateFormatVersion": "join state format",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "group state format",
    "spark.sql.streaming.stateStore.rowChecksum.enabled": "state row checksums",
}
"""Settings that Spark takes from the newest offsets, regardless of the session's configuration."""

COMPARED_SETTINGS = (*_KEPT_FROM_CHECKPOINT, CHANGELOG, FORMAT)

_FORMAT_KEPT_SINCE = (4, 3)
"""From this Spark version on, the newest commit determines the state checkpoint format."""


def differences(held: QueryFacts, coming: QueryFacts) -> tuple[Difference, ...]:
    """Refusals first. Empty for the same query with the same settings."""
    found = [
        *_version(held, coming),
        *_sources(held, coming),
        *operator_differences(held, coming),
        *_output_mode(held, coming),
        *_settings(held, coming),
    ]
    return tuple(sorted(found, key=lambda difference: not difference.refused))


def as_it_will_run(held: QueryFacts, coming: QueryFacts) -> QueryFacts:
    """`coming` with the settings that Spark takes from the checkpoint."""
    kept = {key: held.conf[key] for key in (*_KEPT_FROM_CHECKPOINT, FORMAT) if key in held.conf}
    return msgspec.structs.replace(coming, conf=coming.conf | kept)


def feature_version(version: str | None) -> tuple[int, ...] | None:
    """(4, 3) for "4.3.0"."""
    parts = (version or "").split(".")[:2]
    return tuple(map(int, parts)) if len(parts) == 2 and all(part.isdigit() for part in parts) else None


def _version(held: QueryFacts, coming: QueryFacts) -> Iterator[Difference]:
    old, new = feature_version(held.spark), feature_version(coming.spark)
    if old is None or new is None or old == new:
        return
    if new < old:
        yield refuse(
            "Spark version",
            held.spark,
            coming.spark,
            "an older Spark may not be able to read what a newer one wrote",
            f"run it with Spark {old[0]}.{old[1]} or newer",
        )
    else:
        yield warn(
            "Spark version", held.spark, coming.spark, "from now on Spark may write what the older version cannot read"
        )


# --- sources ---


def _sources(held: QueryFacts, coming: QueryFacts) -> Iterator[Difference]:
    if held.sources is None or coming.sources is None:
        return
    if all(source.name for source in (*held.sources, *coming.sources)):
        yield from _named_sources(held.sources, coming.sources)
        return
    if len(held.sources) != len(coming.sources):
        yield refuse(
            "sources",
            _listed(held.sources),
            _listed(coming.sources),
            "Spark finds offsets by a source's position: with one more or less it fails, or uses those of another",
            "keep the sources as they were; a changed set of sources needs a new job name and a sink of its own",
        )
    elif _only_reordered(held.sources, coming.sources):
        yield refuse(
            "sources",
            _listed(held.sources),
            _listed(coming.sources),
            "the same sources in another order: Spark would read each with the offsets of another",
            "restore the order of the checkpoint",
        )
    else:
        for number, (old, new) in enumerate(zip(held.sources, coming.sources, strict=True)):
            yield from _source(f"source {number}", old, new)


def _named_sources(held: tuple[Source, ...], coming: tuple[Source, ...]) -> Iterator[Difference]:
    before, after = ({source.name: source for source in side} for side in (held, coming))
    for name in sorted({*before, *after}, key=str):
        if name in before and name in after:
            yield from _source(f"source {name}", before[name], after[name])
        elif name in after:
            yield warn(f"source {name}", None, str(after[name]), "a new name: the source is read from its beginning")
        else:
            yield warn(
                f"source {name}", str(before[name]), None, "the source is no longer read; its offsets are dropped"
            )


def _source(title: str, old: Source, new: Source) -> Iterator[Difference]:
    if old.kind != new.kind and old.kind and new.kind:
        yield refuse(
            title,
            str(old),
            str(new),
            "one kind of source cannot use the offsets of another",
            "use the same kind of source",
        )
    elif old.place and new.place and masked(old.place) != masked(new.place):
        yield refuse(
            title,
            str(old),
            str(new),
            "Spark would use the offsets of the other place: input would be skipped or read twice",
            "read from the same place; or, if the same data was moved, --force",
        )
    elif old.servers != new.servers and old.servers and new.servers:
        yield warn(title, old.servers, new.servers, "the offsets are used as they are: it must be the same cluster")


def _only_reordered(held: tuple[Source, ...], coming: tuple[Source, ...]) -> bool:
    before, after = ([(source.kind, source.place) for source in side] for side in (held, coming))
    return before != after and Counter(before) == Counter(after)


def _listed(sources: tuple[Source, ...]) -> str:
    return "; ".join(map(str, sources)) or "none"


# --- settings ---


def _output_mode(held: QueryFacts, coming: QueryFacts) -> Iterator[Difference]:
    old, new = held.output_mode, coming.output_mode
    if old and new and old.lower() != new.lower():
        yield warn("output mode", old, new, "the state is kept; output that was written before is not written again")


def _settings(held: QueryFacts, coming: QueryFacts) -> Iterator[Difference]:
    if not held.operators:
        return  # these only matter with state
    for key, title in _KEPT_FROM_CHECKPOINT.items():
        old, new = held.conf.get(key), coming.conf.get(key)
        if old is not None and new is not None and old.lower() != new.lower():
            yield warn(title, _short(old), _short(new), "no effect: Spark keeps the checkpoint's value")
    yield from _state_format(held, coming)
    old, new = held.conf.get(CHANGELOG), coming.conf.get(CHANGELOG)
    if old and new and old.lower() != new.lower():
        yield warn("changelog", old, new, "takes effect from the next batch; Spark reads both kinds")


def _state_format(held: QueryFacts, coming: QueryFacts) -> Iterator[Difference]:
    old, new = held.conf.get(FORMAT), coming.conf.get(FORMAT)
    if old is None or new is None or old == new:
        return
    if (feature_version(coming.spark) or (0,)) >= _FORMAT_KEPT_SINCE:
        yield warn("state checkpoint format", old, new, "no effect: Spark keeps the checkpoint's format")
    else:
        yield refuse(
            "state checkpoint format",
            old,
            new,
            f"Spark {coming.spark} does not find the files of the other format",
            f"set {FORMAT}={old}",
        )


def _short(value: str) -> str:
    """A class without its package."""
    return value.rpartition(".")[2] if value.startswith("org.") else value
