"""Logs for the doctor: read on Spark, examined, kept, followed."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.output import standard_output_kept_clean
from holdfast.cli.requirements import require_java_and_packages
from holdfast.cli.run import add_spark_arguments
from holdfast.doctor.finding import Finding
from holdfast.doctor.reports.document import LogsRead, Report
from holdfast.errors import HoldfastError, InvalidSettings, NotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.doctor.pipeline import Examination
    from holdfast.doctor.sightings import Sighting

_PACKAGES = {"pyspark": "doctor", "pyarrow": "doctor", "numpy": "doctor"}
_LOOK = "2 seconds"


def examined(logs: Sequence[str], keep: str | None, master: str | None) -> Report:
    require_java_and_packages("read logs", _PACKAGES)
    from holdfast.doctor.diagnosis import diagnose
    from holdfast.doctor.inputs import STANDARD_INPUT, resolve, spooled
    from holdfast.doctor.pipeline import examine
    from holdfast.doctor.rules import RULES

    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as scratch:
        named = [
            spooled(sys.stdin.buffer, Path(scratch)) if name == STANDARD_INPUT else name for name in dict.fromkeys(logs)
        ]
        inputs = resolve(named)
        _require_free(keep)
        with standard_output_kept_clean(), _spark(master) as spark:
            found = examine(spark, inputs, RULES)
            _require_something(found)
            if keep is not None:
                _keep(spark, found, keep)
    return Report(findings=diagnose(found.sightings), logs=_read(found))


def followed(logs: Sequence[str], master: str | None, tell: Callable[[Finding], None]) -> bool:
    """Tells of each finding when it is new, and when it gets worse, until somebody ends it. Was anything critical?"""
    if len(logs) != 1 or not Path(logs[0]).is_dir():
        raise InvalidSettings.of("LOGS", " ".join(logs), "must be one directory when it is followed")
    require_java_and_packages("read logs", _PACKAGES)
    from holdfast.doctor.following import follow
    from holdfast.doctor.rules import RULES

    news = News(tell)
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as scratch, _spark(master) as spark:
        query = follow(spark, os.path.abspath(logs[0]), RULES, Path(scratch), _LOOK, news.take)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
    return news.critical


class News:
    """Findings as more and more is seen: each is told once, and again when it becomes critical."""

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        self._tell = tell
        self._seen: list[Sighting] = []
        self._told: dict[tuple[str, str | None, str], str] = {}

    @property
    def critical(self) -> bool:
        return "critical" in self._told.values()

    def take(self, sightings: "Sequence[Sighting]") -> None:
        from holdfast.doctor.diagnosis import diagnose
        from holdfast.doctor.sightings import merged

        self._seen = merged([*self._seen, *sightings])
        for finding in diagnose(self._seen):
            key = (finding.code, finding.job, finding.cause)
            known = self._told.get(key)
            if known is None or (known != "critical" and finding.severity == "critical"):
                self._tell(finding)
                self._told[key] = finding.severity


@contextmanager
def _spark(master: str | None) -> "Iterator[SparkSession]":
    """A session that is there already stays; one that is made ends with the command."""
    from pyspark.sql import SparkSession

    from holdfast.spark.session import session_for

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    add_spark_arguments(os.environ, master, ())
    made = session_for("doctor")
    made.sparkContext.setLogLevel("ERROR")
    try:
        yield made
    finally:
        made.stop()


def _keep(spark: "SparkSession", found: "Examination", keep: str) -> None:
    from holdfast.doctor.table import table

    try:
        table(spark, found.first_lines).write.parquet(keep)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise HoldfastError(f"could not keep the events in {keep}: {reason}", hint="another directory") from None


def _require_free(keep: str | None) -> None:
    if keep is not None and "://" not in keep and Path(keep).exists():
        raise InvalidSettings.of("keep", keep, "must not exist yet", hint="another directory, or remove this one")


def _require_something(found: "Examination") -> None:
    """An answer of "nothing found" must mean that there were logs."""
    if found.sightings or found.events:
        return
    if found.binary:
        why = f"{', '.join(found.binary[:3])} {'is' if len(found.binary) == 1 else 'are'} no text"
    elif found.troubles:
        why = found.troubles[0]
    elif found.lines == 0:
        why = "they are empty" if found.files != 1 else "it is empty"
    else:
        why = f"none of {found.lines} lines begins as a line of a log does"
    raise NotFound(
        f"could not find anything to examine in the logs: {why}", hint="logs of Flink or Spark, as they were written"
    )


def _read(found: "Examination") -> LogsRead:
    return LogsRead(
        files=found.files,
        bytes=found.bytes,
        lines=found.lines,
        events=found.events,
        unparsed=found.unparsed,
        skipped=(*(f"{path} is no text" for path in found.binary), *found.troubles),
    )
