"""A start on the previous run's directory needs the journal alone; what the home holds is learnt afterwards."""

from pathlib import Path

from tests.unit.churning_runs import ChurningRun, ManualClock, state_of, stored_keys


def all_but_the_journal(key: str) -> bool:
    return key.startswith(("manifests/", "blobs/", "packs/"))


def killed_after(batches: int, home: Path, work: Path) -> ChurningRun:
    home.mkdir()
    run = ChurningRun(home, work, ManualClock(), retained=3)
    run.batches(batches)
    return run


def test_a_run_resumes_locally_though_nothing_but_the_journal_can_be_read(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    dead = killed_after(5, home, work)
    before = stored_keys(home)
    run = ChurningRun(home, work, dead.clock, seed=1, unreadable=all_but_the_journal, retained=3)
    assert (run.query.directory / "commits" / "4").exists()

    run.batches(4)
    completed = state_of(home).restorable()
    assert completed[0].barrier_batch_id == 8, "checkpoints are written, though none can be read"
    assert before <= stored_keys(home), "what cannot be known to be useless is kept"

    run.store.unreadable = lambda key: False
    run.wait(90)
    run.batches(1)
    run.wait(10)
    data = {key for key in before if not key.startswith("manifests/")}
    assert not data & stored_keys(home), "it was looked through later, and all of it is retired"
    run.stop()


def test_what_earlier_runs_uploaded_is_known_when_the_first_checkpoint_begins(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    dead = killed_after(5, home, work)
    last = state_of(home).restorable()[0]
    run = ChurningRun(home, work, dead.clock, seed=1, retained=3)
    run.batches(1)
    newest = state_of(home).restorable()[0]
    assert newest.id > last.id
    assert newest.bytes_new < newest.bytes_total - newest.bytes_new, "most of it was found in the home"
    run.stop()
