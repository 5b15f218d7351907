"""Writes the pages that say what the code says: docs/failures.md and docs/coordinator.md. A test keeps them equal."""

from pathlib import Path

from holdfast.coordination.lifecycle import ENDED, TRANSITIONS, Phase
from holdfast.coordination.reasons import RULES

DOCS = Path(__file__).parent.parent / "docs"
_NOTE = "<!-- Written by scripts/generate_docs.py from the code. Change the code, then run it again. -->"

_FAILURES = """\
# Why a checkpoint can fail

{note}

A checkpoint that fails never stops, restarts or slows the pipeline. Nothing that was uploaded is deleted: the next
attempt uses it. A failure *counts* when it says that checkpoints do not become durable; counted failures in a row, one
per checkpoint, are compared with `tolerable_failures`. Past that number the alarm becomes critical, and with
`on_exceeded="fail"` the job stops. A completed checkpoint resets the count. Failures of savepoints are never counted.

| reason | counts | whose fault | meaning | what to do |
|---|---|---|---|---|
{rows}
"""

_COORDINATOR = """\
# How a checkpoint goes

{note}

One attempt at a checkpoint is in one of these phases. A signal that has no arrow in a phase changes nothing there but a
statistic: a message may be late, repeated, unknown or lost.

```mermaid
stateDiagram-v2
    [*] --> {first}
{arrows}
{ends}
```

| phase | signal | next phase |
|---|---|---|
{rows}

The arrows out of `{failed}` are the journal's: an entry whose outcome was unknown, and which is found to exist, makes
its checkpoint completed, whatever was believed before.
"""


def failures() -> str:
    rows = [
        f"| `{reason.value}` | {'yes' if rule.counted else 'no'} | {rule.fault.value} | {rule.meaning} | {rule.hint} |"
        for reason, rule in RULES.items()
    ]
    return _FAILURES.format(note=_NOTE, rows="\n".join(rows))


def coordinator() -> str:
    arrows = [f"    {old.value} --> {new.value}: {signal.value}" for (old, signal), new in TRANSITIONS.items()]
    ends = [f"    {phase.value} --> [*]" for phase in Phase if phase in ENDED]
    rows = [f"| {old.value} | {signal.value} | {new.value} |" for (old, signal), new in TRANSITIONS.items()]
    return _COORDINATOR.format(
        note=_NOTE,
        first=next(iter(Phase)).value,
        arrows="\n".join(arrows),
        ends="\n".join(ends),
        rows="\n".join(rows),
        failed=Phase.FAILED.value,
    )


PAGES = {"failures.md": failures, "coordinator.md": coordinator}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
