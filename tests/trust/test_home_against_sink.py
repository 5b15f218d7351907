"""A home and a sink that do not know the same: whole jobs, with what an operator may decide."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import msgspec
import pytest

from holdfast.checkpoint.manifest import manifest_key
from holdfast.cli.main import main
from holdfast.errors import Conflict, Fenced, StorageUnreachable
from holdfast.identifiers import FencingEpoch, JobName
from holdfast.sinks.protocol import SinkContext, SinkState
from holdfast.storage.local import LocalStore
from tests.trust.files_sink import expected
from tests.trust.jobs_with_sinks import Job, SinkQuery, contents, dying_at
from tests.trust.jobs_with_sinks import job as job
from tests.unit.churning_runs import state_of
from tests.unit.job_histories import History


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
