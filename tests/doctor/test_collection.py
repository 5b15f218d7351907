"""The collection: each excerpt gives the right first finding with the right fix, or no critical one at all."""

import pytest

from holdfast.doctor.findings import KNOWLEDGE
from tests.doctor.collection import CASES, Excerpt, Score, Verdict, examined, excerpts, score
from tests.doctor.wild import HEAPS, heap

EXCERPTS = excerpts()
WITHOUT_EXCERPT = {
    ("executor-lost", "crashed"),
    ("executor-lost", "local-disk"),
    ("executor-lost", "uncaught"),
    ("rpc-unanswered", "oversized"),
    ("rpc-unanswered", "pause"),
    ("shuffle-lost", "memory"),
    ("out-of-memory", "managed"),
    ("resources-refused", "failures"),
    ("resources-refused", "image"),
    ("rpc-unanswered", "registration"),
    ("serializer-failed", "generic"),
}
"""Causes that are known, and that no excerpt of the collection shows yet."""


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=lambda excerpt: excerpt.name)
def test_excerpt(excerpt: Excerpt) -> None:
    verdict = examined(excerpt)
    shown = [(finding.severity, finding.code, finding.cause) for finding in verdict.findings]
    assert verdict.false_alarms == 0, shown
    if excerpt.first:
        assert verdict.first == excerpt.first, shown
        assert excerpt.fix in verdict.findings[0].fix
        assert all(1 <= evidence.line <= _lines(excerpt) for evidence in verdict.findings[0].evidence)


def test_the_collection_is_large_and_varied_enough() -> None:
    seeds = {excerpt.name[:8] for excerpt in EXCERPTS if excerpt.name.startswith("seed-")}
    assert seeds == {"seed-000", "seed-001", "seed-002", "seed-003", "seed-004"}
    further = [excerpt for excerpt in EXCERPTS if not excerpt.name.startswith("seed-")]
    assert len(further) >= 40
    assert sum(not excerpt.first for excerpt in further) >= 10
    assert {path.stem for path in CASES.iterdir()} == {excerpt.name for excerpt in EXCERPTS}


def test_every_cause_is_the_answer_to_some_excerpt() -> None:
    """But for those that say that the cause is not known."""
    everything = [*EXCERPTS, *(seen.excerpt for name in HEAPS[:-1] for seen in heap(name))]
    told = {(finding.code, finding.cause) for excerpt in everything for finding in examined(excerpt).findings}
    known = {(each.code, cause.text): cause.name for each in KNOWLEDGE for cause in each.causes}
    missing = {(code, name) for (code, text), name in known.items() if (code, text) not in told}
    assert {(code, name) for code, name in missing if name != "unknown"} == WITHOUT_EXCERPT


def test_precision_and_recall() -> None:
    result = score(examined(excerpt) for excerpt in EXCERPTS)
    assert result.precision >= 0.95
    assert result.recall >= 0.95


def test_how_the_score_counts() -> None:
    trouble, healthy = _excerpt("metadata-exists"), _excerpt("")
    right = examined(_named("seed-000-metadata-gcs")).findings
    wrong = examined(_named("seed-003-magic-number")).findings
    assert score([Verdict(trouble, right)]) == Score(hits=1, troubles=1, false_alarms=0)
    assert score([Verdict(trouble, ())]) == Score(hits=0, troubles=1, false_alarms=0)
    assert score([Verdict(trouble, wrong)]) == Score(hits=0, troubles=1, false_alarms=1)
    assert score([Verdict(trouble, (*right, *wrong))]) == Score(hits=1, troubles=1, false_alarms=1)
    assert score([Verdict(healthy, right)]) == Score(hits=0, troubles=0, false_alarms=1)
    assert score([Verdict(healthy, ())]) == Score(hits=0, troubles=0, false_alarms=0)


def _excerpt(first: str) -> Excerpt:
    return Excerpt("x", CASES / "x.log", first)


def _named(name: str) -> Excerpt:
    return next(excerpt for excerpt in EXCERPTS if excerpt.name == name)


def _lines(excerpt: Excerpt) -> int:
    return excerpt.path.read_text().count("\n")
