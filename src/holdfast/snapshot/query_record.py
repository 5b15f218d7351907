"""What the query of a work directory is: read from Spark's files and from holdfast's own record beside them.

Spark keeps no version, and of its sources only the offsets. So each run leaves `query/<n>.json`: the facts of the query
that runs batch n and those after it. It travels with the directory, into checkpoints and out of them.
"""

import os
from pathlib import Path

import msgspec

from holdfast.checkpoint import query_facts, spark_files
from holdfast.checkpoint.query_facts import FORMAT, Operator, QueryFacts, Source
from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.identifiers import BatchId
from holdfast.job_log import log

_FOLDER = "query"


def held_facts(directory: Path, barrier: BatchId) -> QueryFacts:
    """The facts as of the committed batch `barrier`. What cannot be read or understood is left out."""
    record = _read_record(directory, barrier) or QueryFacts()
    conf = dict(record.conf)
    sources = record.sources
    try:
        offsets = spark_files.read_offsets((directory / "offsets" / str(barrier)).read_bytes())
        conf |= offsets.conf
        sources = _completed(sources, offsets.sources)
        conf[FORMAT] = spark_files.state_format_of((directory / "commits" / str(barrier)).read_bytes())
    except (OSError, NotUnderstood) as error:
        log.debug("preflight: %s", error)
    return msgspec.structs.replace(
        record, conf=conf, sources=sources, operators=_recognised(read_operators(directory), record.operators)
    )


def read_operators(directory: Path) -> tuple[Operator, ...] | None:
    """The stateful operators, by number, as Spark describes them below `state/`; None when that cannot be told."""
    try:
        folders = sorted((int(path.name), path) for path in (directory / "state").iterdir() if path.name.isdigit())
    except FileNotFoundError:
        return ()
    try:
        return tuple(
            spark_files.read_operator(
                f"state/{path.name}", _operator_metadata(path), lambda name: (directory / name).read_bytes()
            )
            for _, path in folders
        )
    except (OSError, NotUnderstood) as error:
        log.debug("preflight: %s", error)
        return None


def write_record(directory: Path, next_batch: BatchId, facts: QueryFacts) -> None:
    """Say that `next_batch` and those after it are run by this query; nothing, when the last record says it already."""
    if _read_record(directory, next_batch) == facts:
        return
    folder = directory / _FOLDER
    folder.mkdir(exist_ok=True)
    # Replaced, not rewritten: the file may be linked into another run's directory.
    temporary = folder / f".{next_batch}.json"
    temporary.write_bytes(query_facts.encode(facts))
    os.replace(temporary, folder / f"{next_batch}.json")


def _read_record(directory: Path, batch: BatchId) -> QueryFacts | None:
    try:
        numbers = [int(path.stem) for path in (directory / _FOLDER).glob("*.json") if path.stem.isdigit()]
        newest = max((number for number in numbers if number <= batch), default=None)
        return None if newest is None else query_facts.decode((directory / _FOLDER / f"{newest}.json").read_bytes())
    except OSError as error:
        log.debug("preflight: %s", error)
        return None


def _operator_metadata(folder: Path) -> bytes:
    """The newest of the operator's descriptions."""
    versions = [path for path in (folder / "_metadata" / "v2").glob("*") if path.name.isdigit()]
    newest = max(versions, key=lambda path: int(path.name), default=folder / "_metadata" / "metadata")
    return newest.read_bytes()


def _completed(recorded: tuple[Source, ...] | None, found: tuple[Source, ...]) -> tuple[Source, ...]:
    """The recorded sources, when they are as many as Spark has offsets for; the offsets are the truth."""
    return recorded if recorded is not None and len(recorded) == len(found) else found


def _recognised(
    found: tuple[Operator, ...] | None, recorded: tuple[Operator, ...] | None
) -> tuple[Operator, ...] | None:
    """The recorded operators, where Spark's files agree in all that Spark looks at.

    Spark writes a schema once, and keeps the first names of columns when later queries have others.
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
