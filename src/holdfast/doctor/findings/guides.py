"""Who explains a known trouble, in a guide or an answer, is told what is known about it: nothing failed as far as the
text shows, so it is an `info`, and only where the text shows no failure of that kind."""

from dataclasses import dataclass

from holdfast.doctor.findings.knowledge import Sightings, Support, Weigh
from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown
from holdfast.finding import Severity

_TOLD = "told:"


@dataclass(frozen=True, slots=True)
class _Explains:
    """Sent to Spark's workers, and compared there, so it is no closure."""

    cause: str

    def __call__(self, event: LogEvent) -> Clue | None:
        bare = event.logger is None and event.level is None and not event.exceptions
        return Clue(shown(event), _TOLD + self.cause) if bare else None


def guide(code: str, cause: str, *words: str) -> Rule:
    """`words`: of people who explain this cause, and of no runtime."""
    return Rule(code, words, _Explains(cause), of_guides=True)


def or_told(weigh: Weigh, cause: str) -> Weigh:
    """Also supported, weakly, where a guide explains this cause."""

    def either(case: Case, seen: Sightings) -> Support:
        support = weigh(case, seen)
        if support.weight > 1 or all(sighting.key.variant != _TOLD + cause for sighting in seen):
            return support
        return Support(1)

    return either


def unless_shown(case: Case, seen: Sightings) -> Sightings:
    del case
    return [sighting for sighting in seen if not _is_told(sighting.key.variant)] or seen


def info_if_told(case: Case, seen: Sightings, severity: Severity) -> Severity:
    del case
    return "info" if all(_is_told(sighting.key.variant) for sighting in seen) else severity


def _is_told(variant: str) -> bool:
    return variant.startswith(_TOLD)
