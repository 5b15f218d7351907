"""`holdfast verify`: whole homes, samples, the journal, marking and repair."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Process
from holdfast.repository.journal import entry_key, read_entries
from holdfast.repository.ownership import current_process
from holdfast.repository.state import JobState
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.test_cli_restore_verify import flip_one_byte
from tests.unit.work_files import MIB, tree, write


def history_of(tmp_path: Path, job: str, checkpoints: int = 2, process: Process | None = None) -> History:
    """Each checkpoint has one large file more than the one before. The run has ended."""
    history = History(tmp_path / "home", job)
    work = tmp_path / f"work-{job}" / "1-1"
    blobs = Blobs(history.store, history.run(process or Process("elsewhere", 1, boot_id="x"), str(work.parent)))
    write(work, {"offsets/12": job.encode(), "commits/12": b"commits"})
    for id in range(1, checkpoints + 1):
        write(work, {f"state/{id}.sst": (f"{job}{id}".encode() * MIB)[:MIB]})
        complete_with_bytes(history, id, work, blobs)
    history.end()
    return history


@pytest.fixture
def history(tmp_path: Path) -> History:
    return history_of(tmp_path, "orders")


def verify(capsys: pytest.CaptureFixture[str], tmp_path: Path, *more: str) -> tuple[int, dict[str, Any], str]:
    code = main(["verify", "--home", f"file://{tmp_path / 'home'}", "--json", *more])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def blob_of(tmp_path: Path, job: str, id: int) -> Path:
    """The large file that came with this checkpoint."""
    blobs = (tmp_path / "home" / job / "blobs").rglob("*.*")
    (path,) = (path for path in blobs if path.read_bytes().startswith(f"{job}{id}".encode()))
    return path


def state(tmp_path: Path, job: str = "orders") -> JobState:
    return JobState.of(read_entries(History(tmp_path / "home", job).store))


def test_a_whole_home_is_every_checkpoint_of_every_job(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history_of(tmp_path, "visits", 1)
    objects = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    code, report, _ = verify(capsys, tmp_path)
    assert (code, report["jobs"], report["corrupt"]) == (0, ["orders", "visits"], [])
    assert report["checked"] == len(objects)
    assert report["journal_entries"] == len([path for path in objects if path.parent.name == "journal"])
    flip_one_byte(blob_of(tmp_path, "visits", 1))
    code, report, _ = verify(capsys, tmp_path)
    assert (code, [(item["job"], item["checkpoint"]) for item in report["corrupt"]]) == (4, [("visits", 1)])
    assert main(["verify", "--home", f"file://{tmp_path / 'home'}"]) == 4
    captured = capsys.readouterr()
    assert "orders: checkpoints 1 to 2" in captured.out
    assert "every byte as written" in captured.out


def test_a_home_without_jobs_exits_3_and_one_without_checkpoints_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    assert main(["verify", "--home", f"file://{tmp_path / 'home'}"]) == 3
    capsys.readouterr()
    History(tmp_path / "home", "empty").run()
    history_of(tmp_path, "orders", 1)
    code, report, said = verify(capsys, tmp_path)
    assert (code, report["jobs"]) == (0, ["orders"])
    assert "'empty' has no checkpoint" in said


def test_a_checkpoint_without_a_job_exits_2(history: History, tmp_path: Path) -> None:
    assert main(["verify", "--home", f"file://{tmp_path / 'home'}", "--checkpoint", "1"]) == 2


def test_verifying_changes_nothing_but_leaves_a_note(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip_one_byte(blob_of(tmp_path, "orders", 2))
    before = tree(tmp_path / "home")
    assert verify(capsys, tmp_path, "--job", "orders", "--all")[0] == 4
    after = tree(tmp_path / "home")
    assert after.pop("orders/verified.json")
    assert after == before


# --- samples ---


def test_a_sample_reads_its_part_says_so_and_can_be_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history_of(tmp_path, "orders", 8)
    code, whole, _ = verify(capsys, tmp_path)
    assert (code, whole["sample"]) == (0, None)
    _, report, _ = verify(capsys, tmp_path, "--sample", "25%", "--seed", "7")
    assert report["sample"] == {"percent": 25.0, "seed": 7}
    blobs = whole["objects"]
    assert report["checked"] == whole["checked"] - blobs + -(-blobs // 4)
    assert report["bytes"] < whole["bytes"] / 2
    assert verify(capsys, tmp_path, "--sample", "25%", "--seed", "7")[1] == report
    assert main(["verify", "--home", f"file://{tmp_path / 'home'}", "--sample", "25", "--seed", "7"]) == 0
    assert f"25% of {blobs} objects, --seed 7" in capsys.readouterr().out


def test_enough_samples_find_the_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history_of(tmp_path, "orders", 4)
    flip_one_byte(blob_of(tmp_path, "orders", 3))
    codes = [verify(capsys, tmp_path, "--sample", "30%", "--seed", str(seed))[0] for seed in range(12)]
    assert set(codes) == {0, 4}


@pytest.mark.parametrize("part", ["0%", "101%", "many", "-5%"])
def test_a_part_that_is_none_exits_2(history: History, tmp_path: Path, part: str) -> None:
    assert main(["verify", "--home", f"file://{tmp_path / 'home'}", f"--sample={part}"]) == 2


# --- the journal ---


def test_damaged_entries_are_all_named_and_what_can_be_read_is_verified(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for sequence in (1, 2):
        flip_one_byte(tmp_path / "home/orders" / entry_key(sequence))
    flip_one_byte(blob_of(tmp_path, "orders", 2))
    code, report, said = verify(capsys, tmp_path, "--job", "orders", "--all", "--repair")
    assert code == 4
    assert [(item["checkpoint"], item["path"]) for item in report["corrupt"]][:2] == [
        (None, entry_key(1)),
        (None, entry_key(2)),
    ]
    assert main(["verify", "--home", f"file://{tmp_path / 'home'}", "--job", "orders", "--repair"]) == 4
    said = capsys.readouterr().err
    assert "journal is damaged" in said
    assert "restore the journal entry from a copy" in said


def test_a_journal_of_which_nothing_can_be_read_is_reported(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path / "home/orders/journal").iterdir():
        flip_one_byte(path)
    code, report, _ = verify(capsys, tmp_path, "--job", "orders")
    assert (code, len(report["corrupt"])) == (4, 4)


# --- marking ---


def test_marking_marks_every_checkpoint_that_names_the_object(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flip_one_byte(blob_of(tmp_path, "orders", 1))
    code, report, _ = verify(capsys, tmp_path, "--job", "orders", "--mark")
    assert code == 4
    assert report["marked"] == [{"job": "orders", "checkpoint": 1}, {"job": "orders", "checkpoint": 2}]
    now = state(tmp_path)
    assert now.restorable() == []
    assert set(now.corrupt) == {1, 2}
    assert now.passed_over == frozenset(), "found damaged, but no recovery abandoned them"
    entries = now.head
    verify(capsys, tmp_path, "--job", "orders", "--mark")
    marks = [entry for _, entry in state(tmp_path).sequences[entries:] if "Corrupt" in type(entry).__name__]
    assert marks == [], "marked once"


def test_a_running_job_is_only_reported_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = history_of(tmp_path, "orders")
    history.run()
    history.beat()
    flip_one_byte(blob_of(tmp_path, "orders", 2))
    before = tree(tmp_path / "home")
    arguments = ["verify", "--home", f"file://{tmp_path / 'home'}", "--job", "orders", "--all", "--repair"]
    assert main(arguments) == 4
    said = capsys.readouterr().err
    assert "build-3" in said
    assert "its owner passes over" in said
    after = tree(tmp_path / "home")
    del after["orders/verified.json"]
    assert after == before


def test_what_was_marked_and_is_sound_again_is_cleared(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = blob_of(tmp_path, "orders", 2)
    flip_one_byte(path)
    verify(capsys, tmp_path, "--job", "orders", "--all", "--mark")
    assert len(state(tmp_path).restorable()) < 2
    flip_one_byte(path)
    code, report, _ = verify(capsys, tmp_path, "--job", "orders", "--all")
    assert (code, report["cleared"]) == (0, [])
    code, report, _ = verify(capsys, tmp_path, "--job", "orders", "--all", "--mark")
    assert code == 0
    assert {"job": "orders", "checkpoint": 2} in report["cleared"]
    assert len(state(tmp_path).restorable()) == 2


def test_a_checkpoint_that_was_passed_over_is_never_cleared(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history.run()
    history.damage(2)
    history.end()
    code, report, _ = verify(capsys, tmp_path, "--job", "orders", "--all", "--repair")
    assert (code, report["cleared"]) == (0, [])
    assert [entry.id for entry in state(tmp_path).restorable()] == [1]


# --- repair ---


@pytest.mark.parametrize("host", ["here", "elsewhere"])
def test_repair_takes_the_bytes_from_the_work_directory_of_this_host(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    name = current_process().host if host == "here" else host
    history_of(tmp_path, "orders", process=Process(name, 1, "another boot"))
    sound = tree(tmp_path / "home")
    for path in [*(tmp_path / "home/orders/blobs").rglob("*.*"), *(tmp_path / "home/orders/packs").iterdir()]:
        flip_one_byte(path)
    assert verify(capsys, tmp_path, "--job", "orders", "--all", "--mark")[0] == 4
    code, report, _ = verify(capsys, tmp_path, "--job", "orders", "--all", "--repair")
    if host == "elsewhere":
        assert (code, report["repaired"], len(report["marked"])) == (4, [], 2)
        return
    assert code == 0, "what was found is repaired"
    assert {item["from"].startswith(str(tmp_path / "work-orders/1-1")) for item in report["repaired"]} == {True}
    assert [item["checkpoint"] for item in report["cleared"]] == [1, 2]
    after = tree(tmp_path / "home")
    assert {path: after[path] for path in sound} == sound
    assert verify(capsys, tmp_path)[0] == 0
