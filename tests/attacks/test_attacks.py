"""A few worlds of each attack driver, as many per kind of sink; in real processes each takes some ten seconds, most of
it waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.sinks import delta, files
from tests.attacks import engine
from tests.attacks.play import play
from tests.attacks.swift import Swift, played
from tests.attacks.swift_own import SwiftOwn
from tests.patience import PATIENCE


@pytest.mark.long
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("seed", [1007, 1019, 1022, 1034])
def test_nothing_is_lost_doubled_or_given_up(seed: int, tmp_path: Path) -> None:
    assert play(seed, tmp_path / "world") is None


@pytest.mark.long
@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(
    ("seed", "kind"),
    [*((seed, Swift) for seed in range(101, 105)), *((seed, SwiftOwn) for seed in (100, 107, 108, 111, 114, 334))],
)
def test_nothing_is_lost_doubled_or_given_up_by_commands_and_deaths(
    seed: int, kind: type[Swift], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "write_parquet", engine.write_parquet)
    monkeypatch.setattr(delta, "write_parquet", engine.write_parquet)
    monkeypatch.setattr(delta, "with_marked_values", lambda rows, partition_by: rows)
    assert played(seed, tmp_path / "world", kind) is None
