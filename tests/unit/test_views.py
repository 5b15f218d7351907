"""What the documents of the public contract say about a history."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from holdfast.repository.entries import Failure
from holdfast.repository.views import checkpoint_detail, checkpoint_list, checkpoints, job_status, savepoint_list
from tests.unit.job_histories import EXPIRED, History

START = datetime(2025, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "home", start=START)
    history.run()
    history.beat()
    return history


def ids_and_statuses(history: History, *, alive: bool = True) -> list[tuple[int | None, str]]:
    return [(document.id, document.status) for document in checkpoints(history.seen(alive=alive))]


def test_a_completed_checkpoint(history: History) -> None:
    history.start(1, batch=9)
    history.complete(1, batch=9, took_s=1.2)
    (document,) = json.loads(msgspec.json.encode(checkpoint_list(history.seen())))["checkpoints"]
    assert document == {
        "id": 1,
        "status": "completed",
        "kind": "checkpoint",
        "name": None,
        "barrier_batch_id": 9,
        "fencing_epoch": 1,
        "triggered_at": "2025-06-01T12:00:00.250000Z",
        "completed_at": "2025-06-01T12:00:01.450000Z",
        "duration_ms": 1200,
        "bytes_total": 2_000_000,
        "bytes_new": 500_000,
        "files": 230,
        "objects_written": 12,
        "requests": None,
        "shards": 4,
        "shards_acknowledged": 4,
        "failure": None,
        "corrupt": None,
        "abandoned": False,
        "usable": True,
        "unusable_because": None,
        "source_until": None,
        "source_gone": False,
    }


def test_times_are_utc_whatever_zone_they_were_written_in(tmp_path: Path) -> None:
    history = History(tmp_path / "home", start=START.astimezone(timezone(timedelta(hours=9))))
    history.run()
    encoded = json.loads(msgspec.json.encode(job_status(history.seen())))
    assert encoded["owner"]["started_at"] == "2025-06-01T12:00:00.250000Z"


def test_newest_first_in_the_order_in_which_it_happened(history: History) -> None:
    history.complete(1)
    head = history.journal.state.head
    history.complete(2)
    history.fail(None, head=head)  # written late: the home could not be written when it happened
    assert ids_and_statuses(history) == [(2, "completed"), (None, "failed"), (1, "completed")]


def test_a_checkpoint_that_only_began_is_in_progress_while_its_run_lives(history: History) -> None:
    history.start(1, batch=3)
    assert ids_and_statuses(history, alive=True) == [(1, "in_progress")]
    (document,) = checkpoints(history.seen())
    assert document.failure is None
    assert document.duration_ms is None


def test_a_checkpoint_that_only_began_failed_without_counting_when_its_run_shows_no_life(history: History) -> None:
    history.start(1)
    (document,) = checkpoints(history.seen(alive=False))
    assert document.status == "failed"
    assert document.failure is not None
    assert (document.failure.reason, document.failure.counted) == ("run_ended", False)
    assert job_status(history.seen(alive=False)).consecutive_failures == 0


def test_a_checkpoint_that_only_began_failed_when_its_run_ended(history: History) -> None:
    history.start(1)
    history.end()
    assert ids_and_statuses(history, alive=True) == [(1, "failed")]


def test_a_checkpoint_that_only_began_failed_when_a_newer_run_lives(history: History) -> None:
    history.start(1)
    history.run()
    assert ids_and_statuses(history, alive=True) == [(1, "failed")]


def test_a_checkpoint_reported_failed_that_completed_after_all_is_completed(history: History) -> None:
    history.start(1)
    history.fail(1, Failure("outcome_unknown", "no answer from the home", True))
    history.complete(1)
    assert ids_and_statuses(history) == [(1, "completed")]
    assert job_status(history.seen()).consecutive_failures == 0


def test_a_failure_written_after_the_completion_of_the_same_id_does_not_count(history: History) -> None:
    history.complete(1)
    history.fail(1)
    assert ids_and_statuses(history) == [(1, "completed")]
    assert job_status(history.seen()).consecutive_failures == 0


def test_a_failed_checkpoint_says_why_and_how_far_it_came(history: History) -> None:
    history.start(1)
    history.fail(1, EXPIRED)
    (document,) = checkpoints(history.seen())
    assert document.failure == EXPIRED
    assert (document.shards, document.shards_acknowledged) == (4, 3)
    assert document.completed_at is None


def test_retired_and_damaged_checkpoints_stay_in_the_history(history: History) -> None:
    history.complete(1)
    history.complete(2)
    history.retire(1)
    history.damage(2, "blobs/aa is wrong")
    newer, older = checkpoints(history.seen())
    assert (older.status, newer.status, newer.corrupt) == ("retired", "completed", "blobs/aa is wrong")


def test_consecutive_failures_are_the_counted_ones_since_the_last_completion(history: History) -> None:
    history.fail(1)
    assert job_status(history.seen()).consecutive_failures == 1
    history.complete(2)
    assert job_status(history.seen()).consecutive_failures == 0
    history.fail(3)
    history.fail(4, Failure("declined", "a file vanished", False))
    history.fail(None)
    status = job_status(history.seen())
    assert status.consecutive_failures == 2
    assert status.last_failure is not None
    assert status.last_failure.id is None


def test_a_failure_that_happened_before_the_last_completion_does_not_count_though_written_later(
    history: History,
) -> None:
    head = history.journal.state.head
    history.complete(1)
    history.fail(None, head=head)
    assert job_status(history.seen()).consecutive_failures == 0


def test_an_older_checkpoint_that_expires_after_a_newer_one_completed_counts(history: History) -> None:
    history.complete(2, took_s=1)
    history.fail(1, took_s=10, head=history.journal.state.head)
    assert job_status(history.seen()).consecutive_failures == 1


def test_status_of_a_running_job(history: History) -> None:
    history.complete(1, took_s=2)
    history.wait(12.5)
    status = job_status(history.seen())
    assert (status.state, status.running) == ("running", True)
    assert status.owner is not None
    assert (status.owner.host, status.owner.pid, status.owner.application_id) == ("build-3", 4711, "app-1")
    assert (status.owner.fencing_epoch, status.owner.heartbeat_at) == (1, START)
    assert status.last_completed is not None
    assert (status.last_completed.id, status.seconds_since_last_completed) == (1, 12.5)
    assert status.findings == ()


def test_restarts_are_those_of_the_newest_run_in_the_status_and_all_in_the_history(history: History) -> None:
    history.restart(number=7)
    history.run()
    assert (job_status(history.seen()).restarts, job_status(history.seen()).last_restart) == (0, None)
    history.restart(number=1)
    history.restart(number=2, duration_ms=None, cause="storage")
    status = job_status(history.seen())
    assert status.restarts == 2
    assert status.last_restart is not None
    assert (status.last_restart.cause, status.last_restart.duration_ms) == ("storage", None)
    assert [item.number for item in checkpoint_list(history.seen()).restarts] == [2, 1, 7]
    assert [item.number for item in checkpoint_list(history.seen(), limit=1).restarts] == [2]


def test_status_of_a_run_that_ended_by_itself(history: History) -> None:
    history.end("stopped by SIGTERM")
    status = job_status(history.seen(alive=False))
    assert (status.state, status.running, status.ended_reason) == ("ended", False, "stopped by SIGTERM")


def test_status_of_a_run_that_vanished(history: History) -> None:
    status = job_status(history.seen(alive=False))
    assert (status.state, status.running) == ("lost", False)
    assert status.last_completed is None
    assert status.seconds_since_last_completed is None


def test_the_heartbeat_of_an_older_run_is_not_shown_as_the_owners(history: History) -> None:
    history.run()
    owner = job_status(history.seen()).owner
    assert owner is not None
    assert (owner.fencing_epoch, owner.heartbeat_at, owner.application_id) == (2, None, None)


def test_the_detail_of_a_checkpoint_has_phases_and_shards(history: History) -> None:
    history.complete(1)
    detail = checkpoint_detail(history.seen(), 1)
    assert detail is not None
    assert [phase.name for phase in detail.phases] == ["plan", "copy", "journal"]
    assert [shard.id for shard in detail.slowest_shards] == ["state/0/3", "control"]
    assert detail.bytes_reused == 1_500_000
    assert checkpoint_detail(history.seen(), 2) is None


def test_savepoints_are_listed_apart_and_only_while_they_exist(history: History) -> None:
    history.complete(1, name="before-upgrade")
    history.complete(2)
    history.complete(3, name="gone")
    history.retire(3)
    assert [item.name for item in savepoint_list(history.seen()).savepoints] == ["before-upgrade"]
