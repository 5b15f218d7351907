"""A small number of worlds, and that a seed is a history. `make simulate SEEDS=10000` visits many more."""

import random

import pytest

from tests.simulation.operating import simulate
from tests.simulation.outside import ENABLED, KINDS, Outside
from tests.simulation.simulate import main, story, verdicts
from tests.simulation.world import Violation

SEEDS = 200
"""Half a minute of two cores. `make long` visits those up to 2,000."""
SHARE = 50


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_the_invariants_hold_in_every_world(first: int) -> None:
    problems = [problem for _, problem in verdicts(range(first, first + SHARE), processes=2) if problem is not None]
    assert not problems, "\n".join(problems[:2])


def test_every_kind_of_trouble_outside_is_in_some_of_them() -> None:
    drawn = [Outside.drawn(random.Random(f"outsider {seed}")) for seed in range(SEEDS)]
    assert {name for outside in drawn for name in ENABLED if getattr(outside, name)} == ENABLED == KINDS


@pytest.mark.parametrize("seed", [3, 14, 15])
def test_the_same_seed_is_the_same_history(seed: int) -> None:
    first, second = simulate(seed), simulate(seed)
    assert len(first.trace) > 100
    assert story(first) == story(second)
    assert (first.steps, first.now) == (second.steps, second.now)


def test_another_seed_is_another_history() -> None:
    assert story(simulate(3)) != story(simulate(14))


def test_a_bad_seed_tells_its_story_and_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.simulation.checkers.Checkers._verify", _always_wrong)
    assert main(["--seed", "1", "--trace"]) == 1
    told = capsys.readouterr().out
    assert "CheckpointStarted 1" in told
    assert told.rstrip().endswith("never right")
    assert main(["--seeds", "1", "--first", "1"]) == 1
    assert "replay: python -m tests.simulation.simulate --seed 1 --trace" in capsys.readouterr().out


def _always_wrong(*_: object) -> None:
    raise Violation("never right")
