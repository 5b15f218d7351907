"""`holdfast run --profile-start`: where the seconds go until the first batch has ended, as a waterfall."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.cli.output import print_message
from holdfast.job_log import about_the_same, measured_phases
from holdfast.repository.ownership import current_process
from holdfast.runtime.clock import SystemClock, process_age_s
from holdfast.runtime.start_profile import FIRST_BATCH, PhaseSpan, StartProfile

_WIDTH = 40


@contextmanager
def profiled(identity: str | None = None) -> Iterator[StartProfile]:
    """Says it as soon as the first batch has ended; else at the end of the block, with the phases that there were."""
    age = process_age_s(current_process(identity).started_ticks)
    profile = StartProfile(SystemClock().monotonic, age)
    profile.phased_before("Python and the command")
    telling = threading.Thread(target=about_the_same(_tell), args=(profile,), name="holdfast-profile", daemon=True)
    telling.start()
    try:
        with measured_phases(profile.phased):
            yield profile
    finally:
        profile.complete.set()
        telling.join()


def _tell(profile: StartProfile) -> None:
    profile.complete.wait()
    print_message("\n".join(waterfall(profile.spans)))


def waterfall(spans: Sequence[PhaseSpan]) -> list[str]:
    """One line for each phase, by its beginning; bars below each other are one after the other. Pure."""
    end = max((span.began_s + span.took_s for span in spans), default=0.0)
    whole = any(span.phase == FIRST_BATCH for span in spans)
    until = "the end of the first batch" if whole else "the end; there was no batch"
    lines = [f"start: {end:.1f} s from the start of the process to {until}"]
    width = max((len(span.phase) for span in spans), default=0)
    for span in spans:
        lines.append(f"  {span.phase:<{width}}  {_bar(span, end)}  {span.began_s:5.1f} {span.took_s:+6.2f} s")
    return lines


def _bar(span: PhaseSpan, end: float) -> str:
    """At least one cell, also of a phase that took no time."""
    cells = max(1, round(span.took_s / end * _WIDTH)) if end else 1
    before = min(round(span.began_s / end * _WIDTH), _WIDTH - cells) if end else 0
    return (" " * before + "█" * cells).ljust(_WIDTH)


def as_document(profile: StartProfile) -> list[dict[str, object]]:
    return [
        {"phase": span.phase, "began_s": round(span.began_s, 3), "took_s": round(span.took_s, 3)}
        for span in profile.spans
    ]
