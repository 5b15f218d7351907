"""A run that stalls is taken over: when it goes on, it changes nothing and publishes nothing."""

import signal
from pathlib import Path

from holdfast.identifiers import FencingEpoch
from tests.end_to_end.harness import Pipeline


def test_a_frozen_run_that_was_taken_over_does_nothing_more_and_says_so(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, files=40)
    frozen = pipeline.start(own_jvm=True)
    frozen.wait_for("step publish.done", times=2)
    frozen.send(signal.SIGSTOP)

    # Its process is alive, so a successor is refused, however old the heartbeat is.
    ended = pipeline.start().end()
    assert ended[0] == 5, ended
    assert "takeover" in ended[1]
    ended = pipeline.start(crash_at="publish.done:2", on_conflict="takeover").end()
    assert ended[0] == -9, "the successor took over, published, and was then killed"
    taken_over = pipeline.state()
    claimed = taken_over.runs[-1].sequence
    visible = pipeline.visible()

    frozen.send(signal.SIGCONT)
    code, last = frozen.end()

    assert code == 5, last
    assert "Try: stop one of the two deployments" in last or "taken over" in last
    later = [entry for entry in pipeline.entries() if entry.sequence > claimed]
    assert {entry.fencing_epoch for entry in later} == {FencingEpoch(claimed)}
    assert pipeline.visible() == visible, "the fenced run must not publish"
    pipeline.finish()
    pipeline.require_exact()
