"""Logs that the user names, examined on Spark; the words about what could not be read."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.output import say, standard_output_kept_clean
from holdfast.errors import HoldfastError, InvalidSettings, NotFound

if TYPE_CHECKING:
    from holdfast.doctor.finding import Finding
    from holdfast.doctor.inputs import Inputs
    from holdfast.doctor.pipeline import Examination

_STANDARD_INPUT = "standard input"
_EVERY = "2 seconds"


def examined(names: Sequence[str], keep: Path | None = None) -> Examination:
    """`keep`: a directory that does not exist yet, for the table of all events as Parquet."""
    _require_extra()
    from holdfast.doctor.inputs import STANDARD_INPUT, resolve, spooled
    from holdfast.doctor.pipeline import renamed

    if keep is not None and keep.exists():
        raise InvalidSettings.of("--keep", str(keep), "it must not exist yet", hint="another directory")
    with ExitStack() as stack:
        places = {}
        if STANDARD_INPUT in names:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-doctor-"))
            places = {spooled(sys.stdin.buffer, Path(directory)): _STANDARD_INPUT}
        inputs = resolve([*(name for name in names if name != STANDARD_INPUT), *places])
        if not inputs.files and not inputs.urls:
            raise NotFound(f"No logs to read: {' '.join(names)} has no files", hint="name files, directories or globs")
        found = _on_spark(inputs, keep)
        return renamed(found, places)


def followed(directory: str, show: Callable[[Finding], None]) -> None:
    """Shows findings as they turn up, until it is interrupted."""
    _require_extra()
    from holdfast.doctor.diagnosis import diagnose
    from holdfast.doctor.following import follow
    from holdfast.doctor.rules import RULES
    from holdfast.doctor.session import doctors_session
    from holdfast.doctor.sightings import Sighting, merged

    if not Path(directory).is_dir():
        raise NotFound(f"Following {directory} failed: it is no directory here", hint="a local directory with logs")
    seen: list[Sighting] = []
    shown: set[tuple[str, str]] = set()

    def told(sightings: Sequence[Sighting]) -> None:
        seen[:] = merged([*seen, *sightings])
        for finding in diagnose(seen):
            if (finding.code, finding.cause) not in shown:
                shown.add((finding.code, finding.cause))
                show(finding)

    with standard_output_kept_clean():
        spark = doctors_session()
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as checkpoint:
        query = follow(spark, directory, RULES, Path(checkpoint), _EVERY, told)
        say(f"Following {directory}; Ctrl-C ends it.")
        try:
            query.awaitTermination()
        finally:
            query.stop()
            spark.stop()


def _on_spark(inputs: Inputs, keep: Path | None) -> Examination:
    from holdfast.doctor.pipeline import examine
    from holdfast.doctor.rules import RULES
    from holdfast.doctor.session import doctors_session
    from holdfast.doctor.table import table

    with standard_output_kept_clean():
        spark = doctors_session()
    try:
        found = examine(spark, inputs, RULES)
        if keep is not None:
            table(spark, found.first_lines).write.parquet(str(keep))
    finally:
        spark.stop()
    for path in found.binary:
        say(f"{path}: no text, passed over")
    for trouble in found.troubles:
        say(trouble)
    if found.files and len(found.binary) == found.files:
        raise InvalidSettings(
            "No logs to read: what was named is no text", hint="name log files, .gz and .zst included"
        )
    if keep is not None:
        say(f"kept {found.events:,} events in {keep}")
    return found


def _require_extra() -> None:
    try:
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise HoldfastError(
            f"could not load what reads logs: {error}", hint="pip install 'holdfast[doctor]'"
        ) from error
