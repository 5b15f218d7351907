"""Runs examples/kafka_clicks.py against a broker of its own, and shows the lag: `make kafka-example`.

A producer sends clicks all the time, and for a few seconds ten times as many. The job falls behind and catches up. At
the end the table is compared with what was sent.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset
from confluent_kafka import Message, Producer
from rich.console import Console

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.end_to_end.connectors import KafkaBroker, kafka_jars  # noqa: E402

HOLDFAST = Path(sys.executable).with_name("holdfast")
EXAMPLE = ROOT / "examples" / "kafka_clicks.py"
TOPIC, GROUP, JOB = "clicks", "clicks-lag", "clicks"
A_SECOND, PAGES, WINDOW_S = 100, 4, 10
LOOK_S = 2.0


class Clicks(threading.Thread):
    """Sends them, and remembers what was sent by window and page: as the broker's answer says, with its time."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self.sent: Counter[tuple[datetime, str]] = Counter()
        self.newest = datetime.min.replace(tzinfo=UTC)
        self.a_second = A_SECOND
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        self._stopped = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._stopped.wait(0.1):
            for number in range(number + 1, number + 1 + self.a_second // 10):  # noqa: B020
                self._producer.produce(TOPIC, f"/{number % PAGES}", partition=number % 2, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush()

    def end(self) -> None:
        """With one click a minute later, which lets the watermark pass all the others."""
        self._stopped.set()
        self.join()
        later = int((time.time() + 60) * 1000)
        for partition in range(2):
            self._producer.produce(TOPIC, "/end", partition=partition, timestamp=later)
        self._producer.flush()

    def _delivered(self, error: Any, message: Message) -> None:
        if error is not None:
            raise RuntimeError(str(error))
        _, milliseconds = message.timestamp()
        at = datetime.fromtimestamp(milliseconds // 1000 // WINDOW_S * WINDOW_S, UTC)
        self.sent[at, (message.value() or b"").decode()] += 1


def table(place: Path) -> Counter[tuple[datetime, str]]:
    if not list(place.glob("*.parquet")):
        return Counter()
    rows = pyarrow.dataset.dataset(place).to_table().to_pylist()
    found: Counter[tuple[datetime, str]] = Counter()
    for row in rows:
        found[row["since"].astimezone(UTC), row["page"]] += row["clicks"]
    return found


@contextlib.contextmanager
def job(place: Path, servers: str) -> Iterator[subprocess.Popen[bytes]]:
    jars = ",".join(map(str, kafka_jars()))
    environment = {
        **os.environ,
        "CLICKS_SERVERS": servers,
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] --conf spark.ui.enabled=false --jars {jars} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    (place / "home").mkdir()
    options = ["--home", f"file://{place}/home", "--job", JOB, "--sink", f"files:{place}/table"]
    options += ["--work", f"{place}/work", "--interval", "5s", "--trigger", "1s", "--commit-offsets-to", GROUP]
    with (place / "job.log").open("wb") as log:
        process = subprocess.Popen([HOLDFAST, "run", str(EXAMPLE), *options], env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait()


def status(place: Path) -> dict[str, Any]:
    command = [HOLDFAST, "status", "--home", f"file://{place}/home", "--job", JOB, "--json"]
    found = subprocess.run(command, capture_output=True, check=False).stdout
    return dict(json.loads(found)) if found else {}


def watch(console: Console, place: Path, clicks: Clicks, process: subprocess.Popen[bytes], seconds: float) -> None:
    """For so long from the moment at which the lag is known. After a third of the time come many clicks at once."""
    began: float | None = None
    while process.poll() is None:
        seen = status(place)
        console.print(line(seen, clicks, place))
        if began is None and seen.get("kafka_lag"):
            began = time.monotonic()
        ran = 0.0 if began is None else time.monotonic() - began
        if ran > seconds:
            return
        clicks.a_second = 10 * A_SECOND if 0.3 < ran / seconds < 0.45 else A_SECOND
        time.sleep(LOOK_S)


def line(seen: dict[str, Any], clicks: Clicks, place: Path) -> str:
    lag = seen.get("kafka_lag")
    told = "not known yet" if lag is None else f"{lag['processed']:>6,} records {lag.get('trend') or '':<9}"
    return (
        f"{datetime.now():%H:%M:%S}  sent {clicks.sent.total():>7,}  "
        f"in the table {table(place / 'table').total():>7,}  lag {told}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=90.0, help="how long clicks are sent")
    seconds = parser.parse_args().seconds
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="holdfast-kafka-") as folder:
        place = Path(folder)
        console.print("starting a Kafka broker and the job: Kafka → clicks per page and ten seconds → Parquet files")
        broker = KafkaBroker(place / "kafka")
        with broker.running():
            clicks = Clicks(broker.servers)
            clicks.start()
            with job(place, broker.servers) as process:
                watch(console, place, clicks, process, seconds)
                clicks.end()
                expected = clicks.sent
                limit = time.monotonic() + 120
                while table(place / "table") != expected and time.monotonic() < limit and process.poll() is None:
                    time.sleep(LOOK_S / 4)
                found = table(place / "table")
            wrong = sum(((found - expected) + (expected - found)).values())
            console.print(f"sent {expected.total():,}, in the table {found.total():,}, wrong {wrong}")
            if wrong:
                console.print((place / "job.log").read_text()[-4000:])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
