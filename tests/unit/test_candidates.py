"""Directories that Spark cannot read: each is set aside and the next candidate taken, until none is left."""

from collections.abc import Collection
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.errors import Corrupt, Incompatible
from holdfast.runtime.ports import RunDirectory, Supervisor
from holdfast.runtime.query.causes import StartFailed
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.factory import work_directory
from tests.unit.churning_runs import JOB, ChurningQuery, ChurningRun, ManualClock, state_of

MALFORMED = (
    "com.fasterxml.jackson.core.JsonParseException: Unexpected character ('U' (code 85))\n"
    "\tat org.apache.spark.sql.execution.streaming.checkpointing.StreamMetadata$.read(StreamMetadata.scala:61)"
)
LOST = "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred"
UNREACHABLE = "java.net.ConnectException: Connection refused\n\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)"


class Places:
    """A home with checkpoints 1, 2 and 3, at batches 0, 1 and 2, and the work directory of a run that was killed."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir()
        self.clock = ManualClock()
        self._monkeypatch = monkeypatch
        self.run(seed=0).batches(3)

    def run(self, seed: int = 1, **settings: object) -> ChurningRun:
        return ChurningRun(self.home, self.work, self.clock, seed=seed, retained=5, restart_delay="1s", **settings)

    def unreadable_from(
        self, batches: Collection[int], why: str = MALFORMED, patch: pytest.MonkeyPatch | None = None
    ) -> list[int | None]:
        """Spark cannot start at these barriers; the barriers at which it was tried."""
        tried: list[int | None] = []
        start = ChurningQuery.start

        def failing(query: ChurningQuery, directory: RunDirectory, supervisor: Supervisor) -> None:
            tried.append(newest_barrier(work_directory(Path(directory.location))))
            if tried[-1] in batches:
                raise StartFailed(why)
            start(query, directory, supervisor)

        (patch or self._monkeypatch).setattr(ChurningQuery, "start", failing)
        return tried

    def aside(self) -> int:
        return len(list(self.work.glob("*/*.aside")))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setattr("os.fsync", lambda handle: None)
    return Places(tmp_path, monkeypatch)


def test_the_first_start_goes_from_candidate_to_candidate(places: Places) -> None:
    tried = places.unreadable_from({1, 2})
    run = places.run()
    assert tried == [2, 2, 2, 1, 1, 0], "the run's before, then each checkpoint, twice"
    assert run.runtime.status.running
    assert places.aside() == 3, "so many are kept"
    state = state_of(places.home)
    assert state.passed_over == {2, 3}
    assert "Unexpected character" in state.corrupt[3].detail
    run.batches(1)
    run.stop()


def test_it_ends_as_corrupt_when_no_candidate_is_left(places: Places) -> None:
    tried = places.unreadable_from({0, 1, 2})
    with pytest.raises(Corrupt, match="no checkpoint of this job verifies") as raised:
        places.run()
    assert raised.value.exit_code == 4
    assert tried == [2, 2, 2, 1, 1, 0, 0]
    state = state_of(places.home)
    assert state.corrupt.keys() == {1, 2, 3}
    assert state.passed_over == {2, 3}


def test_the_last_candidate_comes_back_when_the_machine_was_to_blame(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        places.unreadable_from({0, 1, 2}, patch=broken)
        with pytest.raises(Corrupt, match="verify --all --mark"):
            places.run()
    home = ["--home", f"file://{places.home}", "--job", JOB]
    assert main(["verify", *home, "--all", "--mark"]) == 0
    assert state_of(places.home).corrupt.keys() == {2, 3}
    run = places.run(seed=2)
    assert newest_barrier(work_directory(run.query.directory)) == 0
    run.stop()


def test_what_is_no_fault_of_the_directory_gives_none_up(places: Places) -> None:
    tried = places.unreadable_from({2}, UNREACHABLE)
    with pytest.raises(StartFailed):
        places.run()
    assert tried == [2]
    assert not state_of(places.home).corrupt
    assert places.aside() == 0


def test_a_changed_query_that_was_forced_is_to_blame_itself(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    places.unreadable_from({2})
    monkeypatch.setattr(ChurningQuery, "preflight", lambda query, directory, barrier: True)
    with pytest.raises(Incompatible, match="Unexpected character"):
        places.run()
    assert not state_of(places.home).corrupt
    assert places.aside() == 0


def test_a_restart_within_a_run_goes_from_candidate_to_candidate_too(places: Places) -> None:
    run = places.run()
    tried = places.unreadable_from({1, 2})
    run.query.die(LOST)
    run.wait(1.25)
    assert tried == [2, 2, 2, 1, 1, 0], "again, since nothing is wrong with it; then as at a start"
    assert run.runtime.status.running
    (restart,) = state_of(places.home).restarts
    assert restart.cause == "state not loaded"
    assert restart.duration_ms is not None


def test_candidates_are_not_limited_by_the_number_of_restarts(places: Places) -> None:
    run = places.run(restart_attempts=0)
    for left in (2, 2, 1, 1, 0, 0):
        run.query.die(MALFORMED)
        run.wait(64.25)
        assert run.runtime.status.running
        assert newest_barrier(work_directory(run.query.directory)) == left
    run.query.die(MALFORMED)
    run.wait(64.25)
    assert run.over
    assert isinstance(run.failure, Corrupt)


def test_a_directory_that_came_from_nowhere_is_tried_no_more_often_than_anything_else(
    places: Places, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    run = ChurningRun(tmp_path / "empty", tmp_path / "other", places.clock, restart_attempts=2, restart_delay="1s")
    for _ in range(3):
        run.query.die(MALFORMED)
        run.wait(4.25)
    assert run.over
    assert isinstance(run.failure, Corrupt)
