"""What a notebook shows of a status, and the rows of a history."""

from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pandas
import pyarrow

from holdfast.alarm import Alarm
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.history import CheckpointRecord, FailureRecord, Statistics
from holdfast.repository.views import history_rows
from holdfast.runtime.reports.status import JobStatus
from tests.unit.job_histories import History


def record(id: int, took: float, failure: FailureRecord | None = None) -> CheckpointRecord:
    return CheckpointRecord(
        id,
        id,
        "checkpoint",
        None,
        id,
        10.0,
        10.0 + took,
        (),
        4,
        4,
        1,
        1,
        1,
        1,
        (),
        failure,  # type: ignore[arg-type]
    )


def test_a_status_is_a_table_with_bars_and_escaped_text() -> None:
    failure = FailureRecord(FailureReason.EXPIRED, "took too long")
    alarm = Alarm("orders", "failing", "critical", "<script>", "look", datetime.now(UTC))
    status = JobStatus(
        job="<orders>",
        fencing_epoch=1,  # type: ignore[arg-type]
        running=True,
        ended=False,
        barrier=9,  # type: ignore[arg-type]
        published=7,  # type: ignore[arg-type]
        restarts=0,
        statistics=Statistics(completed=2, failed=1, consecutive_failures=1, last_completed=2),  # type: ignore[arg-type]
        recent=(record(1, 1.0), record(2, 2.0), record(3, 0.5, failure)),
        alarms=(alarm,),
    )
    table = ElementTree.fromstring(status._repr_html_())
    text = " ".join(table.itertext())
    assert "<orders>" in text
    assert "9 committed, 7 published" in text
    assert "2 completed, 1 failed; the newest is 2" in text
    assert "critical: <script>. Try: look" in text
    bars = table.findall(".//rect")
    assert [float(bar.attrib["height"]) for bar in bars] == [10.0, 20.0, 5.0]
    assert [bar.attrib["fill"] for bar in bars] == ["#1d4ed8", "#1d4ed8", "#d92d20"]
    assert bars[2].findtext("title") == "checkpoint 3: 0.50 s, failed: expired"


def test_a_history_is_a_row_for_each_checkpoint(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3, name="good")
    history.fail(2)
    rows = history_rows(history.seen())
    assert [(row["id"], row["status"], row["failure"], row["name"]) for row in rows] == [
        (2, "failed", "expired", None),
        (1, "completed", None, "good"),
    ]
    assert list(pandas.DataFrame(rows)["duration_ms"]) == [1000, 1200]
    assert pyarrow.Table.from_pylist(rows)["batch"].to_pylist() == [7, 3]
