"""`holdfast restore` and `holdfast verify` on real objects."""

import json
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.identifiers import FencingEpoch
from holdfast.repository.blobs import Blobs
from holdfast.repository.last_verified import read_last_verified
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.work_files import tree, write

MIB = 1 << 20


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    write(work, {"offsets/12": b"offsets", "commits/12": b"commits", "state/large.sst": b"x" * (2 * MIB)})
    return work


@pytest.fixture
def history(tmp_path: Path, work: Path) -> History:
    """Checkpoint 1 is a savepoint, 2 has one more file."""
    history = History(tmp_path / "home")
    epoch = history.run()
    blobs = Blobs(history.store, FencingEpoch(epoch))
    complete_with_bytes(history, 1, work, blobs, name="before-upgrade")
    history.wait(1)
    write(work, {"state/second.sst": b"y" * (2 * MIB)})
    complete_with_bytes(history, 2, work, blobs)
    return history


def arguments(history: History, *more: str) -> list[str]:
    return [more[0], "--home", f"file://{history.home}", "--job", history.job, *more[1:]]


def flip_one_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_restore_writes_the_newest_checkpoint_and_says_how_to_use_it(
    history: History, work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(history, "restore", "--to", str(tmp_path / "out"))) == 0
    assert tree(tmp_path / "out") == tree(work)
    captured = capsys.readouterr()
    assert "restored checkpoint 2" in captured.out
    assert f'.option("checkpointLocation", "{tmp_path / "out"}")' in captured.out
    assert captured.err == ""


@pytest.mark.parametrize("choice", [("--checkpoint", "1"), ("--savepoint", "before-upgrade")])
def test_restore_of_an_older_one(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str], choice: tuple[str, str]
) -> None:
    assert main(arguments(history, "restore", "--to", str(tmp_path / "out"), *choice, "--json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["checkpoint"], report["files"], report["to"]) == (1, 3, str(tmp_path / "out"))
    assert not (tmp_path / "out/state/second.sst").exists()


def test_restore_passes_over_a_checkpoint_known_to_be_damaged(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history.damage(2)
    assert main(arguments(history, "restore", "--to", str(tmp_path / "out"), "--json")) == 0
    assert json.loads(capsys.readouterr().out)["checkpoint"] == 1


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (("--checkpoint", "9"), "checkpoint 9"),
        (("--checkpoint", "3"), "it is failed (expired)"),
        (("--checkpoint", "1"), "it is retired"),
        (("--savepoint", "nope"), "savepoint 'nope'"),
        (("--savepoint", "before-upgrade"), "savepoint 'before-upgrade'"),
    ],
)
def test_restore_of_what_is_not_there_exits_3(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str], choice: tuple[str, str], said: str
) -> None:
    history.fail(3)
    history.retire(1)
    assert main(arguments(history, "restore", "--to", str(tmp_path / "out"), *choice)) == 3
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_restore_when_nothing_ever_completed_exits_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = History(tmp_path / "home")
    history.run()
    assert main(arguments(history, "restore", "--to", str(tmp_path / "out"))) == 3
    assert main(arguments(history, "verify")) == 3


@pytest.mark.parametrize(
    "choice",
    [("restore", "--to", "out", "--checkpoint", "1", "--savepoint", "x"), ("verify", "--checkpoint", "1", "--all")],
)
def test_choices_that_exclude_each_other_exit_2(
    history: History, capsys: pytest.CaptureFixture[str], choice: tuple[str, ...]
) -> None:
    assert main(arguments(history, *choice)) == 2


def test_restore_into_a_directory_that_holds_something_exits_2_and_touches_nothing(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "out", {"mine": b"mine"})
    assert main(arguments(history, "restore", "--to", str(tmp_path / "out"))) == 2
    assert tree(tmp_path / "out") == {"mine": b"mine"}


@pytest.mark.parametrize(
    ("inside", "of"), [("home/orders/blobs/new", "home"), ("jobs/orders/9-1", "work directory"), ("table/new", "sink")]
)
def test_restore_into_a_place_of_the_job_exits_2(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str], inside: str, of: str
) -> None:
    """A run would take it for its own directory, and readers of the sink would find files that are no output."""
    history.run(work=str(tmp_path / "jobs" / "orders"), sink=f"delta:{tmp_path / 'table'}")
    assert main(arguments(history, "restore", "--to", str(tmp_path / inside))) == 2
    assert f"it lies in the {of} " in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / inside).exists()


def test_restore_of_damaged_bytes_exits_4_and_leaves_nothing(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (history.home / "orders/blobs").rglob("*.*"):
        flip_one_byte(path)
    assert main(arguments(history, "restore", "--to", str(tmp_path / "out"))) == 4
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [("restore", "--to"), ("verify",)])
def test_a_manifest_that_is_gone_exits_4(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    newest = history.state().completed[max(history.state().completed)].manifest
    (history.home / "orders/manifests" / newest).unlink()
    target = [str(tmp_path / "out")] if command[0] == "restore" else []
    assert main(arguments(history, *command, *target)) == 4
    assert newest in capsys.readouterr().err


def test_verify_of_sound_bytes(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(history, "verify", "--json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["corrupt"] == []
    assert report["checked"] > 2
    assert report["bytes"] > 4 * MIB
    assert main(arguments(history, "verify")) == 0
    captured = capsys.readouterr()
    assert "every byte as written" in captured.out
    assert captured.err == ""


def test_verify_names_every_object_with_a_flipped_byte_and_exits_4(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in [p for p in (history.home / "orders").rglob("*") if p.is_file() and "journal" not in p.parts]:
        if path.name == "owner.json" or path.parent.name == "manifests":
            continue
        key = str(path.relative_to(history.home / "orders"))
        flip_one_byte(path)
        assert main(arguments(history, "verify", "--json")) == 4
        (damaged,) = json.loads(capsys.readouterr().out)["corrupt"]
        assert damaged.keys() == {"job", "checkpoint", "path", "expected", "found"}
        assert damaged["path"].startswith(key)
        assert main(arguments(history, "verify")) == 4
        assert f"corrupt: checkpoint 2: {key}" in capsys.readouterr().err
        flip_one_byte(path)


def verified_at(history: History, capsys: pytest.CaptureFixture[str], id: int) -> str | None:
    assert main(arguments(history, "show", str(id), "--json")) == 0
    found: str | None = json.loads(capsys.readouterr().out)["verified_at"]
    return found


def test_what_was_read_and_right_is_noted_until_it_is_wrong_or_gone(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(history, "verify", "--checkpoint", "1")) == 0
    capsys.readouterr()
    noted = verified_at(history, capsys, 1)
    assert noted is not None
    assert verified_at(history, capsys, 2) is None
    assert main(arguments(history, "verify", "--all", "--sample", "1%")) == 0
    capsys.readouterr()
    assert verified_at(history, capsys, 2) is None, "a sample does not read every byte"
    assert main(arguments(history, "verify")) == 0
    capsys.readouterr()
    assert verified_at(history, capsys, 1) == noted
    assert verified_at(history, capsys, 2) is not None
    (shared,) = (p for p in (history.home / "orders/blobs").rglob("*") if p.is_file() and p.read_bytes()[:1] == b"x")
    flip_one_byte(shared)
    assert main(arguments(history, "verify", "--checkpoint", "1")) == 4
    capsys.readouterr()
    assert verified_at(history, capsys, 1) is None
    history.retire(1, 2)
    complete_with_bytes(history, 3, history.home.parent / "work", Blobs(history.store, FencingEpoch(1)))
    assert main(arguments(history, "verify", "--checkpoint", "3")) in (0, 4)
    assert len(read_last_verified(history.store)) <= 1, "there are never more notes than checkpoints"


@pytest.mark.parametrize("left", [b"", b"{", b"\xff\xfe", b'{"format":1,"notes":[]}', b"[" * 100_000])
def test_a_note_that_cannot_be_read_says_nothing_and_is_replaced(
    history: History, capsys: pytest.CaptureFixture[str], left: bytes
) -> None:
    history.store.put("verified.json", left)
    assert verified_at(history, capsys, 2) is None
    assert main(arguments(history, "verify")) == 0
    capsys.readouterr()
    assert verified_at(history, capsys, 2) is not None


def test_with_permission_to_read_only_it_verifies_all_the_same(
    history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of that name cannot be replaced: root may write everywhere else."""
    (history.home / "orders/verified.json").mkdir()
    assert main(arguments(history, "verify", "--json")) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["corrupt"] == []
    assert "is not noted in its home" in captured.err


def test_verify_all_tells_which_checkpoints_are_damaged(
    history: History, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = history.state().completed[max(history.state().completed)].manifest
    flip_one_byte(history.home / "orders/manifests" / newest)
    assert main(arguments(history, "verify", "--all", "--json")) == 4
    assert [item["checkpoint"] for item in json.loads(capsys.readouterr().out)["corrupt"]] == [2]
    assert main(arguments(history, "verify", "--checkpoint", "1")) == 0


def test_verify_does_not_call_damage_what_was_retired_meanwhile(
    history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.repository import verification

    real = verification.verify

    def while_the_owner_collects(*args: object, **kwargs: object) -> object:
        if 1 not in history.state().retired:
            history.retire(1)
            (history.home / "orders/manifests" / history.state().completed[1].manifest).unlink()  # type: ignore[index]
        return real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(verification, "verify", while_the_owner_collects)
    assert main(arguments(history, "verify", "--all", "--json")) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["corrupt"] == []
    assert "checkpoint 1 was retired" in captured.err
