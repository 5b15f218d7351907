"""R3: birth is explicit, and memory is compared."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.checkpoint.manifest import manifest_key
from holdfast.cli.main import main
from holdfast.errors import Conflict, Fenced, HomeReplaced, InvalidSettings, StorageError, StorageUnreachable
from holdfast.identifiers import AttemptId, BatchId, CheckpointId, FencingEpoch, JobName, Sequence
from holdfast.repository.collection import Unneeded, Why
from holdfast.repository.entries import Process, RunStarted, Stamp, WentBack
from holdfast.repository.fresh_proof import HOLDS_S
from holdfast.repository.mailbox import read_request
from holdfast.repository.ownership import current_process
from holdfast.repository.state import JobState
from holdfast.runtime import work_marker
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.recovery.memory import Asked, Memory, abandoned_but_shown, agree
from holdfast.runtime.requests.serving import Serving
from holdfast.runtime.run.places import require_apart
from holdfast.runtime.upkeep import freeing
from holdfast.runtime.upkeep.collecting import Collector
from holdfast.runtime.work_marker import NAME, WorkMarker, read_marker, remember_head, take_place
from holdfast.sinks.protocol import SinkContext, SinkState, fingerprint
from holdfast.snapshot import carrier
from holdfast.storage.limited import Allowance
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from tests.trust.files_sink import expected
from tests.trust.jobs_with_sinks import Job, SinkQuery, dying_at
from tests.trust.jobs_with_sinks import job as job
from tests.unit.churning_runs import JOB, ChurningRun, ManualClock, needed_keys, state_of, stored_keys
from tests.unit.job_histories import History
from tests.unit.test_mailbox import Desk, answered_by

OURS = fingerprint("lineage")
THEIRS = fingerprint("another lineage")
NOTHING, NEW_LIFE, OLDER_HOME = Asked(), Asked(new_life=True), Asked(older_home=True)


@pytest.fixture
def state(tmp_path: Path) -> JobState:
    """Runs 1 and 4; checkpoints at batches 3 and 6."""
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    history.complete(2, batch=6)
    history.run()
    return history.state()


def memory(life: int | None = OURS, epoch: int = 4, claim: str | None = "orders-3", **others: Any) -> Memory:
    claimed = None if claim is None else fingerprint(claim)
    return Memory("delta:/data/orders", life, FencingEpoch(epoch), claimed, **others)


def agreed(state: JobState, memory: Memory, asked: Asked = NOTHING) -> Any:
    return agree(JobName("orders"), "file:///home", state, [memory], asked)


# --- what is agreed upon, as a table ---


@pytest.mark.parametrize(
    "same",
    [
        memory(),
        memory(claim=None),
        memory(epoch=1, claim="orders-0"),
        memory(epoch=0, claim=None),
        memory(published=BatchId(6)),
        memory(published=BatchId(2)),
        memory(head=Sequence(4)),
        memory(life=None, claim=None),
        memory(life=None, epoch=0, claim=None),
    ],
)
def test_a_home_that_knows_what_others_know_goes_on(state: JobState, same: Memory) -> None:
    agreement = agreed(state, same)
    assert (agreement.new_life, agreement.older_home) == (False, False)
    assert agreement.above <= state.head, "nothing has to be claimed above"


def test_nobody_knows_the_job_so_it_begins() -> None:
    agreement = agreed(JobState(), memory(life=None, epoch=0, claim=None))
    assert not agreement.new_life


@pytest.mark.parametrize("other", [memory(), memory(life=None, claim=None), memory(epoch=0), memory(THEIRS)])
def test_an_empty_home_is_no_birth_when_somebody_knows_the_job(other: Memory) -> None:
    """A mount that is missing, a bucket that was replaced, a home that was emptied, another home by mistake."""
    with pytest.raises(Conflict, match="this home has never seen it, but delta:/data/orders knows") as refused:
        agreed(JobState(), other)
    assert "--new-life" in (refused.value.hint or "")
    assert refused.value.exit_code == 2
    assert agreed(JobState(), other, NEW_LIFE).new_life
    with pytest.raises(Conflict):
        agreed(JobState(), other, OLDER_HOME)


def test_rows_that_would_stand_there_twice_are_spoken_of() -> None:
    with pytest.raises(Conflict) as refused:
        agreed(JobState(), memory(published=BatchId(9)))
    assert "the rows in delta:/data/orders stay, so rows that are read again are duplicated" in (
        refused.value.hint or ""
    )


def test_a_new_life_is_newer_than_any_run_of_the_old_one() -> None:
    assert agreed(JobState(), memory(epoch=17, head=Sequence(40)), NEW_LIFE).above == 40


def test_a_heartbeat_that_the_other_life_left_does_not_stand_in_the_way_of_a_new_one(state: JobState) -> None:
    """It says nothing of its life. To answer one refusal led to the other, and back."""
    heartbeat = Memory("the heartbeat beside the journal", None, FencingEpoch(9), fingerprint("orders-8"))
    memories = [memory(life=THEIRS, epoch=9), heartbeat]
    agreement = agree(JobName("orders"), "file:///home", state, memories, NEW_LIFE)
    assert agreement.new_life
    assert not agreement.older_home
    assert agreement.above == 9
    with pytest.raises(Conflict, match="knows run 9"):
        agreed(state, heartbeat)


def test_another_life_is_refused(state: JobState) -> None:
    with pytest.raises(Conflict, match="another life is known elsewhere: delta:/data/orders knows run 4"):
        agreed(state, memory(THEIRS))
    assert agreed(state, memory(THEIRS), NEW_LIFE).new_life
    with pytest.raises(Conflict):
        agreed(state, memory(THEIRS), OLDER_HOME)


@pytest.mark.parametrize(
    ("ahead", "why"),
    [
        (memory(epoch=9), "knows run 9, the home's newest is run 4"),
        (memory(epoch=9, claim=None), "knows run 9, the home's newest is run 4"),
        (memory(life=None, epoch=5, claim=None), "knows run 5"),
        (memory(claim="of another history"), "knows another run 4 than the home does"),
        (memory(epoch=1, claim="of another history"), "knows another run 1"),
        (memory(epoch=2, claim="x"), "knows run 2, which the home's journal does not have"),
        (memory(head=Sequence(5)), "knows entry 5 of the journal, the home's newest is entry 4"),
        (memory(published=BatchId(7)), "shows batches up to 7, the home has a checkpoint at batch 6 and no entry"),
    ],
)
def test_a_home_that_knows_less_than_others_is_older(state: JobState, ahead: Memory, why: str) -> None:
    with pytest.raises(Conflict, match=f"older than what it is compared with: delta:/data/orders {why}") as refused:
        agreed(state, ahead)
    assert "--accept-older-home, which rewinds the output to batch 6" in (refused.value.hint or "")
    with pytest.raises(Conflict):
        agreed(state, ahead, NEW_LIFE)
    accepted = agreed(state, ahead, OLDER_HOME)
    assert accepted.older_home
    assert accepted.above >= max(ahead.epoch, ahead.head)


def test_a_run_that_a_fold_has_dropped_is_no_conflict(lives: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by attack: a savepoint keeps its old run, not those after it; and a host comes back that knew one of
    them."""
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 1)
    monkeypatch.setattr("holdfast.repository.retention.RUNS_KEPT", 1)
    home = ["--home", f"file://{lives.home}", "--job", JOB]
    assert main(["savepoint", "create", "kept", "--from", "1", *home]) == 0
    first = lives.run()
    first.batches(1)
    first.stop()
    lives.work, here = lives.work.with_name("elsewhere"), lives.work
    for _ in range(3):
        run = lives.run(retained=1)
        run.batches(2)
        run.stop()
    runs = [run.fencing_epoch for run in state_of(lives.home).runs]
    marker = read_marker(work_directory(here / JOB))
    assert marker is not None
    assert min(runs) < marker.epoch
    assert marker.epoch not in runs
    lives.work = here
    lives.run().stop()


def test_runs_of_the_home_that_this_one_was_copied_from_are_no_conflict(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.journal.claim(
        lambda stamp: msgspec.structs.replace(_run(stamp), purpose="maintenance", next_sequence=Sequence(1_000_000))
    )
    history.run()
    for epoch in (1, 9):
        agreed(history.state(), memory(epoch=epoch, claim="of the source"))
    with pytest.raises(Conflict, match="knows run 1000001"):
        agreed(history.state(), memory(epoch=1_000_001))


def _run(stamp: Stamp) -> RunStarted:
    return RunStarted(
        **stamp,
        lineage="lineage",
        process=Process("x", 1),
        heartbeat_s=5.0,
        work="",
        holdfast="0",
    )


# --- what an entry abandoned ---


def test_output_behind_the_newest_barrier_is_no_conflict_where_the_home_has_the_plans_of_it(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    shows_5 = memory(epoch=1, claim="orders-0", published=BatchId(5))
    for planned, right in ((BatchId(5), True), (BatchId(6), True), (BatchId(4), False), (None, False)):
        with nullcontext() if right else pytest.raises(Conflict, match="shows batches up to 5"):
            agree(JobName("orders"), "file:///home", history.state(), [shows_5], NOTHING, planned)


def test_a_run_that_shows_every_batch_may_have_shown_more_than_the_entry_that_gave_it_up_knows(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run(sink="delta:/data", plans="require")
    history.complete(1, batch=3)
    history._append(WentBack, chosen=CheckpointId(1), abandoned=(), asked="checkpoint 1", published=BatchId(8))
    agreed(history.state(), memory(epoch=1, claim="orders-0", published=BatchId(9)))
    history.complete(2, batch=4)
    with pytest.raises(Conflict):
        agreed(history.state(), memory(epoch=1, claim="orders-0", published=BatchId(9)))


def test_output_that_an_entry_gave_up_is_no_conflict_until_the_new_line_has_a_checkpoint(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    history.complete(2, batch=6)
    history._append(
        WentBack, chosen=CheckpointId(1), abandoned=(CheckpointId(2),), asked="checkpoint 1", published=BatchId(8)
    )
    assert abandoned_but_shown(history.state()) == 8
    shows_8 = memory(epoch=1, claim="orders-0", published=BatchId(8))
    agreed(history.state(), shows_8)
    with pytest.raises(Conflict):
        agreed(history.state(), replace(shows_8, published=BatchId(9)))
    history.complete(3, batch=4)
    assert abandoned_but_shown(history.state()) is None
    with pytest.raises(Conflict, match="shows batches up to 8, the home has a checkpoint at batch 4"):
        agreed(history.state(), shows_8)


def test_entries_of_the_first_versions_explain_what_their_checkpoints_had(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    history.complete(2, batch=6)
    history.damage(2)
    assert abandoned_but_shown(history.state()) == 6


# --- the marker of a work directory is a claim on the place ---

MARKER = WorkMarker(
    job=JobName("orders"),
    home="file:///home",
    lineage="lineage",
    home_id="h1",
    epoch=FencingEpoch(4),
    claim=AttemptId("a"),
    head=Sequence(4),
)


def changed(**fields: Any) -> WorkMarker:
    return msgspec.structs.replace(MARKER, **fields)


def test_of_two_homes_that_both_found_the_place_free_one_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker is created where there is none: who comes second finds the first one's, and changes nothing."""
    looks: Iterator[WorkMarker | None] = iter([None])
    monkeypatch.setattr(work_marker, "read_marker", lambda root: next(looks, MARKER))
    root = tmp_path / "orders"
    root.mkdir()
    (root / NAME).write_bytes(msgspec.json.encode(MARKER))
    with pytest.raises(Conflict, match="is the work directory of job 'orders' of file:///home"):
        take_place(
            work_directory(tmp_path), changed(home="file:///other", home_id="h2", lineage="other"), new_life=False
        )
    assert [path.name for path in root.iterdir()] == [NAME]
    assert (root / NAME).read_bytes() == msgspec.json.encode(MARKER)


def test_two_homes_with_one_place_and_one_job_name(tmp_path: Path) -> None:
    """The second is refused, and the first one's directory stays where it is."""
    JobFolder(work_directory(tmp_path), MARKER).fresh(FencingEpoch(4))
    other = changed(home="file:///other", home_id="h2", lineage="other")
    with pytest.raises(Conflict, match="is the work directory of job 'orders' of file:///home"):
        JobFolder(work_directory(tmp_path), other)
    assert (tmp_path / "orders" / "4-1").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["orders"]


def test_another_lineage_of_the_same_home_takes_nothing_over_by_itself(tmp_path: Path) -> None:
    JobFolder(work_directory(tmp_path), MARKER).fresh(FencingEpoch(4))
    with pytest.raises(Conflict):
        JobFolder(work_directory(tmp_path), changed(lineage="another"))
    JobFolder(work_directory(tmp_path), changed(lineage="another"), new_life=True)
    assert (tmp_path / "orders.stale-lineage" / "4-1").is_dir(), "set aside, not removed"
    assert read_marker(work_directory(tmp_path / "orders")) == changed(lineage="another")


def test_a_directory_is_not_taken_from_under_a_living_process(tmp_path: Path) -> None:
    here = current_process()
    take_place(work_directory(tmp_path), changed(process=here), new_life=False)
    other = changed(lineage="another", process=msgspec.structs.replace(here, pid=1, started_ticks=1))
    with pytest.raises(Conflict, match=f"process {here.pid} on this host works there"):
        take_place(work_directory(tmp_path), other, new_life=True)


def test_a_home_that_was_mounted_elsewhere_is_the_same_home(tmp_path: Path) -> None:
    take_place(work_directory(tmp_path), MARKER, new_life=False)
    take_place(work_directory(tmp_path), changed(home="file:///mnt/other", epoch=FencingEpoch(5)), new_life=False)
    with pytest.raises(Conflict):
        take_place(work_directory(tmp_path), changed(home="file:///third", home_id="h2"), new_life=False)


def test_a_home_whose_identity_was_lost_and_made_anew_goes_on(tmp_path: Path) -> None:
    take_place(work_directory(tmp_path), MARKER, new_life=False)
    take_place(work_directory(tmp_path), changed(home_id="h2", epoch=FencingEpoch(5)), new_life=False)
    assert read_marker(work_directory(tmp_path / "orders")) == changed(home_id="h2", epoch=FencingEpoch(5))


def test_what_was_set_aside_once_is_not_overwritten(tmp_path: Path) -> None:
    for lineage in ("lineage", "other", "lineage", "other"):
        take_place(work_directory(tmp_path), changed(lineage=lineage), new_life=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "orders",
        "orders.stale-lineage",
        "orders.stale-lineage-2",
        "orders.stale-other",
    ]


def test_a_marker_of_the_first_version_is_understood(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / NAME).write_text('{"job":"orders","home":"file:///home","lineage":"lineage"}')
    take_place(work_directory(tmp_path), MARKER, new_life=False)
    assert read_marker(work_directory(tmp_path / "orders")) == MARKER


def test_a_marker_that_cannot_be_read_is_somebodys_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "orders" / NAME).mkdir(parents=True)
    with pytest.raises(StorageError):
        take_place(work_directory(tmp_path), MARKER, new_life=False)
    (tmp_path / "orders" / NAME).rmdir()
    (tmp_path / "orders" / NAME).write_text("{")
    with pytest.raises(InvalidSettings, match="is damaged"):
        take_place(work_directory(tmp_path), MARKER, new_life=False)


def test_what_a_run_has_seen_of_the_journal_is_remembered_but_not_by_one_that_was_taken_over(tmp_path: Path) -> None:
    root = tmp_path / "orders"
    take_place(work_directory(root.parent), MARKER, new_life=False)
    remember_head(work_directory(root), MARKER, Sequence(9))
    assert read_marker(work_directory(root)) == changed(head=Sequence(9))
    newer = changed(epoch=FencingEpoch(11), claim=AttemptId("b"), head=Sequence(11))
    take_place(work_directory(root.parent), newer, new_life=False)
    remember_head(work_directory(root), MARKER, Sequence(99))
    assert read_marker(work_directory(root)) == newer


# --- whole runs, without a sink ---


class Lives:
    """One run after another."""

    def __init__(self, root: Path) -> None:
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir()
        self.clock = ManualClock()
        self.number = 0

    def run(self, **settings: object) -> ChurningRun:
        self.number += 1
        return ChurningRun(self.home, self.work, self.clock, self.number, **{"retained": 9, **settings})


@pytest.fixture
def lives(tmp_path: Path) -> Lives:
    lives = Lives(tmp_path)
    run = lives.run()
    run.batches(2)
    run.stop()
    return lives


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_home_that_was_emptied_is_not_a_new_job(lives: Lives) -> None:
    shutil.rmtree(lives.home / JOB)
    before = contents(lives.home.parent)
    with pytest.raises(Conflict, match="this home has never seen it, but the work directory"):
        lives.run()
    assert contents(lives.home.parent) == before, "a refusal leaves no trace"
    run = lives.run(new_life=True)
    assert state_of(lives.home).fencing_epoch > 5, "above what the old life's runs had"
    assert list(lives.work.glob("churn.stale-*")), "the old work directory is set aside, not removed"
    run.batches(1)
    run.stop()
    lives.run(new_life=True).stop()  # by a supervisor, with the same arguments: the same life goes on
    assert len({run.lineage for run in state_of(lives.home).runs}) == 1


def test_a_home_that_was_put_back_from_a_backup_is_older_than_its_work_directory(lives: Lives) -> None:
    backup = shutil.copytree(lives.home, lives.home.parent / "backup")
    run = lives.run()
    run.batches(2)
    run.stop()
    seen = state_of(lives.home).head
    shutil.rmtree(lives.home)
    shutil.copytree(backup, lives.home)
    before = contents(lives.home.parent)
    with pytest.raises(Conflict, match="the home is older than what it is compared with: the work directory"):
        lives.run()
    assert contents(lives.home.parent) == before
    run = lives.run(accept_older_home=True)
    assert state_of(lives.home).fencing_epoch > seen - 2, "no number is handed out twice"
    assert run.runtime._life.resumed.barrier == 1, "from the home's newest checkpoint, not from the newer directory"
    run.batches(1)
    run.stop()
    lives.run().stop()


def test_a_running_job_deletes_nothing_in_a_home_that_was_put_back_under_it(tmp_path: Path) -> None:
    """What it has retired since is what the checkpoints of the older home consist of."""
    home = tmp_path / "home"
    home.mkdir()
    run = ChurningRun(home, tmp_path / "work", ManualClock(), retained=1, grace="10s")
    run.batches(3)
    backup = shutil.copytree(home, tmp_path / "backup")
    run.batches(3)
    shutil.rmtree(home / JOB)
    shutil.copytree(backup / JOB, home / JOB)
    run.wait(60)
    assert needed_keys(home) <= stored_keys(home)
    shutil.rmtree(tmp_path / "work")
    ChurningRun(home, tmp_path / "work", run.clock, 1, retained=1, accept_older_home=True).stop()
    assert not state_of(home).corrupt


@pytest.mark.parametrize("first", ["blobs/", "journal/"])
def test_a_run_that_slept_between_two_deletions_deletes_nothing_in_a_home_that_was_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A proof from before it slept proves nothing: what it retired since, the older home's checkpoints need."""
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 6)
    monkeypatch.setattr(carrier, "PACKED_BELOW", 300)
    home, backup, clock = tmp_path / "home", tmp_path / "backup", ManualClock()
    home.mkdir()
    before: list[set[str]] = []

    def sleep_behind_the_first(operation: str, key: str) -> None:
        if operation == "delete" and key.startswith(first) and backup.exists() and not before:
            put_back(home, backup)
            clock.sleep(HOLDS_S + 1)
            before.append(all_keys(home))

    run = ChurningRun(home, tmp_path / "work", clock, retained=1, grace="10s", watch=sleep_behind_the_first)
    run.batches(3)
    shutil.copytree(home, backup)
    run.batches(12)
    assert before, "it slept"
    assert before[0] <= all_keys(home)


def test_folded_entries_are_deleted_in_the_runs_own_home_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a home that was put back to when the fold was written, and no entry had made it official, they are needed."""
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 6)
    home, backup = tmp_path / "home", tmp_path / "backup"
    home.mkdir()
    clear = Collector._clear_folded
    cleared: list[JobState] = []

    def keep_backup(operation: str, key: str) -> None:
        if operation in ("put", "create") and key.startswith("folds/") and not backup.exists():
            shutil.copytree(home, backup)

    def put_back_first(collector: Collector) -> None:
        if collector._folded and backup.exists() and not cleared:
            put_back(home, backup)
            cleared.append(state_of(home))
        clear(collector)

    monkeypatch.setattr(Collector, "_clear_folded", put_back_first)
    ChurningRun(home, tmp_path / "work", ManualClock(), watch=keep_backup).batches(8)
    assert cleared == [state_of(home)]
    assert cleared[0].folded is None


def test_a_request_is_removed_from_the_runs_own_home_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a home that was put back it has no answer: whoever asked waits for the next run to serve it."""
    desk = Desk(tmp_path)
    finish = Serving._finish
    home = desk.home
    backups: list[Path] = []

    def put_back_first(serving: Serving) -> None:
        if backups:
            put_back(home, backups.pop())
        finish(serving)

    monkeypatch.setattr(Serving, "_finish", put_back_first)
    run = desk.run()
    run.query.batch()
    run.wait(0.5)
    request = desk.request("savepoint", "one")
    backups.append(shutil.copytree(home, tmp_path / "backup"))
    answered_by(run)
    assert not backups, "it was put back after the answer and before the request was removed"
    assert read_request(desk.store) == request


def all_keys(home: Path) -> set[str]:
    return {item.key for item in LocalStore(home, within=JOB).list("")}


def put_back(home: Path, backup: Path) -> None:
    shutil.rmtree(home / JOB)
    shutil.copytree(backup / JOB, home / JOB)


def test_a_collection_of_what_was_put_back_meanwhile_deletes_nothing_there(
    lives: Lives, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = shutil.copytree(lives.home, lives.home.parent / "backup")

    def put_back_first(*args: Any, **options: Any) -> freeing.Freed:
        shutil.rmtree(lives.home / JOB)
        shutil.copytree(backup / JOB, lives.home / JOB)
        return free(*args, **options)

    free = freeing.free
    monkeypatch.setattr(freeing, "free", put_back_first)
    assert main(["collect", "--home", f"file://{lives.home}", "--job", JOB, "--retained", "1", "--grace", "0s"]) == 6
    assert "is not the home that this run has written to" in capsys.readouterr().err
    assert len(state_of(lives.home).retained()) == 2
    assert needed_keys(lives.home) <= stored_keys(lives.home)


@pytest.mark.parametrize("became", ["older", "emptied", "another life"])
def test_what_needs_no_entry_is_not_freed_in_a_home_that_came_meanwhile(tmp_path: Path, became: str) -> None:
    """The home is so full that nobody can claim the job in it; what is needless is known from before."""
    history = History(tmp_path / "home")
    history.run()
    history.complete(1)
    backup = shutil.copytree(tmp_path / "home", tmp_path / "backup")
    history.complete(2)
    history.retire(1)
    history.end()
    state = history.state()
    history.store.put("blobs/of-1", b"x")
    needless = [Unneeded("blobs/of-1", 1, Why.RETIRED)]
    shutil.rmtree(tmp_path / "home" / "orders")
    if became == "older":
        shutil.copytree(backup / "orders", tmp_path / "home" / "orders")
    elif became == "another life":
        other = History(tmp_path / "home", attempts="other")
        other.run()
        for id in (1, 2):
            other.complete(id)
        other.end()
    history.store.put("blobs/of-1", b"x")
    with pytest.raises((HomeReplaced, Fenced)):
        freeing.free_without_owning(history.store, state, needless, Allowance(100), lambda done: None)
    assert history.store.exists("blobs/of-1")


def test_folded_entries_are_not_deleted_in_a_home_that_was_put_back_meanwhile(
    tmp_path: Path,
) -> None:
    """What the fold stands for is all that the older home has. It has the fold, too: that was there before the entry
    which made it official."""
    history = History(tmp_path / "home")
    history.run()
    history.complete(1)
    backup = shutil.copytree(tmp_path / "home", tmp_path / "backup")
    history.journal.fold(frozenset(), Sequence(0))
    fold = next(item.key for item in history.store.list("folds/"))
    there = history.store.get(fold)
    shutil.rmtree(tmp_path / "home" / "orders")
    shutil.copytree(backup / "orders", tmp_path / "home" / "orders")
    history.store.put(fold, there)
    with pytest.raises(HomeReplaced):
        freeing.clear(history.store, history.journal)
    assert len(list(history.store.list("journal/"))) == 2


def test_a_backup_of_the_very_same_run_is_noticed_too(lives: Lives) -> None:
    """Epoch and claim are the same; only entries are missing."""
    run = lives.run()
    run.batches(1)
    backup = shutil.copytree(lives.home, lives.home.parent / "backup")
    run.batches(2)
    shutil.rmtree(lives.home)
    shutil.copytree(backup, lives.home)
    with pytest.raises(Conflict, match="knows entry"):
        lives.run()


def test_the_same_epoch_with_another_claim_is_noticed(lives: Lives, tmp_path: Path) -> None:
    """A home that was put back hands the same number out again, on another host."""
    backup = shutil.copytree(lives.home, tmp_path / "backup")
    lives.run().stop()
    shutil.rmtree(lives.home)
    shutil.copytree(backup, lives.home)
    elsewhere = Lives.__new__(Lives)
    elsewhere.home, elsewhere.work, elsewhere.clock, elsewhere.number = lives.home, tmp_path / "w2", lives.clock, 50
    run = elsewhere.run()
    run.batches(2)
    run.stop()
    with pytest.raises(Conflict, match="knows another run"):
        lives.run()


# --- places that overlap ---


@pytest.mark.parametrize(
    ("home", "work", "sink"),
    [
        ("file:///data/t/home", "/work", "delta:/data/t"),
        ("file:///data", "/work", "files:/data/out"),
        ("file:///data/home", "/data/home", None),
        ("file:///data/home", "/data/home/work", None),
        ("file:///work/orders", "/work", None),
        ("file:///home", "/data/t/work", "delta:/data/t"),
        ("hdfs://nn:8020/a", "hdfs://nn:8020/a/work", None),
        ("hdfs://nn/a", "hdfs://nn:8020/a/work", None),
        ("hdfs://nn:8020/a", "hdfs://NN/a/work", None),
        ("s3://bucket/x", "/work", "delta:s3a://bucket/x/table"),
        ("s3://bucket", "/work", "delta:s3://bucket/table"),
        ("file:///data/%68ome", "/data/home/x", None),
        ("file:///data/other/../home", "/data/home/x", None),
    ],
)
def test_places_that_lie_in_one_another_are_refused(home: str, work: str, sink: str | None) -> None:
    with pytest.raises(InvalidSettings, match="lies in"):
        require_apart(home, work, sink)


@pytest.mark.parametrize(
    ("home", "work", "sink"),
    [
        ("file:///data/home", "/data/work", "delta:/data/table"),
        ("file:///data/home", "/data/home2", None),
        ("hdfs://one:8020/a", "hdfs://two:8020/a/b", None),
        ("hdfs://one:8020/a", "/a/b", None),
        ("hdfs://one/a", "hdfs://one:9000/a/b", None),
        ("s3://bucket/x", "/work", "delta:s3://bucket/y"),
        ("s3://one/x", "/work", "delta:s3://two/x/y"),
        ("file:///data/home", "/work", "a sink of somebody's own"),
    ],
)
def test_places_side_by_side_are_fine(home: str, work: str, sink: str | None) -> None:
    require_apart(home, work, sink)


def test_a_symbolic_link_does_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    with pytest.raises(InvalidSettings, match="lies in"):
        require_apart(f"file://{tmp_path}/home", f"{tmp_path}/link/work", None)


# --- whole jobs with a sink ---


def test_an_emptied_home_does_not_write_every_row_again(job: Job) -> None:
    """Mount missing, bucket replaced: today's code began anew, exit 0, and each row stood there twice."""
    job.lived(3)
    shutil.rmtree(job.home)
    job.home.mkdir()
    job.wipe_work()
    before = contents(job.root)
    with pytest.raises(Conflict, match=r"this home has never seen it, but .*out knows run \d+, output up to batch 2"):
        job.run()
    assert contents(job.root) == before, "a refusal leaves no trace"
    run = job.run(new_life=True)  # the hint, followed: it says that rows will stand there twice
    run.batches(2)
    run.stop()
    assert job.rows() == sorted(delta_rows(3) + delta_rows(2))
    job.lived(1)  # the new life goes on without being told
    assert job.rows() == sorted(delta_rows(3) + delta_rows(3))


def test_another_home_by_mistake_is_refused(job: Job) -> None:
    job.lived(2)
    other = Job(job.root / "other", job.kind)
    other.number = 40  # its lineage comes from another process
    other.lived(1)
    other.place = job.place
    with pytest.raises(Conflict, match="another life is known elsewhere"):
        other.run()
    job.lived(1)
    job.require_rows(3)


@pytest.mark.parametrize("wiped", [False, True])
def test_a_home_older_than_its_sink_is_refused_and_carried_out_exactly_when_asked_for(job: Job, wiped: bool) -> None:
    """Rows that readers had seen were taken back without a word, or were gone for good."""
    job.lived(2)
    backup = job.backup()
    job.lived(3)
    job.put_back(backup)
    if wiped:
        job.wipe_work()
    before = contents(job.root)
    with pytest.raises(Conflict, match="the home is older than what it is compared with"):
        job.run()
    assert contents(job.root) == before
    job.require_rows(5)
    run = job.run(accept_older_home=True)
    job.require_rows(2)
    job.goes_on(run, 2, rows=4)
    job.lived(1)
    job.require_rows(5)


def test_a_home_so_old_that_the_sink_has_forgotten_its_batches_can_still_be_gone_on_from(job: Job) -> None:
    """With what the hint says, rows of forgotten batches stayed in the table and stood there twice."""
    job.lived(2, retained=2)
    backup = job.backup()
    job.lived(8, retained=2)
    job.put_back(backup)
    job.wipe_work()
    if job.kind == "delta":
        with pytest.raises(Conflict, match="is not recorded") as refusal:
            job.run(accept_older_home=True)
        assert "--accept-older-home --accept-sink" in str(refusal.value.hint)
    job.lived(2, accept_older_home=True, accept_sink=True)
    job.require_rows(4)
    job.lived(1)
    job.require_rows(5)


def test_output_beyond_what_the_journal_has_is_refused(job: Job) -> None:
    """Epochs may have caught up by restarts: it is what readers see that counts."""
    job.lived(2)
    backup = job.backup()
    run = job.run()
    run.batches(2)
    run.stop()
    job.put_back(backup)
    job.wipe_work()
    with pytest.raises(Conflict):
        job.run()
    job.require_rows(4)


@pytest.mark.parametrize("step", ["run.claimed", "recovery.directory", "recovery.fenced"])
def test_a_death_while_an_older_home_is_accepted(job: Job, step: str) -> None:
    job.lived(2)
    backup = job.backup()
    job.lived(3)
    job.put_back(backup)
    with pytest.raises(KeyboardInterrupt):
        job.run(accept_older_home=True, step=dying_at(step))
    with pytest.raises(Conflict):
        job.run()
    job.lived(1, accept_older_home=True)
    job.require_rows(3)


@pytest.mark.parametrize("batches", [1, 2, 4])
@pytest.mark.parametrize("wiped", [False, True])
def test_a_home_whose_batches_were_made_anew_over_another_copy_is_not_mixed_with_them(
    job: Job, batches: int, wiped: bool
) -> None:
    """An older copy was accepted and went on, then the newer one was put back and accepted too: the sink was rewound to
    a batch number that meant other rows there, and those between the two were gone without a word."""
    job.lived(2)
    older = job.backup("older")
    job.lived(2)
    newer = job.backup("newer")
    for home in (older, newer):
        job.put_back(home)
        if wiped:
            job.wipe_work()
        if home == older:
            job.lived(batches, accept_older_home=True)
    head = state_of(job.home).head
    for _ in range(2):  # a refusal leaves nothing behind that the next start would take for an explanation
        with pytest.raises(Conflict, match="shows batches from 2 on of a later run") as refusal:
            job.run(accept_older_home=True)
        with pytest.raises(Conflict):
            job.run()
    assert state_of(job.home).head == head, "not even claimed"
    job.require_rows(2 + batches)
    assert "--from-checkpoint 2" in str(refusal.value.hint)
    job.lived(3, accept_older_home=True, from_checkpoint=2)
    job.require_rows(5)
    job.lived(1)
    job.require_rows(6)


def test_a_copy_from_before_its_source_passed_a_checkpoint_over_is_not_mixed_with_what_came_after(job: Job) -> None:
    job.lived(3, plans="off")
    (job.root / "copy").mkdir()
    copy = ["copy", "--home", f"file://{job.home}", "--job", "churn", "--all", "--to", f"file://{job.root}/copy"]
    assert main(copy) == 0
    newest = max(state_of(job.home).retained(), key=lambda entry: entry.id)
    LocalStore(job.home, within=JobName("churn")).delete(manifest_key(newest.manifest))
    job.wipe_work()
    job.lived(1, plans="off")  # batch 2 is made anew
    job.home = job.root / "copy"
    job.wipe_work()
    for settings in ({}, {}, {"accept_older_home": True}):  # nor by going on in what the refused start has restored
        with pytest.raises(Conflict, match="shows batches from 2 on of a later run"):
            job.run(**settings)
    job.lived(2, accept_older_home=True, from_checkpoint=2)
    job.require_rows(4)


def test_a_copy_goes_on_with_what_its_source_made(job: Job) -> None:
    job.lived(3)
    job.lived(1)
    (job.root / "copy").mkdir()
    copy = ["copy", "--home", f"file://{job.home}", "--job", "churn", "--all", "--to", f"file://{job.root}/copy"]
    assert main(copy) == 0
    job.home = job.root / "copy"
    job.wipe_work()
    job.killed(0)
    job.lived(1)
    job.require_rows(5)


def test_a_sink_that_was_emptied_is_refused_and_taken_as_it_is_when_asked_for(job: Job) -> None:
    job.lived(3)
    shutil.rmtree(job.place)
    with pytest.raises(Conflict, match=r"it has a checkpoint at batch 2, and .* holds no output of it"):
        job.run()
    assert not job.place.exists(), "a refusal leaves no trace"
    run = job.run(accept_sink=True)
    run.batches(2)
    run.stop()
    assert job.rows() == delta_rows(5)[6:]


def test_a_sink_put_back_from_an_older_copy_gets_every_row_when_the_job_goes_back_to_it(job: Job) -> None:
    """The only way that the refusal named was to go on without the rows."""
    job.lived(2)
    older = shutil.copytree(job.place, job.root / "older")
    job.lived(2)
    shutil.rmtree(job.place)
    shutil.copytree(older, job.place)
    with pytest.raises(Conflict, match="put back from an older copy, and shows batches up to 1") as refusal:
        job.run()
    assert "--from-checkpoint 2;" in str(refusal.value.hint)
    job.lived(3, from_checkpoint=2)
    job.require_rows(5)


def test_a_look_at_the_sink_that_is_out_of_date_is_taken_again(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulation, seed 7074: runs came and went between look and claim, and the sink was said to be put back."""
    job.lived(2)
    looks, look = [], SinkQuery.look_at_sink

    def out_of_date_at_first(query: SinkQuery, context: SinkContext) -> SinkState | None:
        found = look(query, context)
        looks.append(found)
        assert found is not None
        return msgspec.structs.replace(found, fencing_epoch=FencingEpoch(0), claim=None) if len(looks) == 1 else found

    monkeypatch.setattr(SinkQuery, "look_at_sink", out_of_date_at_first)
    job.lived(1)
    assert len(looks) > 1
    job.require_rows(3)


def test_a_sink_put_back_to_before_its_batches_were_made_anew_is_refused(job: Job) -> None:
    """It shows as many batches as it should, and they are those of a line that was abandoned."""
    job.lived(2)
    older = shutil.copytree(job.place, job.root / "older")
    job.lived(1, from_checkpoint=1)
    shutil.rmtree(job.place)
    shutil.copytree(older, job.place)
    for _ in range(2):
        with pytest.raises(Conflict, match=r"the newest run that .* knows is run 1: it was put back") as refusal:
            job.run()
    assert "--from-checkpoint" not in str(refusal.value.hint), "that was carried out, and is not carried out again"
    job.lived(1, accept_sink=True)
    job.require_rows(3)


def test_a_directory_whose_staged_files_are_gone_is_left_and_its_batches_are_made_anew(job: Job) -> None:
    """The run went on in it, and what it could not publish any more was in every checkpoint from then on."""
    run = job.run()
    run.batches(2)
    run.query.batch()
    lose_staged(job, 2)
    job.lived(1)
    job.require_rows(3)


def test_a_checkpoint_whose_staged_files_are_gone_is_refused_with_the_ways_out(job: Job) -> None:
    run = job.run()
    run.batches(1)
    run.query.sink.publish = unreachable
    run.batches(2)
    lose_staged(job, 1)
    head = state_of(job.home).head
    for wiped in (False, True):
        if wiped:
            job.wipe_work()
        with pytest.raises(Conflict, match=r"files that batches from 1 on staged for .* are gone") as refusal:
            job.run()
        assert state_of(job.home).head == head, "not even claimed"
    assert "--from-checkpoint 1;" in str(refusal.value.hint)
    job.require_rows(1)
    beside = copy.copy(job)
    beside.root = job.root / "beside"
    for place in ("home", "place"):
        setattr(beside, place, shutil.copytree(getattr(job, place), beside.root / place))
    beside.work = beside.root / "work"
    job.lived(2, from_checkpoint=1)
    job.require_rows(3)
    beside.lived(1, accept_sink=True)
    assert beside.rows() == expected(0, 2, 3), "the others are there"


def unreachable(*_: object) -> None:
    raise StorageUnreachable("no connection")


def lose_staged(job: Job, batch: int) -> None:
    files = [path for path in job.place.rglob("*.parquet") if f"/{batch}-" in path.parent.as_posix()]
    assert files
    for path in files:
        path.unlink()


@pytest.mark.parametrize("step", ["run.claimed", "recovery.directory", "recovery.fenced", "recovery.aligned"])
def test_a_death_while_an_emptied_sink_is_accepted(job: Job, step: str) -> None:
    job.killed(3)
    shutil.rmtree(job.place)
    with pytest.raises(KeyboardInterrupt):
        job.run(accept_sink=True, step=dying_at(step))
    if step != "recovery.aligned":
        with pytest.raises(Conflict, match="--accept-sink"):
            job.run()
    job.lived(2, accept_sink=True)
    job.lived(1)
    assert job.rows() == delta_rows(6)[6:]


def test_one_that_another_home_wrote_to_is_not_taken_over_by_a_stale_run(job: Job) -> None:
    job.killed(2)
    job.lived(1)
    job.require_rows(3)


def delta_rows(batches: int) -> list[int]:
    return expected(*range(batches))


def test_a_journal_that_lost_its_newest_entries_is_older_than_the_heartbeat_beside_it(job: Job) -> None:
    """What is left is a chain without a gap. On another host, without the work directory, only the heartbeat knows."""
    run = job.run()
    run.batches(3)
    run.runtime._storage.watch.beat()
    entries = sorted(job.home.glob("*/journal/*.json"))
    for entry in entries[-2:]:
        entry.unlink()
    job.wipe_work()
    before = job.rows()

    with pytest.raises(Conflict, match="the heartbeat beside the journal knows entry"):
        job.run()

    assert job.rows() == before


def test_a_process_that_its_machine_put_back_in_time_does_not_go_on_beside_or_behind_itself(tmp_path: Path) -> None:
    """A snapshot of a virtual machine, its memory included: what the run wrote since is in the home, and not in its
    work directory. Its own claim is in those entries, so only what this very process tried is its own."""
    history = History(tmp_path / "home")
    history.run()
    history.complete(1)
    snapshot = copy.deepcopy(history.journal)
    history.complete(2)
    double = History(tmp_path / "home")
    double.journal = snapshot
    with pytest.raises(Fenced, match="put back from a snapshot, or runs twice"):
        double.complete(2)
    with pytest.raises(Fenced):
        double.end()
    history.complete(3)
    assert [entry.id for entry in history.state().retained()] == [1, 2, 3]


@pytest.mark.parametrize("flag", ["new_life", "accept_older_home", "accept_sink"])
def test_a_start_that_may_accept_a_loss_says_that_the_next_one_may_too(
    job: Job, caplog: pytest.LogCaptureFixture, flag: str
) -> None:
    """Left in a unit file it would accept what nobody has looked at."""
    job.lived(1)
    assert "is for this start only" not in caplog.text
    for _ in range(2):
        caplog.clear()
        job.lived(1, **{flag: True})
        assert f"--{flag.replace('_', '-')} is for this start only: remove it" in caplog.text
    job.require_rows(3)
