"""Four worlds of the attack driver, two per kind of sink; each takes some ten seconds, most of it waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.play import play
from tests.patience import PATIENCE


@pytest.mark.long
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("seed", [1007, 1019, 1022, 1034])
def test_nothing_is_lost_doubled_or_given_up(seed: int, tmp_path: Path) -> None:
    assert play(seed, tmp_path / "world") is None
