"""S6: `collect` frees what attempts that died have staged, and nothing that a start may need. Whole jobs."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.runtime.commands.leftovers import Kind
from tests.trust import delta_sink, files_sink
from tests.trust.jobs_with_sinks import Job
from tests.trust.jobs_with_sinks import job as job
from tests.unit.churning_runs import state_of


def collect(job: Job, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    home = ["--home", f"file://{job.home}", "--job", "churn"]
    assert main(["collect", *home, "--json", "--on-conflict", "takeover", *more]) == 0
    return json.loads(capsys.readouterr().out)


def staged(found: Any) -> list[str]:
    return [item["path"] for item in found["local"] if item["why"] == "staged"]


@pytest.fixture
def died(job: Job) -> Path:
    """Three batches with a checkpoint each, one that is committed only, and an attempt that died while it staged the
    next. The directory of that one."""
    job.lived(3)
    run = job.run()
    run.query.batch()
    helper: Any = delta_sink if job.kind == "delta" else files_sink
    (attempt,) = helper.staged(run.query.sink, run.query._epoch, 4)
    return (job.place / attempt.files[0].path).parent


def test_it_is_kept_for_a_day_and_shown(job: Job, died: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = collect(job, capsys, "--dry-run")
    assert staged(found) == [str(died)]
    assert all(item["free_at"] for item in found["local"])


def test_only_what_nobody_needs_goes(
    job: Job, died: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.runtime.commands.leftovers.KEPT_S", dict.fromkeys(Kind, -1.0))
    assert staged(collect(job, capsys)) == [str(died)]
    assert not died.exists()
    assert staged(collect(job, capsys)) == []
    job.lived(1)
    job.require_rows(5)


def test_what_only_a_checkpoint_names_stays(
    job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink could not be published to; then the work directory's ledger was lost."""
    monkeypatch.setattr("holdfast.runtime.commands.leftovers.KEPT_S", dict.fromkeys(Kind, -1.0))
    job.lived(2)
    run = job.run()
    monkeypatch.setattr(run.query.sink, "publish", _unreachable)
    run.batches(2)
    for folder in (job.work / "churn").glob("*/ledger"):
        shutil.rmtree(folder)
    assert len(state_of(job.home).retained()) == 4
    assert staged(collect(job, capsys)) == []
    job.wipe_work()
    job.lived(1)
    job.require_rows(5)


def test_nothing_is_judged_when_a_ledger_cannot_be_read(
    job: Job, died: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next((job.work / "churn").glob("*/ledger/*.json")).write_bytes(b"no ledger")
    assert staged(collect(job, capsys, "--dry-run")) == []


def _unreachable(*arguments: object) -> None:
    raise OSError("the sink is away")
