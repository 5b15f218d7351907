"""Every finding has an excerpt that shows it first, and a near miss that does not show it at all."""

from pathlib import Path

import pytest

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings import KNOWLEDGE
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.engines import PLAIN
from holdfast.doctor.matching.examination import examine_here
from tests.doctor.collection import examined
from tests.doctor.gallery import Pair, gallery

PAIRS = pytest.mark.parametrize("pair", gallery(), ids=lambda pair: pair.code)


def test_every_finding_is_there() -> None:
    assert {pair.code for pair in gallery()} == {known.code for known in KNOWLEDGE}


@PAIRS
def test_the_excerpt_shows_it(pair: Pair) -> None:
    assert [finding.code for finding in examined(pair.shows).findings[:1]] == [pair.code]


@PAIRS
def test_the_near_miss_does_not(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "miss"
    path.write_text(pair.miss + "\n")
    assert diagnose(examine_here([str(path)], RULES, PLAIN).sightings) == ()
