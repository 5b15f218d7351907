"""S6: what runs leave beside their work directory is shown by `collect`, has an age and a limit, and goes."""

import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.cli.main import main
from holdfast.identifiers import FencingEpoch, JobName
from holdfast.runtime.commands.leftovers import DAY_S, Kind, Leftover, with_waits
from holdfast.runtime.work_marker import WorkMarker, take_place
from holdfast.workdir.factory import work_directory
from tests.stores.processes import free_port
from tests.unit.job_histories import History
from tests.unit.work_files import write

NOW = 1_000_000_000.0


def found(kind: Kind, *ages_in_days: float) -> list[tuple[str, bool]]:
    """Newest first, each with whether it may go."""
    items = [Leftover(work_directory(f"/{age}"), kind, 1, NOW - age * DAY_S) for age in ages_in_days]
    return [(item.place.location[1:], not item.wait_s) for item in with_waits(items, NOW)]


@pytest.mark.parametrize("kind", [Kind.STALE, Kind.SET_ASIDE])
def test_the_newest_three_stay_for_a_week(kind: Kind) -> None:
    assert found(kind, 1, 2, 3, 4) == [("1", False), ("2", False), ("3", False), ("4", True)]
    assert found(kind, 6, 8) == [("6", False), ("8", True)]


def test_what_is_being_built_is_younger_than_a_day() -> None:
    assert found(Kind.HALF_BUILT, 0.1, 0.2, 0.3, 0.4, 2) == [
        ("0.1", False),
        ("0.2", False),
        ("0.3", False),
        ("0.4", False),
        ("2", True),
    ]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def history(tmp_path: Path, work: Path) -> History:
    """A job that was begun anew in a work directory, in which a restore was killed, and damage was set aside."""
    history = History(tmp_path / "home")
    history.run(work=str(work / "orders"))
    history.end()
    home = f"file://{history.home}"
    for lineage, new_life in (("aaaaaaaa-first", False), ("lineage", True)):
        marker = WorkMarker(job=JobName("orders"), home=home, lineage=lineage, epoch=FencingEpoch(1))
        take_place(work_directory(work), marker, new_life=new_life)
        write(work / "orders", {f"1-1/state/{lineage}": bytes(1000)})
    write(
        work / "orders", {"1-1.aside": b"no magic\n", ".1-2.restoring-77-0/state/x": bytes(500), "1-3/commits/0": b""}
    )
    return history


def collect(history: History, capsys: pytest.CaptureFixture[str], *more: str) -> Any:
    assert main(["collect", "--home", f"file://{history.home}", "--job", "orders", "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_collect_shows_what_lies_there_and_until_when(
    history: History, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(work.rglob("*"))
    shown = collect(history, capsys, "--dry-run")["local"]
    assert [(item["path"], item["why"]) for item in shown] == [
        (str(work / "orders.stale-aaaaaaaa"), "stale"),
        (str(work / "orders" / "1-1"), "set aside"),
        (str(work / "orders" / ".1-2.restoring-77-0"), "half-built"),
    ]
    assert shown[1]["bytes"] == 1000
    assert all(item["free_at"] for item in shown)
    collect(history, capsys)
    assert sorted(work.rglob("*")) == before, "all of it is young"
    assert main(["collect", "--home", f"file://{history.home}", "--job", "orders", "--dry-run"]) == 0
    assert "set aside by --new-life; kept until" in capsys.readouterr().out


def test_collect_frees_what_is_old(
    history: History, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.runtime.commands.leftovers.KEPT_S", dict.fromkeys(Kind, -1.0))
    done = collect(history, capsys)
    assert done["freed_local"]["objects"] == 3
    assert done["freed_local"]["bytes"] >= 2500
    left = {path.relative_to(work).as_posix() for path in work.rglob("*") if path.is_file()}
    assert left == {"orders/job.json", "orders/1-3/commits/0"}, "what a start goes on in stays, the note is gone"
    assert collect(history, capsys)["local"] == []


def test_what_others_have_there_is_left_alone(
    history: History, work: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.runtime.commands.leftovers.KEPT_S", dict.fromkeys(Kind, -1.0))
    other = WorkMarker(job=JobName("orders.stale-bb"), home="file:///other", lineage="other")
    take_place(work_directory(work), other, new_life=False)
    (work / "orders.stale-cc").symlink_to(history.home)
    collect(history, capsys)
    assert (work / "orders.stale-bb" / "job.json").exists(), "a job of that name"
    assert (work / "orders.stale-cc").is_symlink()
    assert not (work / "orders.stale-aaaaaaaa").exists()


def test_a_work_directory_of_another_life_is_not_looked_at(
    history: History, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = WorkMarker(job=JobName("orders"), home="file:///elsewhere", lineage="somebody else's")
    (work / "orders" / "job.json").write_bytes(msgspec.json.encode(marker))
    assert collect(history, capsys)["local"] == []


def test_a_restore_removes_what_killed_ones_left_in_its_place(tmp_path: Path) -> None:
    dead, young, alive = (tmp_path / f".to.restoring-{name}" for name in ("4194305-0", "4194306-0", f"{os.getpid()}-9"))
    for path in (dead, young, alive):
        path.mkdir()
        os.utime(path, (0, time.time() - (100 if path == young else 2 * DAY_S)))
    with work_directory(tmp_path / "to").build() as building:
        building.write("x", [b"x"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["to", young.name, alive.name])


def test_a_work_directory_that_cannot_be_reached_is_said_and_the_home_is_collected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    history = History(tmp_path / "home")
    history.run(work=f"hdfs://127.0.0.1:{free_port()}/work/orders")
    history.end()
    assert collect(history, capsys)["local"] == []
    assert "what earlier runs left in hdfs://" in caplog.text
