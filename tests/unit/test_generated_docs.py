"""The pages that are written from the code say what the code says."""

import importlib.util
from pathlib import Path

import pytest

from holdfast.coordination.failure_reasons import FailureReason

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "scripts" / "generate_docs.py")
assert _spec is not None
assert _spec.loader is not None
generate_docs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate_docs)


@pytest.mark.parametrize("name", generate_docs.PAGES)
def test_the_page_is_that_of_the_code(name: str) -> None:
    again = "run: .venv/bin/python scripts/generate_docs.py"
    assert (ROOT / "docs" / name).read_text() == generate_docs.PAGES[name](), again


@pytest.mark.parametrize("reason", FailureReason)
def test_every_reason_says_what_it_means_and_what_to_do(reason: FailureReason) -> None:
    assert reason.rule.meaning
    assert reason.rule.hint
    assert f"`{reason.value}`" in generate_docs.failures()
