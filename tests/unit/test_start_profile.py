"""`run --profile-start`: what began when, and took how long, as bars below each other."""

from holdfast.cli.start_profile import as_document, waterfall
from holdfast.job_log import begin_phase, end_phase, measured_phases, phase
from holdfast.runtime.clock import process_age_s
from holdfast.runtime.start_profile import FIRST_BATCH, PhaseSpan, StartProfile


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def measured() -> StartProfile:
    clock = Clock()
    profile = StartProfile(clock, age_s=2.0)
    profile.phased_before("Python")
    with measured_phases(profile.phased):
        with phase("JVM"):
            with phase("journal"):
                clock.now += 1
            clock.now += 3
        begin_phase(FIRST_BATCH)
        clock.now += 4
        end_phase(FIRST_BATCH)
        clock.now += 9
        end_phase(FIRST_BATCH)
        with phase("a restart of the query"):
            clock.now += 1
    with phase("another job"):
        clock.now += 1
    return profile


def test_phases_count_from_the_start_of_the_process_until_the_first_batch_has_ended() -> None:
    profile = measured()
    assert profile.complete.is_set()
    assert sorted(profile.spans, key=lambda span: span.phase) == [
        PhaseSpan("JVM", 2.0, 4.0),
        PhaseSpan("Python", 0.0, 2.0),
        PhaseSpan(FIRST_BATCH, 6.0, 4.0),
        PhaseSpan("journal", 2.0, 1.0),
    ]


def test_a_phase_that_failed_is_shown_too_and_the_missing_batch_is_said() -> None:
    profile = StartProfile(Clock(), age_s=1.0)
    try:
        with measured_phases(profile.phased), phase("JVM"):
            raise OSError
    except OSError:
        pass
    assert not profile.complete.is_set()
    assert waterfall(profile.spans)[0] == "start: 1.0 s from the start of the process to the end; there was no batch"


def test_bars_stand_below_each_other_in_the_order_of_time() -> None:
    spans = (
        PhaseSpan("Python", 0.0, 2.0),
        PhaseSpan("JVM", 2.0, 4.0),
        PhaseSpan("journal", 2.0, 0.0),
        PhaseSpan(FIRST_BATCH, 6.0, 4.0),
    )
    assert waterfall(spans) == [
        "start: 10.0 s from the start of the process to the end of the first batch",
        "  Python       ████████                                    0.0  +2.00 s",
        "  JVM                  ████████████████                    2.0  +4.00 s",
        "  journal              █                                   2.0  +0.00 s",
        "  first batch                          ████████████████    6.0  +4.00 s",
    ]
    assert waterfall(())[0].startswith("start: 0.0 s")


def test_the_document_has_the_same_numbers() -> None:
    found = {entry["phase"]: entry for entry in as_document(measured())}
    assert found[FIRST_BATCH] == {"phase": FIRST_BATCH, "began_s": 6.0, "took_s": 4.0}


def test_the_age_of_a_process_is_none_where_it_is_unknown() -> None:
    assert process_age_s(0) == 0.0
    assert process_age_s(1) > 1.0
