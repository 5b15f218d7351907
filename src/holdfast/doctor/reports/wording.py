"""Phrases that every form of the report uses."""

from holdfast.finding import Consequence, Evidence, Finding


def place(evidence: Evidence) -> str:
    return f"{evidence.source}:{evidence.line}"


def shown(finding: Finding, evidence: Evidence) -> tuple[str, str]:
    """The place and the text. A history has no files and lines: the text names the checkpoint."""
    return ("", evidence.text) if finding.engine == "holdfast" else (place(evidence), evidence.text)


def because(finding: Finding) -> str:
    """The cause, and how sure it is."""
    return finding.cause if finding.confidence is None else f"{finding.confidence}: {finding.cause}"


def happened(finding: Finding) -> str:
    if finding.count == 1:
        return finding.symptom
    return f"{finding.symptom} ({finding.count} {'checkpoints' if finding.engine == 'holdfast' else 'log lines'})"


def elsewhere(finding: Finding) -> tuple[str, ...]:
    """What holdfast does about it, where the logs are another engine's."""
    return finding.fixes.holdfast if finding.fixes and finding.fixes.holdfast != finding.fix else ()


def period(seen: Finding | Consequence) -> str:
    if seen.first_seen is None:
        return "the log has no times"
    return seen.first_seen if seen.first_seen == seen.last_seen else f"{seen.first_seen} to {seen.last_seen}"


def counted(finding: Finding) -> list[str]:
    """The failures that Flink counted before it failed the job, whether that is the finding or a consequence."""
    rows = dict.fromkeys((*finding.counted, *(each for effect in finding.consequences for each in effect.counted)))
    return [f"{place(each)}: {each.text}" for each in rows]


def followed(finding: Finding, effect: Consequence) -> str:
    if finding.engine == "holdfast":
        return f"{effect.code}: {effect.symptom}"
    times = "1 log line" if effect.count == 1 else f"{effect.count} log lines"
    return f"{effect.code}, {times}: {effect.symptom}"
