"""From what was recognised in logs to findings. Deterministic, whatever the order of the sightings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from holdfast.doctor.diagnosis.flink_keys import for_version
from holdfast.doctor.diagnosis.timeline import Trouble, troubles
from holdfast.doctor.findings import KNOWLEDGE
from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Support
from holdfast.doctor.matching.case import CONTEXT, Case, cases
from holdfast.doctor.matching.sightings import Sample, Sighting
from holdfast.doctor.reading.engines import FLINK, SPARK
from holdfast.finding import RANK, Confidence, Consequence, Evidence, Finding, Fixes, Severity

_EVIDENCE = 3
_NAMED = 50
"""From this weight on, the runtime itself names the cause."""


def diagnose(sightings: Iterable[Sighting], knowledge: Sequence[Knowledge] = KNOWLEDGE) -> tuple[Finding, ...]:
    """The worst first, then the earliest."""
    found = [
        (_finding(case, trouble), trouble.first) for case in cases(sightings) for trouble in troubles(case, knowledge)
    ]
    found.sort(key=lambda pair: (RANK[pair[0].severity], pair[1].time, pair[0].job or "", pair[1], pair[0].code))
    return tuple(finding for finding, _ in found)


def _finding(case: Case, trouble: Trouble) -> Finding:
    known = trouble.knowledge
    ranked = _ranked(case, trouble)
    cause, support = ranked[0]
    engine = _engine(case, trouble)
    fix = cause.fix_for(case, trouble.sightings)
    flink = for_version(fix.flink, case.version if engine == FLINK else None)
    return Finding(
        code=known.code,
        severity=_severity(case, trouble),
        symptom=known.symptom,
        cause=cause.text,
        evidence=_evidence(trouble.sightings, support),
        fix=_lines(Fix(flink, fix.spark, fix.holdfast), engine),
        count=trouble.count,
        first_seen=_when(trouble.first.time),
        last_seen=_when(trouble.last.time),
        job=None if case.job.startswith("file ") else case.job,
        engine="flink" if engine == FLINK else "spark" if engine == SPARK else None,
        fixes=Fixes(flink=flink, spark=fix.spark, holdfast=fix.holdfast),
        confidence=_confidence(known, cause, support),
        other_causes=_other_causes(case, trouble, ranked),
        counted=_counted(case, trouble),
        consequences=tuple(_consequence(case, each) for each in sorted(trouble.consequences, key=lambda t: t.first)),
        references=_references(known, engine),
    )


def _confidence(known: Knowledge, cause: Cause, support: Support) -> Confidence:
    if support.weight >= _NAMED or (len(known.causes) == 1 and not cause.is_open):
        return "certain"
    return "likely" if support.weight > 1 else "possible"


def _other_causes(case: Case, trouble: Trouble, ranked: list[tuple[Cause, Support]]) -> tuple[str, ...]:
    """What the logs support less; where they support nothing, all that is known, with how to tell them apart."""
    supported = [other.text for other, less in ranked[1:] if less.weight > 1]
    if ranked[0][1].weight > 1:
        return tuple(supported)
    first = [cause for cause, _ in ranked]
    rest = [cause for cause in trouble.knowledge.causes if cause not in first]
    fits = [cause for cause in (*first[1:], *rest) if cause.tell]
    return (*supported, *(_to_tell(cause, case, trouble) for cause in fits if cause.text not in supported))


def _to_tell(cause: Cause, case: Case, trouble: Trouble) -> str:
    fix = cause.fix_for(case, trouble.sightings)
    lines = for_version(_lines(fix, _engine(case, trouble)), case.version)
    return f"{cause.text}. To tell: {cause.tell}. Then: {lines[0].removeprefix('# ') if lines else 'see the docs'}"


def _references(known: Knowledge, engine: str) -> tuple[str, ...]:
    """Without those of the other engine."""
    others = {FLINK: ("SPARK-", "Spark docs"), SPARK: ("FLINK-", "FLIP-", "Flink docs")}.get(engine, ())
    return tuple(text for text in known.references if not text.startswith(others))


def _ranked(case: Case, trouble: Trouble) -> list[tuple[Cause, Support]]:
    weighed = [(cause, cause.weigh(case, trouble.sightings)) for cause in trouble.knowledge.causes]
    supported = [(cause, support) for cause, support in weighed if support.weight > 0]
    return sorted(supported, key=lambda pair: -pair[1].weight)


def _severity(case: Case, trouble: Trouble) -> Severity:
    known = trouble.knowledge
    severity = known.grade(case, trouble.sightings, known.severity)
    healed = known.heals and not trouble.consequences and case.after(trouble.sightings, CONTEXT + "completed")
    return "warning" if healed and severity == "critical" else severity


def _engine(case: Case, trouble: Trouble) -> str:
    own = {sighting.key.engine for sighting in trouble.sightings} - {""}
    return own.pop() if len(own) == 1 else case.engine


def _lines(fix: Fix, engine: str) -> tuple[str, ...]:
    """Those of the case's engine, if there are any."""
    own = fix.spark if engine == SPARK else fix.flink
    return own or fix.flink or fix.spark or fix.holdfast


def _evidence(sightings: Sequence[Sighting], support: Support) -> tuple[Evidence, ...]:
    own = _first_samples(sightings)
    besides = [sample for sample in _first_samples(support.evidence) if sample not in own]
    return tuple(_shown(sample) for sample in (*own, *besides))


def _first_samples(sightings: Sequence[Sighting]) -> list[Sample]:
    return sorted({sample for sighting in sightings for sample in sighting.samples})[:_EVIDENCE]


def _shown(sample: Sample) -> Evidence:
    return Evidence(source=sample.source, line=sample.line, text=sample.text)


def _counted(case: Case, trouble: Trouble) -> tuple[Evidence, ...]:
    return tuple(_shown(sample) for sample in trouble.knowledge.counts(case, trouble.sightings))


def _consequence(case: Case, trouble: Trouble) -> Consequence:
    return Consequence(
        code=trouble.code,
        symptom=trouble.knowledge.symptom,
        count=trouble.count,
        first_seen=_when(trouble.first.time),
        last_seen=_when(trouble.last.time),
        evidence=tuple(_shown(sample) for sample in _first_samples(trouble.sightings)),
        counted=_counted(case, trouble),
    )


def _when(milliseconds: int) -> str | None:
    if milliseconds < 0:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
