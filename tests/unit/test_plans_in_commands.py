"""Plans of batches in `verify`, `copy`, `collect`, `restore` and `status`."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.cli.main import main
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.plans.log import PlanLog, plan_batches
from holdfast.repository import retention
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import PlansLate, Retention, WentBack
from holdfast.repository.journal import read_entries
from holdfast.repository.lines import line_folder, plan_key
from holdfast.repository.retention import entries_to_drop
from holdfast.repository.self_report import ReportedRecovery, SelfReport
from holdfast.repository.state import JobState
from holdfast.storage.local import LocalStore
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.test_cli_restore_verify import flip_one_byte
from tests.unit.test_plans import plan
from tests.unit.work_files import write

LAST = 8


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Checkpoints 1 to 3 at batches 2, 4 and 6; planned were batches up to `LAST`. The run has ended."""
    history = History(tmp_path / "home")
    blobs = Blobs(history.store, history.run(retention=Retention(retained=2)))
    log = PlanLog(history.store, line_folder(history.state()))
    for id in (1, 2, 3):
        work = tmp_path / f"work-{id}"
        write(work, {"metadata": b"{}", f"offsets/{id * 2}": b"v1", f"commits/{id * 2}": b"v1"})
        complete_with_bytes(history, id, work, blobs, batch=id * 2)
    for batch in range(LAST + 1):
        log.create(plan(batch))
    history.end()
    return history


def holdfast(capsys: pytest.CaptureFixture[str], history: History, *arguments: str) -> tuple[int, Any, str]:
    command, *more = arguments
    code = main([command, "--home", f"file://{history.home}", "--job", "orders", "--json", *more])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def planned(history: History) -> frozenset[BatchId]:
    return plan_batches(history.store, line_folder(history.state()))


def test_verify_reads_every_plan_and_names_a_damaged_one(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    code, sound, _ = holdfast(capsys, history, "verify", "--all")
    assert code == 0
    key = plan_key(line_folder(history.state()), BatchId(7))
    flip_one_byte(history.home / "orders" / key)
    code, report, said = holdfast(capsys, history, "verify", "--all")
    assert (code, report["checked"]) == (4, sound["checked"])
    assert [item["path"] for item in report["corrupt"]] == [key]
    assert "journal's entry" not in said


def test_a_damaged_plan_keeps_nobody_from_repairing_the_rest(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    flip_one_byte(history.home / "orders" / plan_key(line_folder(history.state()), BatchId(7)))
    _, _, said = holdfast(capsys, history, "verify", "--all", "--repair")
    assert "its journal is damaged" not in said


def test_a_copy_has_the_plans_and_a_repeated_one_gets_those_that_came_since(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "copy"
    to.mkdir()

    def copied() -> frozenset[BatchId]:
        assert holdfast(capsys, history, "copy", "--to", f"file://{to}")[0] == 0
        store = LocalStore(to).scoped("orders")
        return plan_batches(store, line_folder(JobState.of(read_entries(store))))

    assert copied() == planned(history)
    PlanLog(history.store, line_folder(history.state())).create(plan(LAST + 1))
    assert copied() == planned(history)
    assert LAST + 1 in copied()


def test_a_copy_of_a_job_that_went_back_has_the_plans_of_its_line(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history.run(retention=Retention(retained=2))
    history._append(WentBack, chosen=CheckpointId(2), abandoned=(CheckpointId(3),), asked="checkpoint 2")
    PlanLog(history.store, line_folder(history.state())).create(plan(5, "anew"))
    history.end()
    to = tmp_path / "copy"
    to.mkdir()
    assert holdfast(capsys, history, "copy", "--all", "--to", f"file://{to}")[0] == 0
    store = LocalStore(to).scoped("orders")
    found = PlanLog(store, line_folder(JobState.of(read_entries(store)))).behind(BatchId(4)).plans
    assert [each.attempt for each in found] == ["anew"]


def test_collect_frees_plans_that_no_recovery_repeats(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(planned(history)) == LAST + 1
    assert holdfast(capsys, history, "collect", "--dry-run")[0] == 0
    assert len(planned(history)) == LAST + 1
    assert holdfast(capsys, history, "collect")[0] == 0
    assert planned(history) == frozenset(range(5, LAST + 1))


def test_restore_says_how_many_batches_were_planned_behind_it(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report, _ = holdfast(capsys, history, "restore", "--to", str(tmp_path / "restored"))
    assert (code, report["plans"]) == (0, 2)


def test_status_and_events_tell_which_batches_ran_without_a_durable_plan(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert holdfast(capsys, history, "status")[1]["plans_late"] is None
    history._append(PlansLate, first=BatchId(7), last=BatchId(8), since=history.now)
    code, report, _ = holdfast(capsys, history, "status")
    assert code == 0
    assert (report["plans_late"]["first_batch"], report["plans_late"]["last_batch"]) == (7, 8)
    assert report["plans_late"]["since"] <= report["plans_late"]["until"]
    assert main(["status", "--home", f"file://{history.home}", "--job", "orders"]) == 0
    assert "batches 7 to 8 ran without a durable plan" in capsys.readouterr().out


def test_status_tells_how_long_a_recovery_would_take_until_the_run_has_ended(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    history.run(plans="require")
    for target, older, older_s, shown in (
        (300.0, None, None, "on an empty disk about 14.2s, 3 batches after the checkpoint; target 5m 00s"),
        (None, None, None, "on an empty disk about 14.2s, 3 batches after the checkpoint\n"),
        (None, 9, 20.5, "about 20.5s if that is damaged: 9 batches to repeat\n"),
    ):
        recovery = ReportedRecovery(
            batches_behind=3, seconds=14.2, target_s=target, fall_back_batches=older, fall_back_seconds=older_s
        )
        history.beat(report=SelfReport(recovery=recovery))
        assert holdfast(capsys, history, "status")[1]["recovery"] == msgspec.structs.asdict(recovery)
        assert main(["status", "--home", f"file://{history.home}", "--job", "orders"]) == 0
        assert shown in capsys.readouterr().out
    history.end()
    assert holdfast(capsys, history, "status")[1]["recovery"] is None, "its last checkpoint has every batch"


def test_a_fold_keeps_the_newest_such_entry(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "HISTORY_KEPT", 1)
    for first in (3, 7):
        history._append(PlansLate, first=BatchId(first), last=BatchId(8))
    history.run()
    state = history.state()
    dropped = entries_to_drop(state, ())
    kept = [entry for sequence, entry in state.sequences if sequence not in dropped and isinstance(entry, PlansLate)]
    assert [entry.first for entry in kept] == [7]
