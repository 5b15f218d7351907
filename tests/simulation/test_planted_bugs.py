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
CHOSEN = list(DEFECTS) if TORTURE else [*SOON_FOUND, *(name for name in list(DEFECTS)[2::4] if name not in SOON_FOUND)]
"""`make long` plants every fourth; all of them take a quarter of an hour, by `make torture`."""


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


def test_there_are_enough_of_them() -> None:
    assert len(DEFECTS) >= 15
