"""The facts about the query of a work directory, from Spark's files and from holdfast's own record beside them.

Spark records no version, and only the offsets of its sources. So each run writes `query/<n>.json`: the facts of the
query that runs batch n and those after it. It is part of the directory and of its checkpoints.
"""

import msgspec

from holdfast.checkpoint import query_facts, spark_files
from holdfast.checkpoint.query_facts import FORMAT, Operator, QueryFacts, Source
from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.workdir.interface import WorkDirectory

_FOLDER = "query"
_NOT_THERE = (FileNotFoundError, NotADirectoryError)


def held_facts(directory: WorkDirectory, barrier: BatchId) -> QueryFacts:
    """The facts as of the committed batch `barrier`. Omits what is missing or not understood. Raises `OSError` when a
    file cannot be read; then nothing is known about its content."""
    record = _read_record(directory, barrier) or QueryFacts()
    conf = dict(record.conf)
    sources = record.sources
    try:
        offsets = spark_files.read_offsets(directory.read(f"offsets/{barrier}"))
        conf |= offsets.conf
        sources = _completed(sources, offsets.sources)
        conf[FORMAT] = spark_files.state_format_of(directory.read(f"commits/{barrier}"))
    except (*_NOT_THERE, NotUnderstood) as error:
        log.debug("preflight: %s", error)
    return msgspec.structs.replace(
        record, conf=conf, sources=sources, operators=_recognised(read_operators(directory), record.operators)
    )


def read_operators(directory: WorkDirectory) -> tuple[Operator, ...] | None:
    """The stateful operators, by number, as Spark describes them below `state/`; None when unknown."""
    operators = sorted(int(name) for name in directory.names("state") if name.isdigit())
    try:
        return tuple(
            spark_files.read_operator(
                f"state/{operator}", _operator_metadata(directory, f"state/{operator}/_metadata"), directory.read
            )
            for operator in operators
        )
    except (*_NOT_THERE, NotUnderstood) as error:
        log.debug("preflight: %s", error)
        return None


def write_record(directory: WorkDirectory, next_batch: BatchId, facts: QueryFacts) -> None:
    """Record that this query runs `next_batch` and those after it, unless the last record already does."""
    if _read_record(directory, next_batch) == facts:
        return
    # Replaced, not rewritten: the file may be linked into another run's directory.
    directory.write_atomic(f"{_FOLDER}/{next_batch}.json", query_facts.encode(facts))


def _read_record(directory: WorkDirectory, batch: BatchId) -> QueryFacts | None:
    try:
        stems = [name.removesuffix(".json") for name in directory.names(_FOLDER) if name.endswith(".json")]
        newest = max((int(stem) for stem in stems if stem.isdigit() and int(stem) <= batch), default=None)
        return None if newest is None else query_facts.decode(directory.read(f"{_FOLDER}/{newest}.json"))
    except _NOT_THERE as error:
        log.debug("preflight: %s", error)
        return None


def _operator_metadata(directory: WorkDirectory, folder: str) -> bytes:
    """The newest of the operator's descriptions."""
    versions = [name for name in directory.names(f"{folder}/v2") if name.isdigit()]
    newest = f"v2/{max(versions, key=int)}" if versions else "metadata"
    return directory.read(f"{folder}/{newest}")


def _completed(recorded: tuple[Source, ...] | None, found: tuple[Source, ...]) -> tuple[Source, ...]:
    """The recorded sources if Spark has offsets for exactly as many; otherwise the sources from the offsets."""
    return recorded if recorded is not None and len(recorded) == len(found) else found


def _recognised(
    found: tuple[Operator, ...] | None, recorded: tuple[Operator, ...] | None
) -> tuple[Operator, ...] | None:
    """The recorded operators, if Spark's files agree with them in everything that Spark compares.

    Spark writes a schema once, and keeps the first column names when later queries use others.
    """
    known = {operator.id: operator for operator in recorded or ()}
    if found is None:
        return None
    return tuple(
        known[operator.id] if operator.id in known and _form(known[operator.id]) == _form(operator) else operator
        for operator in found
    )


def _form(operator: Operator) -> object:
    stores = [
        (store.name, [column.type for column in store.key], [column.type for column in store.value])
        for store in operator.stores or ()
    ]
    return operator.name, stores
