"""A run beside somebody else's query, step by step and without Spark: what it takes, what it sees, what it refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from holdfast.alarm import Alarm
from holdfast.cli.main import main
from holdfast.errors import Conflict, Fenced, HoldfastError, InvalidSettings, JobFailed, NotFound
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.plans.log import PlanLog
from holdfast.repository.lines import line_folder
from holdfast.repository.ownership import current_process
from holdfast.runtime.ports import RunDirectory, Supervisor
from holdfast.runtime.protecting.launching import find, protect
from holdfast.runtime.protecting.query import ProtectedQuery
from holdfast.runtime.run.components import Threads
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.loop import Runtime
from holdfast.runtime.run.original import require_protected_at_rest
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from holdfast.workdir.restorer import restore
from tests.damage import flipped
from tests.unit.churning_runs import JOB, ChurningQuery, ChurningRun, ManualClock, manifest_of, state_of
from tests.unit.work_files import write

METADATA = b'{"id":"%s"}'
QUERY = b"00000000-0000-4000-8000-000000000000"


class Protection(ChurningRun):
    def __init__(self, root: Path, query: ChurningQuery, clock: ManualClock, **settings: Any) -> None:
        self._accept_older = settings.pop("accept_older", False)
        self.told: list[Alarm] = []
        super().__init__(root / "home", root / "cp", clock, query=query, alarms=[self.told.append], **settings)

    def _launched(self, place: JobLocation, threads: Threads) -> Runtime:
        found = find(place.work, work_directory(Path(place.work.location).parent))
        beside = ProtectedQuery(place.work, found.query, self.clock)
        receivers = (self.told.append,)
        return protect(place, found, beside, threads, self._finish, receivers, accept_older=self._accept_older)

    def alarms(self) -> list[tuple[str, str]]:
        return [(alarm.code, "over" if alarm.cleared else alarm.severity) for alarm in self.told]


class Plain:
    """A query that somebody else runs in <root>/cp, and its protections."""

    def __init__(self, root: Path) -> None:
        self.root, self.home, self.directory = root, root / "home", root / "cp"
        self.home.mkdir()
        self.clock = ManualClock()
        self.query = ChurningQuery(7)
        self.query.directory = self.directory
        self.begin(QUERY)

    def begin(self, query: bytes) -> None:
        write(self.directory, {"metadata": METADATA % query})

    def batches(self, count: int) -> None:
        for _ in range(count):
            self.query.batch()

    def plan(self, batch: int, text: str = "") -> None:
        write(self.directory, {f"offsets/{batch}": f"v1\n{{}}\n{batch}{text}".encode()})

    def protected(self, **settings: Any) -> Protection:
        return Protection(self.root, self.query, self.clock, **settings)

    def barriers(self) -> list[int]:
        return [entry.barrier_batch_id for entry in state_of(self.home).completed.values()]

    def plans(self) -> list[int]:
        state = state_of(self.home)
        newest = state.newest_of_the_line()
        after = BatchId(newest.barrier_batch_id) if newest is not None else None
        log = PlanLog(LocalStore(self.home, within=JOB), line_folder(state))
        return [plan.batch_id for plan in log.behind(after).plans]

    def restore(self) -> None:
        """As `holdfast restore` does, in the place of the directory."""
        shutil.rmtree(self.directory, ignore_errors=True)
        newest = state_of(self.home).restorable()[0]
        restore(LocalStore(self.home, within=JOB), manifest_of(self.home, newest), work_directory(self.directory))

    def seen(self) -> dict[str, tuple[int, int, bytes]]:
        """Everything below and beside the directory, but for the home, to the nanosecond."""
        paths = [path for path in (self.root, *self.root.rglob("*")) if self.home not in (path, *path.parents)]
        return {
            str(path): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in paths
        }


@pytest.fixture
def plain(tmp_path: Path) -> Plain:
    made = Plain(tmp_path)
    made.batches(2)
    return made


def test_checkpoints_are_taken_at_barriers_and_the_directory_is_only_read(plain: Plain) -> None:
    before = plain.seen()
    run = plain.protected()
    run.wait(2)
    assert plain.barriers() == [1]
    assert plain.seen() == before
    plain.batches(1)
    before = plain.seen()
    run.wait(2)
    assert plain.barriers() == [1, 2]
    run.wait(5)
    assert plain.barriers() == [1, 2], "nothing was committed since"
    assert plain.seen() == before
    (run_started,) = state_of(plain.home).runs
    assert (run_started.protects, run_started.work) == (str(plain.directory), "")
    run.stop()


def test_a_checkpoint_restores_as_the_directory_was(plain: Plain, tmp_path: Path) -> None:
    run = plain.protected()
    run.wait(2)
    run.stop()
    state = {path.name: path.read_bytes() for path in plain.directory.rglob("state/*/*/*")}
    plain.restore()
    assert {path.name: path.read_bytes() for path in plain.directory.rglob("state/*/*/*")}.items() <= state.items()
    assert sorted(path.name for path in (plain.directory / "commits").iterdir()) == ["0", "1"]


def test_a_plan_is_in_the_home_a_moment_after_it_was_made(plain: Plain) -> None:
    run = plain.protected(interval="1h")
    plain.plan(2)
    run.wait(0.5)
    assert plain.plans() == [0, 1, 2], "before any checkpoint, and before batch 2 is committed"
    run.stop()
    assert plain.barriers() == [1]
    assert plain.plans() == [2]


def test_a_stop_takes_a_last_checkpoint_if_there_is_a_newer_barrier(plain: Plain) -> None:
    run = plain.protected(interval="1h")
    plain.batches(1)
    plain.plan(3)
    run.stop()
    assert (plain.barriers(), plain.plans()) == ([2], [3])
    again = plain.protected(interval="1h")
    again.stop()
    assert plain.barriers() == [2], "nothing was committed since"


def test_the_next_run_goes_on_and_so_does_a_query_that_was_restarted(plain: Plain) -> None:
    plain.protected().stop()
    plain.batches(2)
    run = plain.protected()
    run.wait(2)
    run.stop()
    assert plain.barriers() == [1, 3]
    assert state_of(plain.home).went_back is None
    assert not [alarm for alarm in run.alarms() if alarm[1] != "over"]


def test_plans_wait_for_a_home_that_does_not_answer(plain: Plain) -> None:
    run = plain.protected(interval="1h")
    run.wait(0.5)
    run.store.refuses = lambda key, data: "plans/" in key
    plain.plan(2)
    run.wait(1)
    assert ("plans_late", "warning") in run.alarms()
    run.store.refuses = lambda key, data: False
    run.wait(1)
    assert run.alarms()[-1] == ("plans_late", "over")
    assert plain.plans() == [0, 1, 2]
    run.stop()


def test_a_directory_that_is_gone_is_told_and_waited_for(plain: Plain) -> None:
    run = plain.protected()
    run.wait(2)
    aside = plain.directory.with_name("elsewhere")
    plain.directory.rename(aside)
    run.wait(3)
    assert run.alarms() == [("directory_gone", "critical")]
    shutil.copytree(aside, plain.directory)
    run.wait(1)
    assert run.alarms()[-1] == ("directory_gone", "over")
    plain.batches(1)
    run.wait(2)
    assert plain.barriers() == [1, 2], "a copy in its place is the same history"
    run.stop()
    assert len(run.alarms()) == 2


def test_a_stop_while_the_directory_is_gone_says_what_to_do_about_the_directory(plain: Plain) -> None:
    run = plain.protected()
    run.wait(2)
    plain.directory.rename(plain.directory.with_name("elsewhere"))
    run.wait(1)
    run.runtime.stop(None, lambda answer: None)
    run.settle()
    assert isinstance(run.failure, HoldfastError)
    assert run.failure.hint == f"if it was moved, protect the new place; if it is lost: holdfast restore {JOB} DIR"
    hints = {alarm.code: alarm.hint for alarm in run.told if not alarm.cleared}
    assert hints["plans_late"].startswith("make the directory readable again")


def test_no_checkpoint_begins_while_the_directory_is_gone(plain: Plain) -> None:
    run = plain.protected(interval="5s")
    run.wait(6)
    plain.batches(1)
    run.wait(0.5)
    aside = plain.directory.rename(plain.directory.with_name("elsewhere"))
    run.wait(20)
    assert state_of(plain.home).failed == []
    aside.rename(plain.directory)
    run.wait(6)
    assert plain.barriers() == [1, 2]
    assert run.alarms() == [("directory_gone", "critical"), ("directory_gone", "over")]
    run.stop()


def test_another_query_in_its_place_ends_the_run_and_is_never_mixed_in(plain: Plain) -> None:
    run = plain.protected()
    run.wait(2)
    shutil.rmtree(plain.directory)
    plain.begin(b"11111111-0000-4000-8000-000000000000")
    plain.batches(6)
    run.wait(2)
    assert run.over
    assert isinstance(run.failure, Conflict)
    assert "now query 11111111" in run.failure.message
    assert "--job NAME" in (run.failure.hint or "")
    assert [code for code, severity in run.alarms() if severity == "critical"][-1] == "directory_replaced"
    assert plain.barriers() == [1]
    with pytest.raises(Conflict, match="the job holds query 00000000") as refused:
        plain.protected()
    assert "--job NAME" in (refused.value.hint or "")
    assert plain.barriers() == [1]


def test_what_was_copied_of_another_query_never_becomes_a_checkpoint(plain: Plain) -> None:
    """It appears between the look and the copy."""
    run = plain.protected(interval="1h")
    run.wait(0.5)
    plain.batches(1)
    run.query.directory = plain.directory
    run.runtime.request("checkpoint", None, lambda answer: None)
    shutil.rmtree(plain.directory)
    plain.begin(b"11111111-0000-4000-8000-000000000000")
    plain.batches(4)
    run.settle()
    run.wait(1)
    assert run.over
    assert plain.barriers() == []


def test_a_directory_that_was_restored_goes_on_in_the_next_run(plain: Plain) -> None:
    run = plain.protected(interval="1h")
    plain.batches(1)
    run.runtime.request("checkpoint", None, lambda answer: None)
    run.settle()
    plain.batches(2)
    run.wait(0.5)
    assert (plain.barriers(), plain.plans()) == ([2], [3, 4])
    plain.restore()
    run.wait(1)
    assert run.over
    assert isinstance(run.failure, JobFailed)
    assert "had planned batch 4, and now ends with batch 2" in run.failure.message
    again = plain.protected(interval="1h")
    plain.plan(3)
    again.wait(0.5)
    assert state_of(plain.home).went_back is None, "batch 3 reads what it read before"
    assert plain.plans() == [3, 4]
    plain.plan(4, " and another file")
    again.wait(0.5)
    went = state_of(plain.home).went_back
    assert went is not None
    assert "has cut batch 4 anew" in went.asked
    assert (went.abandoned, plain.plans()) == ((), [3, 4]), "on a line of their own"
    write(plain.directory, {"commits/3": b"v1\n{}", "commits/4": b"v1\n{}"})
    for number in (4, 5):
        write(plain.directory, {f"state/0/{part}/{number}.snapshot": b"x" * 9 for part in range(2)})
    again.stop()
    assert plain.barriers() == [2, 4]
    newest = state_of(plain.home).newest_of_the_line()
    assert newest is not None
    assert newest.line == went.sequence


def test_an_older_copy_is_refused_until_the_user_agrees(plain: Plain) -> None:
    run = plain.protected()
    run.wait(2)
    copy = plain.directory.with_name("copy")
    shutil.copytree(plain.directory, copy)
    plain.batches(2)
    run.wait(2)
    run.stop()
    shutil.rmtree(plain.directory)
    copy.rename(plain.directory)
    with pytest.raises(Conflict, match=r"checkpoint 2 was taken at batch 3, and the directory ends with batch 1") as no:
        plain.protected()
    assert "--accept-older-directory" in (no.value.hint or "")
    again = plain.protected(accept_older=True)
    plain.batches(3)
    again.wait(2)
    again.stop()
    went = state_of(plain.home).went_back
    assert went is not None
    assert (went.chosen, went.abandoned) == (1, (2,))
    assert plain.barriers() == [1, 3, 4]
    assert [entry.id for entry in state_of(plain.home).restorable()] == [3, 1]


def test_an_older_copy_without_any_checkpoint_of_the_job_needs_another_name(plain: Plain) -> None:
    plain.protected().stop()
    plain.plan(1, " of somebody else")
    with pytest.raises(Conflict, match="and the directory has another batch 1"):
        plain.protected()
    with pytest.raises(Conflict, match="none of its checkpoints is of this directory's history"):
        plain.protected(accept_older=True)


def test_two_drivers_are_seen_by_offsets_that_change(plain: Plain) -> None:
    run = plain.protected()
    run.wait(2)
    plain.plan(1, " by another driver")
    run.wait(0.5)
    assert run.alarms() == [("two_writers", "critical")]
    assert "offsets/1" in run.told[-1].message
    run.wait(2)
    assert len(run.alarms()) == 1, "told once"
    run.stop()


@pytest.mark.parametrize(
    ("path", "severity"), [("commits/1", "critical"), ("state/0/1/2.delta", "warning"), ("state/0/1/1.snapshot", "")]
)
def test_two_drivers_are_seen_by_what_two_checkpoints_have(plain: Plain, path: str, severity: str) -> None:
    run = plain.protected()
    run.wait(2)
    assert plain.barriers() == [1]
    write(plain.directory, {path: b'v1\n{"nextBatchWatermarkMs":5}'})
    plain.batches(1)
    run.wait(2)
    assert run.alarms() == ([("two_writers", severity)] if severity else [])
    if severity:
        assert path in run.told[-1].message
    run.stop()


def test_files_that_the_query_deletes_during_a_copy_are_taken_from_a_newer_barrier(plain: Plain) -> None:
    run = plain.protected(interval="1s")
    deleted: list[int] = []

    def step_on(operation: str, key: str) -> None:
        if operation == "create" and not deleted:
            deleted.append(1)
            plain.batches(9)

    run.store._watch = step_on
    plain.batches(1)
    run.wait(4)
    assert deleted
    assert plain.barriers()[-1] == 11
    run.stop()


def test_a_newer_run_fences_it(plain: Plain) -> None:
    first = plain.protected()
    first.wait(2)
    second = plain.protected(seed=1)
    plain.batches(1)
    first.wait(3)
    assert first.over
    assert isinstance(first.failure, Fenced)
    second.wait(2)
    second.stop()
    assert plain.barriers() == [1, 2]
    assert {entry.fencing_epoch for entry in state_of(plain.home).completed.values()} == {
        FencingEpoch(run.fencing_epoch) for run in state_of(plain.home).runs
    }


def test_a_job_that_holdfast_runs_itself_is_not_protected(plain: Plain, tmp_path: Path) -> None:
    own = ChurningRun(plain.home, tmp_path / "work", plain.clock)
    own.batches(1)
    own.stop()
    with pytest.raises(Conflict, match="holdfast has run that job itself"):
        plain.protected()
    with pytest.raises(InvalidSettings, match="it is a work directory of job 'churn'"):
        find(work_directory(own.query.directory), work_directory(own.query.directory.parent))


class Refused(ChurningQuery):
    def start(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        raise JobFailed("the query does not fit its checkpoint")


def test_a_start_that_failed_does_not_end_the_watch_for_a_query_that_goes_on(plain: Plain, tmp_path: Path) -> None:
    """From protect to run: the changed query is refused, plain Spark goes on, and the next start must see that."""
    run = plain.protected()
    run.wait(2)
    run.stop()
    with pytest.raises(JobFailed, match="does not fit"):
        ChurningRun(plain.home, tmp_path / "work", plain.clock, query=Refused(7))
    state, store = state_of(plain.home), LocalStore(plain.home, within=JOB)
    require_protected_at_rest(JOB, state, store, work_directory)
    plain.batches(1)
    with pytest.raises(Conflict, match="batch 2 is planned there now"):
        require_protected_at_rest(JOB, state, store, work_directory)


@pytest.mark.parametrize(("gone", "why"), [("metadata", "no file metadata"), ("commits", "has committed no batch yet")])
def test_what_is_no_checkpoint_directory_yet_is_refused(plain: Plain, gone: str, why: str) -> None:
    path = plain.directory / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(NotFound, match=why):
        plain.protected()


def test_a_damaged_directory_is_refused(plain: Plain) -> None:
    (plain.directory / "state/0/1/2.delta").write_bytes(b"")
    with pytest.raises(HoldfastError, match=r"state/0/1/2.delta is empty"):
        plain.protected()


def command(plain: Plain, capsys: pytest.CaptureFixture[str], name: str, *more: str) -> Any:
    capsys.readouterr()
    code = main([name, "--home", f"file://{plain.home}", "--job", JOB, "--json", *more])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out)


def test_the_commands_work_as_for_any_job(plain: Plain, capsys: pytest.CaptureFixture[str]) -> None:
    run = plain.protected()
    run.wait(2)
    run.stop()
    status = command(plain, capsys, "status")
    assert (status["protects"], status["last_usable"]["barrier_batch_id"]) == (str(plain.directory), 1)
    assert status["ended_reason"] == "stopped"
    assert f"and protects {plain.directory}" in command(plain, capsys, "events")["events"][0]["text"]
    assert [each["status"] for each in command(plain, capsys, "checkpoints")["checkpoints"]] == ["completed"]
    assert command(plain, capsys, "verify", "--all")["corrupt"] == []
    command(plain, capsys, "collect")
    assert plain.barriers() == [1]


@pytest.mark.parametrize("words", [["rollback", f"{JOB}@1"], ["rescale", JOB, "--partitions", "4"]])
def test_what_only_a_start_of_holdfast_would_carry_out_is_refused(
    plain: Plain, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = plain.protected()
    run.wait(2)
    run.stop()
    assert main([*words, "--home", f"file://{plain.home}"]) == 2
    said = capsys.readouterr().err
    assert f"holdfast does not run its query, and only reads {plain.directory}" in said
    assert "Try: " in said
    assert state_of(plain.home).rollback is None


@pytest.mark.parametrize("wrong", ["nowhere", "a file"])
def test_nothing_is_restored_when_the_output_cannot_be_seen(
    plain: Plain, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command can be given again with the right path."""
    run = plain.protected()
    run.wait(2)
    run.stop()
    (plain.root / "a file").write_text("no output")
    place = plain.root / "restored"
    options = ["--home", f"file://{plain.home}", "--sink", str(plain.root / wrong)]
    assert main(["restore", JOB, str(place), *options]) == 2
    said = capsys.readouterr().err
    assert f"could not see how far the output at {plain.root / wrong} is" in said
    assert "Try: name the path that the query itself writes to, or leave --sink out" in said
    assert not place.exists()


def test_damage_in_the_home_is_repaired_from_the_directory(plain: Plain, capsys: pytest.CaptureFixture[str]) -> None:
    run = plain.protected(process=current_process())
    run.wait(2)
    run.stop()
    (pack,) = (plain.home / JOB / "packs").iterdir()
    flipped(pack)
    assert main(["verify", "--home", f"file://{plain.home}", "--job", JOB, "--all", "--repair"]) == 0
    assert "the same bytes were found in" in capsys.readouterr().err


def test_a_plan_is_put_in_place_only_behind_the_batch_before_it(
    plain: Plain, capsys: pytest.CaptureFixture[str]
) -> None:
    run = plain.protected(interval="1h")
    run.wait(0.5)
    plain.plan(2)
    run.stop()
    place = plain.directory.with_name("restored")
    home = ["--home", f"file://{plain.home}", "--job", JOB]
    report = command(plain, capsys, "restore", JOB, str(place))["continuing"]
    assert (report["replayed"], report["repeated"], report["writer"]) == (None, 2, None)
    assert (place / "offsets" / "2").read_bytes() == (plain.directory / "offsets" / "2").read_bytes()
    for batch, code, why in ((3, 2, "it has committed batch 1"), (2, 0, "")):
        assert main(["restore", JOB, str(place), "--plan", str(batch), *home]) == code
        assert why in capsys.readouterr().err
    write(place, {"commits/2": b"v1\n{}"})
    assert main(["restore", JOB, str(place), "--plan", "3", *home]) == 3
    assert "the home has no plan of it" in capsys.readouterr().err
    write(place, {"metadata": METADATA % b"11111111-0000-4000-8000-000000000000"})
    (place / "commits" / "2").unlink()
    assert main(["restore", JOB, str(place), "--plan", "2", *home]) == 2
    assert "another query works there" in capsys.readouterr().err
