"""A simulation that finds nothing proves nothing: each planted defect is found within 2,000 seeds."""

import re
from functools import partial

import pytest

from tests.clean_processes import FORKS
from tests.simulation.operating import simulate
from tests.simulation.planted import DEFECTS
from tests.simulation.world import Violation
from tests.torture import TORTURE

SEEDS = 2000
_NO_LONGER_FITS = re.compile(r"\b(TypeError|AttributeError|NameError|ImportError)\b")
"""What a defect raises that calls the product as it was."""
SOON_FOUND = (
    "a_failure_of_a_discarded_checkpoint_is_counted",
    "a_put_that_was_won_is_taken_as_lost",
    "what_a_fold_stands_for_is_deleted_in_descending_order",
    "a_gap_in_the_journal_is_taken_for_nothing",
    "what_a_checkpoint_under_way_uploaded_is_taken_for_an_orphan",
)
"""One of each part, in a second or two: `make test`."""


OF_RULE = {
    "R1": ("one_404_for_an_object_is_believed", "one_404_for_an_entry_is_believed"),
    "R2": ("the_answer_of_a_gateway_is_believed", "a_put_that_was_won_is_taken_as_lost"),
    "R3": ("an_empty_journal_is_a_new_job", "a_home_that_knows_less_is_believed"),
    "R4": ("an_error_while_reading_is_damage", "what_was_passed_over_on_a_wrong_verdict_never_comes_back"),
    "R5": ("the_sink_is_asked_after_the_journal_has_abandoned",),
    "R6": ("rows_are_not_counted", "a_gap_in_the_ledger_is_published"),
    "R7": ("the_sink_is_not_checked_when_it_is_opened", "the_sink_is_not_checked_when_it_publishes"),
    "R8": ("an_own_writer_is_resumed_whatever_it_has_seen",),
    "R9": ("a_copy_knows_nothing_of_decisions",),
    "R10": ("a_heartbeat_is_judged_by_the_clock",),
    "R11": ("every_name_in_the_journal_is_taken_for_an_entry", "an_unknown_name_is_taken_for_an_orphan"),
    "R12": ("a_request_that_was_answered_is_served_again", "a_fold_drops_an_answer_and_does_not_say_so"),
    "R13": ("no_run_keeps_a_reserve", "the_reserve_of_a_full_home_is_not_released"),
    "R14": ("a_short_read_is_believed",),
}
"""The rules of `tests/trust`. That a source forgets too early (R8) is refused before a start: `tests/spark`."""
QUARTER = list(DEFECTS)[2::4]
ONE_OF_EACH_RULE = [names[0] for names in OF_RULE.values()]
CHOSEN = list(DEFECTS) if TORTURE else list(dict.fromkeys([*SOON_FOUND, *ONE_OF_EACH_RULE, *QUARTER]))
"""`make long` plants one of each rule, and every fourth; all of them take a quarter of an hour, by `make torture`."""


def found(seed: int, defect: str) -> tuple[int, str | None]:
    try:
        simulate(seed, duration=20.0, emphasis=DEFECTS[defect].emphasis)
    except Violation as violation:
        return seed, str(violation.args[0])
    return seed, None


def plant(defect: str) -> None:
    """In a process that has nothing else to do and ends with the test."""
    DEFECTS[defect].plant(pytest.MonkeyPatch())


@pytest.mark.parametrize("defect", DEFECTS)
def test_what_a_defect_changes_is_still_there(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    DEFECTS[defect].plant(monkeypatch)


@pytest.mark.parametrize(
    "defect", [pytest.param(name, marks=[] if name in SOON_FOUND else [pytest.mark.long]) for name in CHOSEN]
)
def test_the_simulation_finds(defect: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        DEFECTS[defect].plant(patch)  # a pool whose processes cannot begin waits for ever
    with FORKS.Pool(2, plant, (defect,)) as pool:
        for seed, violation in pool.imap(partial(found, defect=defect), range(SEEDS), chunksize=2):
            if violation is not None:
                print(f"\n{defect}: seed {seed}: {_shortened(violation)}")  # noqa: T201  the point of the test
                assert not _NO_LONGER_FITS.search(violation), "the product was changed, and the defect was not"
                assert found(seed, defect) == (seed, None), "the seed is bad without the defect too"
                return
    pytest.fail(f"{defect} was not found in {SEEDS} seeds")


def _shortened(violation: str) -> str:
    lines = violation.strip().splitlines()
    return lines[0] if len(lines) == 1 else f"{lines[0]} … {lines[-1]}"


def test_each_rule_about_the_world_outside_has_some() -> None:
    assert list(OF_RULE) == [f"R{number}" for number in range(1, 15)]
    assert {name for names in OF_RULE.values() for name in names} <= set(DEFECTS)
    unproved = [rule for rule, names in OF_RULE.items() if not set(names) & set(CHOSEN)]
    assert not unproved, "`make long` plants none of theirs"
