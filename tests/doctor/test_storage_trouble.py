"""What is wrong with a storage: the quick look for parts of the patterns says the same as the patterns alone."""

from holdfast.doctor.findings.storage_trouble import _IN_ORDER, storage_trouble
from tests.doctor.collection import CASES


def slowly(text: str) -> str | None:
    return next((name for name, pattern, _ in _IN_ORDER if pattern.search(text)), None)


def test_no_trouble_of_the_collection_is_passed_over() -> None:
    lines = {line for path in CASES.iterdir() for line in path.read_text(errors="replace").splitlines()}
    told = {line: storage_trouble(line) for line in lines}
    assert {line: found[0] if found else None for line, found in told.items()} == {line: slowly(line) for line in lines}
    assert {found[0] for found in told.values() if found} == {name for name, _, _ in _IN_ORDER}


def alternatives(pattern: str) -> list[str]:
    """Split where no group is open."""
    found, depth = [""], 0
    for mark in pattern:
        depth += (mark == "(") - (mark == ")")
        if mark == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += mark
    return found


def test_each_alternative_has_its_part() -> None:
    """Every alternative of every pattern that is literal text."""
    for name, pattern, parts in _IN_ORDER:
        for alternative in alternatives(pattern.pattern):
            if not set(alternative) & set("\\[](){}.*?+"):
                assert any(part in alternative for part in parts), (name, alternative)
