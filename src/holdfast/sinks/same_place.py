"""Checks that executors, which write the rows, and the driver, which publishes them, use the same directory."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import InvalidSettings
from holdfast.job_log import log
from holdfast.sinks.asking_executors import Question, ask_executors, is_cluster
from holdfast.storage.unique import unique_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S = 60.0


class SamePlace:
    """Checked once per application: each executor reads what the driver wrote, and the driver finds what each of them
    wrote. Executors that start later are not checked; for them the row counts of each batch are.
    """

    def __init__(self, place: Path, shown: str) -> None:
        self._place = place
        self._shown = shown
        self._asked: str | None = None

    def require(self, spark: SparkSession | None) -> None:
        """Leaves no trace, whatever the executors answer."""
        if spark is None or not is_cluster(str(spark.sparkContext.master)):
            return
        if self._asked == spark.sparkContext.applicationId:
            return
        blind = _asked(spark, self._place, self._shown)
        if blind:
            raise InvalidSettings.of(
                "sink",
                self._shown,
                f"executors on {', '.join(sorted(blind))} have another directory there "
                f"({'; '.join(sorted(set(blind.values())))}): what they write would be lost",
                hint="name a directory that the driver and all executors have mounted at the same path: "
                f"--sink {self._shown.partition(':')[0]}:/mnt/shared/orders",
            )
        self._asked = str(spark.sparkContext.applicationId)


def _asked(spark: SparkSession, place: Path, shown: str) -> dict[str, str]:
    """Why an executor does not use the driver's directory, by host."""
    made = not place.exists()
    place.mkdir(parents=True, exist_ok=True)
    token = place / f"_holdfast-probe-{unique_name()}"
    token.write_text(token.name)
    try:
        answers = ask_executors(spark, _visitor(str(token)), time.monotonic() + _PATIENCE_S)  # noqa: TID251
        blind = {host: why for host, _, why in answers if why is not None}
        for host, executor, _ in answers:
            if host not in blind and not _answer(token, host, executor).exists():
                blind[host] = "what it writes there is not here"
    finally:
        for path in place.glob(f"{token.name}*"):
            with suppress(OSError):
                path.unlink()
        if made:
            with suppress(OSError):
                place.rmdir()
    if not answers:
        log.warning("no executor answered within %.0f s whether it sees %s", _PATIENCE_S, shown)
    return blind


def _answer(token: Path, host: str, executor: int) -> Path:
    return token.with_name(f"{token.name}-{host}-{executor}")


def _visitor(token: str) -> Question:
    """A function that does not depend on this package: it must run on executors without holdfast."""

    def visit(_: int) -> tuple[str, int, str | None]:
        import os
        import socket
        import time

        host, executor, why = socket.gethostname(), os.getppid(), None
        try:
            with open(token) as file:
                if file.read() != os.path.basename(token):
                    why = "it reads other bytes than the driver wrote"
            with open(f"{token}-{host}-{executor}", "w") as file:
                file.write(host)
        except OSError as error:
            why = error.strerror or str(error)
        time.sleep(0.1)  # noqa: TID251
        return host, executor, why

    return visit
