"""Lets Spark plan a streaming query without running it, and reads which state it would keep.

Spark describes a query's stateful operators while it plans the first batch, in files below the checkpoint. So Spark's
own planner plans the query here as the first batch of a scratch directory, and the files are read from there. No source
is opened, no data is read, and the real directory is not changed.

This uses Spark classes that are not public. Where one is missing, it raises `PlanningUnknown`, and the operators are
not compared before the start; Spark's own checks remain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame

from holdfast.checkpoint.query_facts import Operator
from holdfast.workdir.factory import work_directory
from holdfast.workdir.query_record import read_operators
from holdfast.workdir.unfinished import brief_directory

_STREAMING = "org.apache.spark.sql.execution.streaming."
_PACKAGES = ("runtime.", "")
"""Where IncrementalExecution is: since Spark 4.1, and earlier."""
_STATEFUL = re.compile(
    r"(SessionWindow)?StateStoreSaveExec|StatefulStreamlineAggregateExec|StreamingSymmetricHashJoinExec"
    r"|StreamingDeduplicate(WithinWatermark)?Exec|StreamingGlobalLimitExec|FlatMapGroups(InPandas)?WithStateExec"
    r"|TransformWithState(InPySpark)?Exec"
)
_NUMBERING = re.compile(r"#\d+L?(?:-T\d+ms)?")
_NUMBER = re.compile(r"\b\d+\b")
_READABLE = 100
"""A longer expression, such as a time window, is identified by the numbers in it."""
_NEVER_TWICE_THE_SAME = re.compile(r"lambda|rand|uuid|shuffle\(", re.IGNORECASE)


class PlanningUnknown(Exception):
    """This version of Spark lacks the expected classes."""


def planned_operators(frame: DataFrame, output_mode: str, conf: Mapping[str, str]) -> tuple[Operator, ...]:
    """The stateful operators that `frame` would have, under the settings that its checkpoint keeps.

    Raises whatever Spark raises when the query cannot be planned.
    """
    # Spark gets the state of such an operator from its own code, which needs a real checkpoint: only names are
    # compared.
    described = "TransformWithState" not in frame._jdf.queryExecution().analyzed().toString()
    with brief_directory("holdfast-preflight-") as scratch:
        plan = _planned(frame, output_mode, conf, scratch / "state", first_batch=described).executedPlan()
        found = read_operators(work_directory(str(scratch))) if described else None
    operators = {operator.id: operator for operator in _operators(plan)}
    if found is None:
        return tuple(operators[id] for id in sorted(operators))
    if operators and not found:
        raise PlanningUnknown("this version of Spark does not describe stateful operators")  # before 4.0
    return tuple(msgspec.structs.replace(operator, computes=operators[operator.id].computes) for operator in found)


def _planned(frame: DataFrame, output_mode: str, conf: Mapping[str, str], state: Path, *, first_batch: bool) -> Any:
    """Spark's IncrementalExecution. Its parameters differ between versions, so they are filled in by type."""
    jvm = frame.sparkSession._jvm
    execution = frame._jdf.queryExecution()
    session = frame.sparkSession._jsparkSession.cloneSession()
    for key, value in conf.items():
        with suppress(Exception):
            session.conf().set(key, value)
    known = {
        "SparkSession": session,
        "LogicalPlan": execution.analyzed(),
        "OutputMode": output_mode_of(frame, output_mode),
        "String": state.as_uri(),
        "long": 0,
        "Option": jvm.scala.Option.empty(),
        "Enumeration$Value": execution.mode(),
    }
    constructor = _constructor(jvm)
    flags = iter([first_batch])  # a run's first batch is when Spark writes the descriptions; the other flags are off
    arguments = []
    for parameter in constructor.getParameterTypes():
        name = parameter.getName()
        short = name.rpartition(".")[2]
        if short in known:
            arguments.append(known[short])
        elif short == "boolean":
            arguments.append(next(flags, False))
        else:
            arguments.append(_made(jvm, name, short))
    array = frame.sparkSession.sparkContext._gateway.new_array(jvm.java.lang.Object, len(arguments))
    for position, argument in enumerate(arguments):
        array[position] = argument
    return constructor.newInstance(array)


def _made(jvm: Any, name: str, short: str) -> Any:
    if short == "UUID":
        return jvm.java.util.UUID.randomUUID()
    if name == "scala.collection.mutable.Map":
        return jvm.scala.collection.mutable.HashMap()
    if short == "WatermarkPropagator":
        return singleton(jvm, name).noop()
    if short in ("OffsetSeqMetadata", "OffsetSeqMetadataBase"):
        no_settings = singleton(jvm, "scala.collection.immutable.Map").empty()
        return singleton(jvm, name.removesuffix("Base")).apply(0, 0, no_settings)
    raise PlanningUnknown(f"IncrementalExecution has an unknown parameter of type {name}")


def _constructor(jvm: Any) -> Any:
    for package in _PACKAGES:
        with suppress(Exception):
            found = _class(jvm, f"{_STREAMING}{package}IncrementalExecution")
            return max(found.getConstructors(), key=lambda constructor: len(constructor.getParameterTypes()))
    raise PlanningUnknown("Spark has no class IncrementalExecution")


def _class(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name, True, jvm.java.lang.Thread.currentThread().getContextClassLoader())


def singleton(jvm: Any, name: str) -> Any:
    """A Scala object."""
    return _class(jvm, f"{name}$").getField("MODULE$").get(None)


# --- what the operators compute ---


def _operators(plan: Any) -> Iterator[Operator]:
    """The stateful operators of a physical plan, with names and computations, without their state schema."""
    for node in nodes(plan):
        kind = node.getClass().getSimpleName()
        if _STATEFUL.fullmatch(kind):
            yield Operator(
                int(node.stateInfo().get().operatorId()), str(node.shortName()), computes=_computes(kind, node)
            )


def _computes(kind: str, node: Any) -> tuple[str, ...] | None:
    if kind == "StateStoreSaveExec":
        texts = [*_keys(node), *map(_text, _aggregated_below(node))]
    elif kind == "StreamingSymmetricHashJoinExec":
        keys = [*sequence(node.leftKeys()), *sequence(node.rightKeys())]
        texts = [f"{node.joinType().toString()} join", *map(_text, keys), _text(node.condition().full())]
    else:
        return None
    return tuple(text for text in texts if text)


def _keys(save: Any) -> Iterator[str]:
    """The grouping keys. Spark computes a key that is not a plain column in a projection below, under a name."""
    named = {
        alias.exprId().id(): alias.child()
        for node in nodes(save.child())
        if node.getClass().getSimpleName() == "ProjectExec"
        for alias in sequence(node.projectList())
        if alias.getClass().getSimpleName() == "Alias"
    }
    for key in sequence(save.keyExpressions()):
        text = _text(named.get(key.exprId().id(), key))
        yield text if len(text) <= _READABLE else f"{key.name()}({', '.join(dict.fromkeys(_NUMBER.findall(text)))})"


def _aggregated_below(save: Any) -> list[Any]:
    """The functions whose buffers are saved: those of the nearest aggregation."""
    aggregation = next((node for node in nodes(save.child()) if "Aggregate" in node.getClass().getSimpleName()), None)
    if aggregation is None:
        return []
    return [expression.aggregateFunction() for expression in sequence(aggregation.aggregateExpressions())]


def nodes(plan: Any) -> Iterator[Any]:
    """The nodes of a logical or physical plan, from the root."""
    yield plan
    for child in sequence(plan.children()):
        yield from nodes(child)


def _text(expression: Any) -> str:
    """The text without the column ids that differ in each session; "" when the text is not stable."""
    text = _NUMBERING.sub("", str(expression.toString()))
    return "" if _NEVER_TWICE_THE_SAME.search(text) else text


def output_mode_of(frame: DataFrame, name: str) -> Any:
    """Spark's own value for "append", "update" or "complete"."""
    return getattr(frame.sparkSession._jvm.org.apache.spark.sql.streaming.OutputMode, name.capitalize())()


def sequence(scala: Any) -> list[Any]:
    return [scala.apply(position) for position in range(scala.size())]
