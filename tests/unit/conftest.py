"""What tests of several modules here need."""

import tempfile
from pathlib import Path

import pytest

from holdfast.cli.tracebacks import TRACEBACKS


@pytest.fixture
def tracebacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tracebacks of this test are kept."""
    place = tmp_path / "tracebacks"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(TRACEBACKS, "_path", None)
    monkeypatch.setattr(TRACEBACKS, "_kept", 0)
    return place
