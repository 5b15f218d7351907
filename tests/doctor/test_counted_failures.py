"""Where Flink gave up after failed checkpoints, each that it counted is named with its root cause."""

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.sightings import observe
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reports.document import Report
from holdfast.doctor.reports.markdown import markdown
from holdfast.doctor.reports.page import page
from holdfast.doctor.reports.wording import counted
from holdfast.finding import Finding
from tests.doctor.collection import examined, excerpts
from tests.doctor.events import MINUTE, NOON, completed, event, expired

EXCEEDED = "Exceeded checkpoint tolerable failure threshold."


def of_excerpt(name: str) -> list[str]:
    finding = examined(next(each for each in excerpts() if each.name == name)).findings[0]
    return [each.partition(": ")[2] for each in counted(finding)]


def failed(checkpoint: int, at: int, why: tuple[str, str] = ("java.io.IOException", "No space left")) -> LogEvent:
    text = f"Failed to trigger or complete checkpoint {checkpoint} for job {'a' * 32}."
    return event(text, ("org.apache.flink.util.SerializedThrowable", "wrapped"), why, at=at, checkpoint=checkpoint)


def exceeded(at: int) -> LogEvent:
    return event("Trying to recover", ("org.apache.flink.util.FlinkRuntimeException", EXCEEDED), at=at, line=99)


def counted_by(*events: LogEvent) -> list[str]:
    return [text.rpartition(":1: ")[2] for text in counted(the_first(*events))]


def the_first(*events: LogEvent) -> Finding:
    return diagnose(observe(events, RULES))[0]


def test_each_counted_failure_is_listed_with_its_root_cause() -> None:
    assert of_excerpt("tolerable-three-causes-1.18") == [
        'checkpoint 71: com.acme.codec.EncodeFault: field "amount" has no value',
        "checkpoint 73: CompletionException: org.apache.flink.util.FlinkException: the coordinator of Source: orders "
        "gave no answer",
        "checkpoint 74: java.lang.IllegalArgumentException: window of 0 ms",
    ]


def test_they_are_listed_where_the_end_of_patience_is_a_consequence() -> None:
    assert of_excerpt("tolerable-after-expiry-1.19") == ["checkpoint 500: expired before completing"]


def test_a_completed_checkpoint_begins_the_count_anew() -> None:
    events = [failed(1, NOON), completed(2, NOON + MINUTE), failed(3, NOON + 2 * MINUTE), exceeded(NOON + 3 * MINUTE)]
    assert counted_by(*events) == ["checkpoint 3: IOException: No space left"]


def test_what_failed_later_was_not_counted() -> None:
    events = [failed(1, NOON), exceeded(NOON + 1000), failed(2, NOON + 10 * MINUTE)]
    assert counted_by(*events) == ["checkpoint 1: IOException: No space left"]


def test_a_checkpoint_is_listed_once_with_what_says_most() -> None:
    events = [expired(1, NOON), expired(1, NOON + 1), failed(1, NOON + 2), exceeded(NOON + MINUTE)]
    assert counted_by(*events) == ["checkpoint 1: IOException: No space left"]


def test_every_form_of_the_report_lists_them() -> None:
    report = Report(findings=(the_first(failed(1, NOON), exceeded(NOON + 1000)),))
    for text in (markdown(report), page(report)):
        assert "checkpoint 1: IOException: No space left" in text
