"""What rules look for is found in a whole window at once: the same lines as by looking at each."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.needles import needles_of
from holdfast.doctor.reading.windows import windows

RULES = (
    Rule("a", ("abc", "c d"), lambda event: None),
    Rule("b", ("bc", "é"), lambda event: None),
    Rule("often", ("x", "abc"), lambda event: None, frequent=True),
)
RARE = ("abc", "c d", "bc", "é")


@given(st.lists(st.text("abcdxé ", max_size=12), max_size=30))
def test_lines_with_a_needle(lines: list[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    chunks = [data]
    (window,) = windows(lambda size: chunks.pop() if chunks else b"", 0, None, size=1)
    rare, frequent = needles_of(RULES).lines_of(window)
    with_rare = [number for number, line in enumerate(lines) if any(needle in line for needle in RARE)]
    assert rare.tolist() == with_rare
    assert frequent.tolist() == [number for number, line in enumerate(lines) if "x" in line and number not in with_rare]


@given(st.text("abcdxé \n", max_size=30))
def test_rules_that_want_a_text(text: str) -> None:
    assert needles_of(RULES).rules_for(text) == [
        number for number, rule in enumerate(RULES) if any(needle in text for needle in rule.needles)
    ]


def test_rules_without_needles_want_nothing() -> None:
    assert needles_of(()).rules_for("anything") == []
