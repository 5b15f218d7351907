"""`holdfast collect` on real objects: what is planned, what is freed, what is left to a running job."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from holdfast.identifiers import FencingEpoch
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Retention
from holdfast.repository.verification import verify
from holdfast.storage.local import LocalStore
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.work_files import MIB, write

ORPHAN = "blobs/ab/" + "ab" * 32 + ".1"


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Four checkpoints, each with a large file of its own, and a savepoint; the run has ended."""
    history = History(tmp_path / "home")
    epoch = history.run(retention=Retention(retained=2))
    blobs = Blobs(history.store, FencingEpoch(epoch))
    for id in range(1, 6):
        work = tmp_path / f"work-{id}"
        write(work, {"commits/12": b"commits", "state/large.sst": bytes([id]) * MIB})
        complete_with_bytes(history, id, work, blobs, name="pinned" if id == 2 else None)
    history.end()
    return history


def collect(history: History, capsys: pytest.CaptureFixture[str], *more: str, code: int = 0) -> Any:
    assert main(["collect", "--home", f"file://{history.home}", "--job", history.job, "--json", *more]) == code
    out = capsys.readouterr().out
    return json.loads(out) if out else None


def stored(history: History) -> set[str]:
    return {item.key for item in history.store.list("") if item.key.startswith(("blobs/", "packs/", "manifests/"))}


def require_sound(history: History, *ids: int) -> None:
    state = History(history.home).journal.load()
    assert [entry.id for entry in state.retained()] == [*ids]
    for entry in state.retained():
        assert verify(history.store, entry.id, entry.manifest).corrupt == ()


def test_a_dry_run_says_what_would_go_and_why_and_changes_nothing(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    history.store.upload(ORPHAN, [b"left by a crash"])
    before = stored(history)
    plan = collect(history, capsys, "--dry-run")
    assert plan["retire"] == [1, 3]
    assert plan["free"]["orphan"] == {"objects": 1, "bytes": 15}
    assert plan["free"]["retired"]["objects"] == 4, "a blob and a manifest each; the pack is shared"
    assert not plan["executed"]
    assert stored(history) == before
    require_sound(history, 1, 2, 3, 4, 5)


def test_what_was_planned_is_freed_and_what_is_kept_is_sound(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    history.store.upload(ORPHAN, [b"left by a crash"])
    plan = collect(history, capsys, "--dry-run")
    before = stored(history)
    done = collect(history, capsys)
    assert done["executed"]
    assert done["freed"]["objects"] == 5
    assert before - stored(history) == {item["key"] for item in plan["objects"]}
    require_sound(history, 2, 4, 5)
    again = collect(history, capsys)
    assert (again["executed"], again["retire"], again["objects"]) == (False, [], [])
    state = History(history.home).journal.load()
    assert [run.purpose for run in state.runs] == ["pipeline", "maintenance"], "a claim only when there is work"
    assert state.ended is not None


def test_the_grace_holds_for_the_command_too(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    before = stored(history)
    done = collect(history, capsys, "--grace", "1h")
    assert (done["retire"], done["freed"]["objects"]) == ([1, 3], 0)
    assert done["in_grace"]["objects"] == 4
    assert stored(history) == before
    assert collect(history, capsys, "--grace", "1h")["in_grace"]["objects"] == 4
    assert collect(history, capsys, "--grace", "0s")["freed"]["objects"] == 4
    require_sound(history, 2, 4, 5)


def test_the_rule_of_the_last_run_counts_unless_told_otherwise(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(history, capsys, "--dry-run", "--retained", "1")["retire"] == [1, 3, 4]
    assert collect(history, capsys, "--dry-run", "--retained", "1", "--keep-hourly", "1")["retire"] == [1, 3, 4]
    assert collect(history, capsys, "--dry-run", "--retained", "9")["retire"] == []


def test_a_job_that_does_not_say_what_it_keeps_keeps_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(tmp_path / "home")
    history.run()
    for id in range(1, 30):
        history.complete(id)
    history.end()
    assert collect(history, capsys, "--dry-run")["retire"] == []
    collect(history, capsys, "--dry-run", "--keep-daily", "3", code=2)


def test_a_running_job_is_left_to_free_by_itself(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    epoch = history.run(retention=Retention(retained=2))
    history.beat()
    in_use = f"blobs/cd/{'cd' * 32}.{epoch}"
    history.store.upload(in_use, [b"under way"])
    history.store.upload(ORPHAN, [b"left by a crash"])
    before = stored(history)
    plan = collect(history, capsys, "--dry-run")
    assert plan["running"]
    assert in_use not in {item["key"] for item in plan["objects"]}
    assert ORPHAN in {item["key"] for item in plan["objects"]}
    assert stored(history) == before
    collect(history, capsys, "--dry-run", "--retained", "1", code=2)
    collect(history, capsys, "--timeout", "200ms", code=1)
    assert stored(history) == before, "asked, and nobody answers: the owner alone deletes"


def test_temporaries_of_dead_writers_are_freed_after_a_day(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    collect(history, capsys)
    old, new = (history.home / "orders" / "packs" / f".tmp-{name}" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1.0, 1.0))
    assert collect(history, capsys)["free"] == {"temporary": {"objects": 1, "bytes": 4}}
    assert (old.exists(), new.exists()) == (False, True)


def test_nothing_is_freed_while_a_manifest_that_is_kept_cannot_be_read(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = history.state().completed[max(history.state().completed)]
    (history.home / "orders" / "manifests" / kept.manifest).write_bytes(b"damaged")
    before = stored(history)
    assert collect(history, capsys)["unreadable"] == [5]
    assert stored(history) == before


def test_one_object_that_cannot_be_deleted_is_told_and_the_others_go(
    history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = history.home / "orders" / ORPHAN
    folder.mkdir(parents=True)  # a directory in an object's place cannot be unlinked
    (folder / "x").write_bytes(b"")
    monkeypatch.setattr(LocalStore, "list", _listing_also(ORPHAN, LocalStore.list))
    done = collect(history, capsys, code=6)
    assert [item["key"] for item in done["failed"]] == [ORPHAN]
    assert done["freed"]["objects"] == 4


def _listing_also(key: str, real: Any) -> Any:
    from holdfast.storage.interface import StoredObject

    def listing(self: LocalStore, prefix: str, after: str = "") -> Any:
        found = [item for item in real(self, prefix, after) if not item.key.startswith(key)]
        return iter([*found, *([StoredObject(key, 1, 0.0)] if prefix == "blobs/" else [])])

    return listing


def test_for_people_it_is_a_few_lines(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["collect", "--home", f"file://{history.home}", "--job", history.job]
    assert main([*arguments, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "keeps the newest 2, and every savepoint" in out
    assert "2 checkpoints: 1, 3" in out
    assert "nothing was changed" in out
    assert main(arguments) == 0
    assert "freed 4 objects, 2.1 MB" in capsys.readouterr().out
    assert main(arguments) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_a_restore_of_a_checkpoint_that_is_retired_meanwhile_says_so(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.workdir import restorer

    real = restorer.restore

    def while_it_is_collected(*args: Any, **kwargs: Any) -> None:
        assert main(["collect", "--home", f"file://{history.home}", "--job", history.job]) == 0
        real(*args, **kwargs)

    monkeypatch.setattr(restorer, "restore", while_it_is_collected)
    command = ["restore", "--home", f"file://{history.home}", "--job", history.job, "--checkpoint", "1"]
    assert main([*command, "--to", str(tmp_path / "out")]) == 3
    assert "it was retired while it was being restored" in capsys.readouterr().err
