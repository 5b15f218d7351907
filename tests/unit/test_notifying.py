"""What a message about alarms says, which alarms are put together, and when they are sent."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from holdfast.alarm import Alarm
from holdfast.notifying.channels import shown_url
from holdfast.notifying.message import command_to_look, message_about
from holdfast.notifying.outbox import Outbox, Pace

NOW = datetime(2026, 11, 18, 9, 44, 3, tzinfo=UTC)
BEGAN = Alarm(
    "orders",
    "checkpoints_failing",
    "warning",
    "checkpoint 7 failed: storage_unreachable: connection refused",
    "check the home's storage",
    NOW,
    since=NOW - timedelta(minutes=3),
    home="s3://key:secret@acme/holdfast",
)
WORSE = replace(BEGAN, change="worse", severity="critical")
AGAIN = replace(BEGAN, change="again")
OVER = replace(BEGAN, change="over", cleared=True, severity="info", message="checkpoint 9 completed")
PACE = Pace(gather_s=3, burst=2, refill_s=60, retry_s=1, retry_most_s=8, most=10)


def of_job(alarm: Alarm, job: str) -> Alarm:
    return replace(alarm, job=job)


def test_a_message_says_what_since_when_why_what_to_do_and_the_command() -> None:
    message = message_about((BEGAN,), NOW)
    assert message.title == "holdfast: orders: checkpoints_failing (warning)"
    assert message.text.splitlines() == [
        "[warning] orders: checkpoints_failing",
        "What: checkpoint 7 failed: storage_unreachable: connection refused",
        "Since: 2026-11-18 09:41:03 UTC",
        "Do: check the home's storage",
        "Look: holdfast status --home 's3://***@acme/holdfast' --job orders",
    ]


def test_its_end_says_when_it_began_and_ended() -> None:
    message = message_about((OVER,), NOW)
    assert (message.title, message.tone) == ("holdfast: orders: checkpoints_failing is over", "over")
    assert "Since: 2026-11-18 09:41:03 UTC, over at 2026-11-18 09:44:03 UTC" in message.text


def test_getting_critical_is_said_in_the_title() -> None:
    assert message_about((WORSE,), NOW).title == "holdfast: orders: checkpoints_failing is now critical"


def test_forty_jobs_with_one_cause_are_one_short_message() -> None:
    message = message_about([of_job(BEGAN, f"job-{number}") for number in range(40)], NOW)
    assert message.title == "holdfast: 40 jobs: checkpoints_failing (warning)"
    assert len(message.text.splitlines()) == 5
    assert "job-7 and 32 more" in message.text
    assert len(message.document()["alarms"]) == 40


def test_no_secret_of_a_home_or_a_receiver_is_shown() -> None:
    assert "secret" not in str(message_about((BEGAN,), NOW).document())
    assert shown_url("https://hooks.slack.example/services/T0/B0/secret") == "https://hooks.slack.example/…"
    assert shown_url("slack://token-a/token-b") == "slack://…"
    assert command_to_look(replace(BEGAN, job="")) == "holdfast jobs --home 's3://***@acme/holdfast'"


def test_alarms_of_one_cause_wait_for_each_other() -> None:
    outbox = Outbox(PACE)
    assert outbox.due(0) is None
    outbox.add(BEGAN, 100)
    outbox.add(of_job(BEGAN, "other"), 102)
    assert outbox.due(102) == 103
    assert [alarm.job for alarm in outbox.take(103)] == ["orders", "other"]
    assert outbox.due(103) is None


def test_a_repeated_report_is_not_sent() -> None:
    outbox = Outbox(PACE)
    outbox.add(AGAIN, 0)
    assert outbox.due(0) is None


def test_after_some_messages_the_next_ones_wait_and_are_put_together() -> None:
    outbox = Outbox(PACE)
    for second in (100, 110):
        outbox.add(BEGAN, second)
        assert outbox.due(second + 3) == second + 3
        outbox.take(second + 3)
    for number in range(5):
        outbox.add(of_job(BEGAN, f"job-{number}"), 120)
    due = outbox.due(123)
    assert due is not None
    assert 140 < due < 173 + 60
    assert outbox.due(due) == due
    assert len(outbox.take(due)) == 5


def test_what_ends_and_begins_again_before_anybody_knows_has_not_ended() -> None:
    outbox = Outbox(PACE)
    outbox.add(BEGAN, 0)
    outbox.take(3)
    for _ in range(20):
        outbox.add(OVER, 4)
        outbox.add(BEGAN, 5)
    assert outbox.due(100) is None
    outbox.add(OVER, 101)
    assert outbox.take(104) == (OVER,)


def test_what_failed_is_tried_again_ever_later_with_what_came_meanwhile() -> None:
    outbox = Outbox(PACE)
    outbox.add(BEGAN, 0)
    waits = []
    now = 3.0
    for _ in range(6):
        taken = outbox.take(now)
        outbox.add(WORSE, now) if len(taken) == 1 else None
        outbox.failed(taken, now)
        due = outbox.due(now)
        assert due is not None
        waits.append(due - now)
        now = due
    assert waits == [1, 2, 4, 8, 8, 8]
    assert outbox.take(now) == (BEGAN, WORSE)
    outbox.delivered()
    outbox.add(OVER, now)
    outbox.failed(outbox.take(now), now)
    assert outbox.due(now) == now + 1


def test_a_receiver_that_is_away_for_long_gets_the_newest() -> None:
    outbox = Outbox(PACE)
    for number in range(25):
        outbox.add(of_job(BEGAN, f"job-{number}"), 0)
    assert [alarm.job for alarm in outbox.take(3)] == [f"job-{number}" for number in range(15, 25)]
