"""The pipeline's driver: a separate process, started by the command that a user would type."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.cli.demo.places import JOB, Places

INTERVAL = "3s"

_NOT_INHERITED = (
    "HOLDFAST_HOME",
    "HOLDFAST_JOB",
    "MASTER",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "SPARK_REMOTE",
)
"""The user's own settings of Spark and of a home must not affect the demo."""


def shown_command(places: Places, *options: str) -> str:
    """The main part of the command, as a user would type it in the demo's directory."""
    given = ("--home", "home", "--sink", "delta:table", "--interval", INTERVAL, *options)
    return f"holdfast run {places.pipeline.name} {' '.join(given)}"


def spark_settings(places: Places) -> Iterator[tuple[str, str]]:
    yield "spark.ui.enabled", "false"
    yield "spark.log.level", "ERROR"
    yield "spark.sql.session.timeZone", "UTC"
    yield "spark.local.dir", str(places.scratch)
    # In a run of a minute the JVM's second compiler costs more than it gains, on two cores.
    yield "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    yield "spark.driver.host", "127.0.0.1"
    yield "spark.driver.bindAddress", "127.0.0.1"


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    return {**inherited, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def _command(places: Places, work: Path, options: Sequence[str]) -> Sequence[str]:
    return (
        *(sys.executable, "-m", "holdfast.cli", "run", str(places.pipeline)),
        *("--job", JOB, "--home", places.home_url, "--sink", f"delta:{places.table}", "--work", str(work)),
        *("--interval", INTERVAL, "--trigger", "1s", "--heartbeat", "1s", "--master", "local[2]"),
        *(word for name, value in spark_settings(places) for word in ("--conf", f"{name}={value}")),
        *options,
    )


class Driver:
    """One process of the driver: Python and the JVM that it starts, in their own process group."""

    def __init__(self, places: Places, *options: str, work: Path, log: Path) -> None:
        with log.open("ab") as file, interrupts_noted() as noted:
            self._process = subprocess.Popen(
                _command(places, work, options),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=places.root,
                env=environment(),
                start_new_session=True,
            )
        if noted:
            self.kill()
            raise KeyboardInterrupt

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative number of the signal that ended it."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9, the JVM included: nothing gets the chance to record its end."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """An interrupt while a process is being started would leave it behind as an orphan."""
    noted: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, usual)
