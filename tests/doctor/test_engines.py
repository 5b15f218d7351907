"""Both engines find the same lines, the same beginnings of events and the same needles."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.engines import PLAIN, Engine, fast
from holdfast.doctor.reading.windows import Window, windows
from tests.doctor.collection import CASES
from tests.doctor.real import LOGS

ENGINES = pytest.mark.parametrize("engine", [PLAIN, fast()], ids=["plain", "fast"])

RULES = (
    Rule("a", ("abc", "c d"), lambda event: None),
    Rule("b", ("bc", "é"), lambda event: None),
    Rule("often", ("x", "abc"), lambda event: None, frequent=True),
)
RARE = ("abc", "c d", "bc", "é")


def window_of(data: bytes, engine: Engine) -> Window:
    chunks = [data]
    (window,) = windows(lambda size: chunks.pop() if chunks else b"", 0, None, engine.line_starts, size=len(data) + 1)
    return window


@ENGINES
@settings(deadline=None)  # the first example compiles the needles
@given(st.lists(st.text("abcdxé ", max_size=12), max_size=30))
def test_lines_with_a_needle(engine: Engine, lines: list[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    rare, frequent = engine.needles(RULES).lines_of(window_of(data, engine))
    with_rare = [number for number, line in enumerate(lines) if any(needle in line for needle in RARE)]
    assert rare == with_rare
    assert frequent == [number for number, line in enumerate(lines) if "x" in line and number not in with_rare]


@ENGINES
@settings(deadline=None)  # the first example compiles the needles
@given(st.text("abcdxé \n", max_size=30))
def test_rules_that_want_a_text(engine: Engine, text: str) -> None:
    assert engine.needles(RULES).rules_for(text) == [
        number for number, rule in enumerate(RULES) if any(needle in text for needle in rule.needles)
    ]


@ENGINES
def test_rules_without_needles_want_nothing(engine: Engine) -> None:
    assert engine.needles(()).rules_for("anything") == []


def test_the_fast_engine_is_another_one() -> None:
    assert fast() is not PLAIN


def test_events_begin_at_the_same_lines() -> None:
    """In every log of the collection and of the real runs."""
    for path in (*CASES.iterdir(), *LOGS.iterdir()):
        data = path.read_bytes()
        plain, vectors = window_of(data, PLAIN), window_of(data, fast())
        assert list(plain.starts) == list(vectors.starts), path.name
        assert list(PLAIN.heads(plain)) == list(fast().heads(vectors)), path.name


@settings(deadline=None)  # the first example compiles the needles
@given(
    st.lists(
        st.sampled_from(
            [
                b"2024-01-02 03:04:05,678 INFO ",
                b"\xc3\xa9",
                b"\n",
                b"\r",
                b"24/01/02 03:04:05 WARN X: y",
                b'{"level":',
                b"\tat a.b(C.java)",
                b"\x00",
                b"[pod/a/b] ",
                b"\x1b[31m",
                b"  ",
            ]
        )
    )
)
def test_events_begin_at_the_same_lines_of_any_bytes(parts: list[bytes]) -> None:
    data = b"".join(parts)
    plain, vectors = window_of(data, PLAIN), window_of(data, fast())
    assert list(plain.starts) == list(vectors.starts)
    assert list(PLAIN.heads(plain)) == list(fast().heads(vectors))
