"""Logs that the user names: examined in this process or on Spark, kept as a table, or followed."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.output import print_message, standard_output_kept_clean
from holdfast.cli.requirements import require_java_and_packages
from holdfast.cli.run import add_spark_arguments
from holdfast.doctor.reports.document import LogsRead, Report
from holdfast.errors import HoldfastError, InvalidSettings, NotFound
from holdfast.finding import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.doctor.matching.examination import Examination
    from holdfast.doctor.matching.sightings import Sighting
    from holdfast.doctor.reading.inputs import Inputs

_STANDARD_INPUT = "standard input"
_EVERY = "2 seconds"
_PATIENCE_S = 1.0
_PLAIN_BYTES = 4 * 2**20
"""Up to here, the faster engine would take longer to import than it saves."""
_PACKAGES = dict.fromkeys(("pyspark", "pyarrow", "pandas", "numpy", "hyperscan"), "doctor")


def examined(names: Sequence[str], keep: str | None, master: str | None) -> Report:
    """`keep`: a directory that does not exist yet, for the table of all events as Parquet."""
    from holdfast.doctor.diagnosis.diagnosing import diagnose
    from holdfast.doctor.matching.examination import renamed
    from holdfast.doctor.reading.inputs import STANDARD_INPUT, resolve, spooled

    _require_free(keep)
    with ExitStack() as stack:
        places = {}
        if STANDARD_INPUT in names:
            _require_open_input()
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-doctor-"))
            places = {spooled(sys.stdin.buffer, Path(directory)): _STANDARD_INPUT}
        inputs = resolve([*(name for name in names if name != STANDARD_INPUT), *places])
        if not inputs.files and not inputs.urls:
            raise NotFound(f"No logs to read: {' '.join(names)} has no files", hint="name files, directories or globs")
        found = _examined(inputs, keep, master)
        _require_something(found, places)
        return Report(findings=diagnose(renamed(found, places).sightings), logs=_read(found))


def _require_open_input() -> None:
    if sys.stdin is None or getattr(sys.stdin, "closed", False):
        raise NotFound("No logs to read: standard input is closed", hint="pipe something in, or name files")


def _examined(inputs: Inputs, keep: str | None, master: str | None) -> Examination:
    """In this process what is small, and what Spark cannot be asked for; everything else on Spark."""
    from holdfast.doctor.reading.inputs import is_small, weight

    if inputs.urls or keep is not None or master is not None:
        require_java_and_packages("read logs", _PACKAGES)
        return _on_spark(inputs, keep, master)
    if is_small(inputs):
        return _here(inputs, weight(inputs))
    try:
        require_java_and_packages("read logs", _PACKAGES)
    except HoldfastError as error:
        print_message(f"Reading {weight(inputs) // 2**20:,} MB in this process, because Spark cannot: {error}")
        return _here(inputs, weight(inputs))
    return _on_spark(inputs, keep, master)


def _here(inputs: Inputs, size: int) -> Examination:
    from holdfast.doctor.findings.rules import RULES
    from holdfast.doctor.matching.engines import PLAIN, fast
    from holdfast.doctor.matching.examination import examine_here

    return examine_here(inputs.files, RULES, PLAIN if size <= _PLAIN_BYTES else fast())


def followed(names: Sequence[str], master: str | None, report: Callable[[Finding], None]) -> bool:
    """Reports findings as they appear, until it is interrupted. True when one of them was critical."""
    if len(names) != 1 or not Path(names[0]).is_dir():
        raise NotFound(f"Following {' '.join(names)} failed: it is not a local directory", hint="one local directory")
    require_java_and_packages("read logs", _PACKAGES)
    from holdfast.doctor.findings.rules import RULES
    from holdfast.doctor.spark.following import follow

    news = News(report)
    with ExitStack() as stack:
        checkpoint = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-doctor-"))
        spark = _session(stack, master)
        query = follow(spark, os.path.abspath(names[0]), RULES, Path(checkpoint), _EVERY, news.take)
        print_message(f"Following {names[0]}; Ctrl-C ends it.")
        try:
            with interrupted() as asked:
                while query.isActive and not asked.wait(_PATIENCE_S):
                    pass
        finally:
            query.stop()
        if (failure := query.exception()) is not None:
            reason = str(failure).strip().partition("\n")[0]
            raise HoldfastError(
                f"Following {names[0]} failed: {reason}", hint="start it again: it reads from the beginning"
            )
    print_message("Ended.")
    return news.critical


@contextmanager
def interrupted() -> Iterator[threading.Event]:
    """Set by Ctrl-C. An exception during a call to the JVM would be logged by PySpark."""
    asked = threading.Event()
    previous = signal.signal(signal.SIGINT, lambda number, frame: asked.set())
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)


class News:
    """Findings as more logs are read: each is reported once, and again when it becomes critical."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self._report = report
        self._seen: list[Sighting] = []
        self._reported: dict[tuple[str, str | None, str], str] = {}

    @property
    def critical(self) -> bool:
        return "critical" in self._reported.values()

    def take(self, sightings: Sequence[Sighting]) -> None:
        from holdfast.doctor.diagnosis.diagnosing import diagnose
        from holdfast.doctor.matching.sightings import merged

        self._seen = merged([*self._seen, *sightings])
        for finding in diagnose(self._seen):
            key = (finding.code, finding.job, finding.cause)
            known = self._reported.get(key)
            if known is None or (known != "critical" and finding.severity == "critical"):
                self._report(finding)
                self._reported[key] = finding.severity


def _on_spark(inputs: Inputs, keep: str | None, master: str | None) -> Examination:
    from holdfast.doctor.findings.rules import RULES
    from holdfast.doctor.spark.pipeline import examine

    with ExitStack() as stack:
        spark = _session(stack, master)
        found = examine(spark, inputs, RULES)
        if keep is not None and found.events:
            _keep(spark, found, keep)
    return found


def _session(stack: ExitStack, master: str | None) -> SparkSession:
    from holdfast.doctor.spark.session import doctors_session

    add_spark_arguments(os.environ, master, ())
    with standard_output_kept_clean():
        return stack.enter_context(doctors_session())


def _keep(spark: SparkSession, found: Examination, keep: str) -> None:
    from holdfast.doctor.spark.table import table

    try:
        table(spark, found.first_lines).write.parquet(keep)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise HoldfastError(f"could not keep the events in {keep}: {reason}", hint="choose another directory") from None
    print_message(f"kept {found.events:,} events in {keep}")


def _require_free(keep: str | None) -> None:
    if keep is not None and "://" not in keep and Path(keep).exists():
        raise InvalidSettings.of("--keep", keep, "it must not exist yet", hint="choose another directory")


def _require_something(found: Examination, places: dict[str, str]) -> None:
    """The result "nothing found" must mean that there were logs."""
    if found.sightings or found.events or found.exceptions:
        return
    binary = [places.get(path, path) for path in found.binary]
    if binary:
        why = f"{', '.join(binary[:3])} {'is' if len(binary) == 1 else 'are'} not text"
    elif found.troubles:
        why = found.troubles[0]
    elif found.lines == 0:
        why = "the input is empty"
    else:
        why = f"of {found.lines:,} lines, none begins like a line of a log, and there is no exception among them"
    raise NotFound(
        f"could not find anything to examine: {why}",
        hint="logs as Flink or Spark wrote them, a trace with its `Caused by` lines, or the words of an error",
    )


def _version(found: Examination) -> str | None:
    """Of the engine, if the logs name exactly one."""
    from holdfast.doctor.matching.case import CONTEXT, mentioned

    named = mentioned((each for each in found.sightings if each.key.code == CONTEXT + "version"), "version")
    return named.pop() if len(named) == 1 else None


def _read(found: Examination) -> LogsRead:
    return LogsRead(
        files=found.files,
        bytes=found.bytes,
        lines=found.lines,
        events=found.events,
        unparsed=found.unparsed,
        engines=found.engines,
        version=_version(found),
        exceptions=found.exceptions,
        thrown=found.thrown,
        skipped=(*(f"{path} is not text" for path in found.binary), *found.troubles),
    )
