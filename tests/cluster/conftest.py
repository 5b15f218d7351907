"""Every test here starts whole processes with a JVM in each."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _quick_starts(short_lived_jvms: None) -> None: ...
