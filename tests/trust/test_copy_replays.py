"""R9. A copy replays the decisions: it resumes where its source would, and "up to date" means equal states."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.checkpoint.manifest import manifest_key
from holdfast.cli.main import main
from holdfast.identifiers import BatchId, CheckpointId, JobName, Sequence
from holdfast.repository.entries import CheckpointCorrupt, CheckpointRepaired, Retention, SavepointNamed, WentBack
from holdfast.repository.folding import clear_folded
from holdfast.repository.going_back import AlreadyBack, Wanted, decide
from holdfast.repository.journal import Journal
from holdfast.repository.retention import entries_to_drop
from holdfast.repository.state import JobState
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.storage.interface import ObjectStore
from tests.unit.test_copying import Source

RULE = Retention(retained=7, keep_hourly=3, grace_s=60.0)


class Deciding(Source):
    """Checkpoints 1 (a savepoint), 3, 4 and 5, of a run that keeps seven."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path)
        self.history.end()
        self.blobs = type(self.blobs)(self.history.store, self.history.run(retention=RULE))
        self.checkpoint(4)
        self.checkpoint(5)

    def go_back(self, chosen: int, *abandoned: int, asked: str) -> None:
        self.history._append(
            WentBack,
            chosen=CheckpointId(chosen),
            abandoned=tuple(CheckpointId(id) for id in abandoned),
            asked=asked,
            published=BatchId(9),
        )

    def pass_over(self, id: int) -> None:
        self.history._append(CheckpointCorrupt, id=CheckpointId(id), detail="flipped", passed_over=True)

    def bring_back(self, id: int) -> None:
        self.history._append(CheckpointRepaired, id=CheckpointId(id), detail="right again", returns=True)


@pytest.fixture
def source(tmp_path: Path) -> Deciding:
    return Deciding(tmp_path)


def copy(capsys: pytest.CaptureFixture[str], source: Source, *more: str) -> dict[str, Any]:
    assert main([*source.arguments("--json"), *more]) == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def decided(state: JobState) -> dict[str, object]:
    """Everything that a start depends on."""
    back = state.went_back
    kept = state.restorable()
    return {
        "resumes at": kept[0].id if kept else None,
        "kept": {(entry.id, entry.name, entry.checkpoint_kind) for entry in kept},
        "went back": back and (back.chosen, back.abandoned, back.asked, back.published),
        "next id": state.last_checkpoint + 1,
        "keeps": state.retention,
    }


def require_equal(source: Source) -> None:
    assert decided(source.target_state()) == decided(source.history.state())


def test_a_copy_made_before_and_after_going_back_resumes_where_the_source_does(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source, "--all")
    require_equal(source)
    source.go_back(3, 4, 5, asked="checkpoint 3")
    report = copy(capsys, source, "--all")
    assert report["decisions"] == ["went back to checkpoint 3, as asked: checkpoint 3"]
    require_equal(source)
    assert source.target_state().restorable()[0].id == 3


def test_a_fresh_copy_does_not_go_back_again(source: Deciding, capsys: pytest.CaptureFixture[str]) -> None:
    source.go_back(1, 3, 4, 5, asked="savepoint before-upgrade")
    source.checkpoint(6)
    copy(capsys, source, "--all")
    require_equal(source)
    assert isinstance(decide(source.target_state(), Wanted("before-upgrade", None)), AlreadyBack)


def test_each_time_that_the_source_went_back_since_the_last_copy_comes_along(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source, "--all")
    source.go_back(4, 5, asked="checkpoint 4")
    source.checkpoint(6)
    source.go_back(4, 6, asked="checkpoint 4 once more")
    copy(capsys, source, "--all")
    assert source.target_state().restorable()[0].id == 4
    require_equal(source)


def test_an_abandoned_id_is_not_used_again_by_the_copy(source: Deciding, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be among the abandoned ones, and never be chosen."""
    source.go_back(3, 4, 5, asked="checkpoint 3")
    copy(capsys, source, "--all")
    assert source.target_state().last_checkpoint == 5
    require_equal(source)


def test_an_id_of_a_checkpoint_that_could_not_be_brought_is_not_used_again_by_the_copy(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = source.history.state().completed[CheckpointId(5)]
    source.history.store.delete(manifest_key(newest.manifest))
    main(source.arguments("--all"))
    assert "damaged" in capsys.readouterr().err
    assert source.target_state().last_checkpoint == 5


def test_a_single_checkpoint_brings_what_was_abandoned_with_it(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source, "--all")
    source.go_back(3, 4, 5, asked="checkpoint 3")
    assert copy(capsys, source)["present"] == [3]
    assert source.target_state().restorable()[0].id == 3


@pytest.mark.parametrize("everything", [["--all"], []])
def test_what_the_source_had_retired_of_a_line_before_it_gave_that_up_is_not_chosen_by_the_copy(
    source: Deciding, capsys: pytest.CaptureFixture[str], everything: list[str]
) -> None:
    """No entry of the source names it, and nothing newer stays."""
    copy(capsys, source, "--all")
    source.history.retire(3, 4)
    source.go_back(1, 5, asked="savepoint before-upgrade")
    assert copy(capsys, source, *everything)["retired"] == [3, 4]
    require_equal(source)
    assert copy(capsys, source, *everything)["retired"] == []


def test_what_the_source_had_retired_of_a_line_before_it_passed_the_rest_over_is_not_chosen_by_the_copy(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source, "--all")
    source.history.retire(3, 4)
    source.pass_over(5)
    assert copy(capsys, source, "--all")["retired"] == [3, 4]
    require_equal(source)


def test_a_checkpoint_that_was_passed_over_stays_so_in_the_copy(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source, "--all")
    source.pass_over(5)
    assert copy(capsys, source, "--all")["decisions"] == ["passed over checkpoint 5"]
    assert source.target_state().restorable()[0].id == 4
    require_equal(source)


@pytest.mark.parametrize("between", [False, True])
def test_one_that_came_back_comes_back_in_the_copy(
    source: Deciding, capsys: pytest.CaptureFixture[str], between: bool
) -> None:
    copy(capsys, source, "--all")
    source.pass_over(5)
    if between:
        copy(capsys, source, "--all")
    source.bring_back(5)
    told = ["took checkpoint 5 again, which had been passed over"] if between else []
    assert copy(capsys, source, "--all")["decisions"] == told
    assert source.target_state().restorable()[0].id == 5
    require_equal(source)


def test_names_and_deletions_follow_in_the_order_of_the_source(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source, "--all")
    source.history.name("good", 4)
    copy(capsys, source, "--all")
    require_equal(source)
    home = ["--home", f"file://{source.path}", "--job", "orders"]
    source.history.end()
    assert main(["savepoint", "delete", "good", *home]) == 0
    assert main(["savepoint", "create", "good", "--from", "5", *home]) == 0
    capsys.readouterr()
    source.history.journal.load()
    copy(capsys, source, "--all")
    require_equal(source)


def test_what_was_named_in_the_copy_stays(source: Deciding, capsys: pytest.CaptureFixture[str]) -> None:
    copy(capsys, source, "--all")
    there = ["--home", f"file://{source.to}", "--job", "orders"]
    assert main(["savepoint", "create", "mine", "--from", "3", *there]) == 0
    capsys.readouterr()
    source.checkpoint(6)
    source.history.retire(3, 4)
    assert copy(capsys, source, "--all")["retired"] == [4]
    kept = {entry.id: entry.name for entry in source.target_state().restorable()}
    assert kept == {1: "before-upgrade", 3: "mine", 5: None, 6: None}


def test_a_collection_of_the_copy_keeps_what_the_source_keeps(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source, "--all")
    assert source.target_state().retention == RULE


def test_repeating_it_changes_nothing_whatever_was_decided(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    source.go_back(3, 4, 5, asked="checkpoint 3")
    source.checkpoint(6)
    source.history.name("good", 6)
    source.pass_over(6)
    source.checkpoint(7)
    source.history.retire(3)
    copy(capsys, source, "--all")
    require_equal(source)
    head = source.target_state().head
    for _ in range(3):
        assert copy(capsys, source, "--all")["decisions"] == []
    assert source.target_state().head == head


def test_an_old_request_that_is_told_again_is_not_the_last_word(
    source: Deciding, capsys: pytest.CaptureFixture[str]
) -> None:
    """The copy had one checkpoint of the line that the first of two requests abandoned, brought there since."""
    source.go_back(3, 4, asked="checkpoint 3")
    source.go_back(1, 5, asked="checkpoint 1")
    copy(capsys, source, "--all")
    require_equal(source)
    assert source.target_state().went_back.asked == "checkpoint 1"  # type: ignore[union-attr]


def test_damage_of_the_sources_bytes_is_not_the_copys(source: Deciding, capsys: pytest.CaptureFixture[str]) -> None:
    copy(capsys, source, "--all")
    source.history._append(CheckpointCorrupt, id=CheckpointId(5), detail="flipped", passed_over=False)
    copy(capsys, source, "--all")
    assert source.target_state().restorable()[0].id == 5
    assert not any(isinstance(entry, SavepointNamed) for _, entry in source.target_state().sequences)


def folded(store: ObjectStore, journal: Journal) -> None:
    """As retention does it, with nothing kept for people to read."""
    plan = entries_to_drop(journal.state, frozenset())
    assert plan, "there is something to drop"
    journal.fold(plan, Sequence(0))
    assert journal.state.folded is not None
    clear_folded(store, journal.state.folded.upto)


@pytest.mark.parametrize("places", [("source",), ("target",), ("source", "target")])
def test_a_folded_journal_is_replayed_like_any_other(
    source: Deciding, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, places: tuple[str, ...]
) -> None:
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 1)
    if "target" in places:
        copy(capsys, source, "--all")
    source.go_back(3, 4, 5, asked="checkpoint 3")
    source.checkpoint(6)
    source.history.name("good", 6)
    source.checkpoint(7)
    source.pass_over(7)
    source.checkpoint(8)
    if "target" in places:
        copy(capsys, source, "--all")
        home = f"file://{source.to}"
        with maintenance(JobName("orders"), home, source.target().store, "collect") as journal:
            folded(source.target().store, journal)
    if "source" in places:
        source.history.fail(None)
        folded(source.history.store, source.history.journal)
    copy(capsys, source, "--all")
    require_equal(source)
    assert copy(capsys, source, "--all")["decisions"] == []
    assert main(["verify", "--home", f"file://{source.to}", "--all"]) == 0


def test_a_name_that_the_source_gave_and_took_back_long_ago_is_taken_back_in_the_copy(
    source: Deciding, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulation seed 10447: a checkpoint was named and copied so; then the source deleted the name, retired the
    checkpoint and folded both, so that nothing of it was left to be replayed."""
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 1)
    source.history.name("good", 4)
    copy(capsys, source, "--all")
    assert "good" in {entry.name for entry in source.target_state().retained()}
    source.history.end()
    assert main(["savepoint", "delete", "good", "--home", f"file://{source.path}", "--job", "orders"]) == 0
    capsys.readouterr()
    source.history.journal.load()
    source.blobs = type(source.blobs)(source.history.store, source.history.run(retention=RULE))
    source.checkpoint(6)
    source.history.retire(4)
    source.checkpoint(7)
    folded(source.history.store, source.history.journal)
    assert 4 not in source.history.state().completed
    assert copy(capsys, source, "--all")["retired"] == [4]
    require_equal(source)
