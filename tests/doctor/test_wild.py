"""Excerpts from public threads: the first heap is understood as a whole, the others are only counted."""

from pathlib import Path

import pytest

from holdfast.doctor.matching.engines import PLAIN
from holdfast.doctor.matching.examination import examine_here
from tests.doctor.collection import examined, score
from tests.doctor.wild import DRAWN, HEAPS, HERE, Seen, coin, heap, line, verdicts

FIRST = heap("first")


@pytest.mark.parametrize("seen", FIRST, ids=lambda seen: seen.excerpt.name)
def test_an_excerpt_that_rules_were_written_for(seen: Seen) -> None:
    verdict = examined(seen.excerpt)
    told = [(finding.severity, finding.code) for finding in verdict.findings]
    assert verdict.false_alarms == 0, told
    assert verdict.hit or not seen.excerpt.first, told


@pytest.mark.parametrize("name", HEAPS)
def test_the_coin_decided(name: str) -> None:
    assert {path.stem for path in (HERE / name).iterdir()} == {seen.excerpt.name for seen in heap(name)}
    assert name not in DRAWN or all(coin(seen) == name for seen in heap(name))
    assert all(seen.where.startswith("https://") for seen in heap(name))


@pytest.mark.parametrize(("name", "least"), [("second", 60), ("third", 60), ("fourth", 40)])
def test_an_unseen_heap_is_large_and_varied_enough(name: str, least: int) -> None:
    unseen = heap(name)
    troubles = [seen for seen in unseen if seen.excerpt.first]
    assert len(unseen) >= least
    assert len(unseen) - len(troubles) >= len(unseen) / 5
    assert sum(seen.bare for seen in troubles) >= len(troubles) / 2


SCORED = {"second": (0.90, 0.77), "third": (0.93, 0.72), "fourth": (0.92, 0.65)}
"""Precision and recall of the day."""


@pytest.mark.parametrize("name", SCORED)
def test_what_nobody_had_tuned_on(name: str) -> None:
    """The figures of the day it was scored; they may only become better."""
    result, (precision, recall) = score(verdicts(name)), SCORED[name]
    assert result.precision >= precision, line(name, result)
    assert result.recall >= recall, line(name, result)


def test_an_examination_counts_what_it_recognised(tmp_path: Path) -> None:
    pasted = tmp_path / "pasted"
    pasted.write_text("> java.lang.IllegalStateException: no such thing\n> \tat org.acme.Job.map(Job.java:3)\n")
    found = examine_here([str(pasted)], (), PLAIN)
    assert (found.exceptions, found.lines, found.events) == (1, 2, 0)
    assert found.thrown == ("IllegalStateException: no such thing",)
