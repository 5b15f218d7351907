"""Phrases that every form of the report uses."""

from holdfast.doctor.finding import Consequence, Evidence, Finding


def place(evidence: Evidence) -> str:
    return f"{evidence.source}:{evidence.line}"


def happened(finding: Finding) -> str:
    return f"{finding.symptom} ({finding.count} times)" if finding.count > 1 else finding.symptom


def period(seen: Finding | Consequence) -> str:
    if seen.first_seen is None:
        return "the log has no times"
    return seen.first_seen if seen.first_seen == seen.last_seen else f"{seen.first_seen} to {seen.last_seen}"


def followed(effect: Consequence) -> str:
    times = "once" if effect.count == 1 else f"{effect.count} times"
    return f"{effect.code}, {times}: {effect.symptom}"
