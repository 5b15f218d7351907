"""Generates pages of docs/ from the code: see `PAGES`. A test fails when they differ."""

import sys
from pathlib import Path

from holdfast.coordination.failure_reasons import RULES
from holdfast.coordination.lifecycle import ENDED, TRANSITIONS, Phase
from holdfast.doctor.findings import KNOWLEDGE
from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge

sys.path.insert(0, str(Path(__file__).parent.parent))

from scripts.command_reference import commands
from scripts.reference import errors_page, settings
from tests.doctor.collection import examined
from tests.doctor.gallery import Pair, gallery

_CELL = 150
DOCS = Path(__file__).parent.parent / "docs"
_NOTE = "<!-- Written by scripts/generate_docs.py from the code. Change the code, then run it again. -->"

_FAILURES = """\
# Why a checkpoint can fail

{note}

The reasons that `holdfast checkpoints` names for failed checkpoints, and what to do about each. A checkpoint that fails
never stops, restarts or slows the pipeline. Nothing that was uploaded is deleted: the next attempt reuses it.

A failure *counts* when it means that checkpoints do not become durable. When more than `tolerable_failures` counted
failures, one per checkpoint, follow each other, the alarm becomes critical, and with `on_exceeded="fail"` the job
stops. A completed checkpoint resets the count. Failures of savepoints are never counted.

| reason | counts | at fault | meaning | what to do |
|---|---|---|---|---|
{rows}
"""

_COORDINATOR = """\
# The lifecycle of a checkpoint

{note}

The phases of one attempt at a checkpoint, and the signals that lead from one to the next. A signal that has no arrow in
a phase only changes a statistic there: messages can be late, repeated, unknown or lost.

```mermaid
stateDiagram-v2
    [*] --> {first}
{arrows}
{ends}
```

| phase | signal | next phase |
|---|---|---|
{rows}

The arrows out of `{failed}` come from the journal: an entry whose outcome was unknown, and which is found to exist,
makes its checkpoint completed.
"""

_FINDINGS = """\
# What the doctor finds in logs

{note}

Every trouble that `holdfast doctor` recognises in logs of Flink and Spark, with its causes and their fixes. The doctor
reports the cause that the logs support best, and names others that they support. Settings that depend on numbers in the
logs are computed from them and not shown here. Keys of Flink are those of 1.x; for logs of 2.x they are translated.

How sure a cause is: *certain* when the runtime itself names it, *likely* when other lines point at it, *possible* when
nothing speaks against it. Where nothing in the logs tells the causes apart, all are listed, each with how to find out.

## What shows each, and what does not

`tests/doctor/test_gallery.py` checks each row.

| finding | a line that shows it | seen | a near miss |
|---|---|---|---|
{gallery}

{findings}"""


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


def findings() -> str:
    return _FINDINGS.format(
        note=_NOTE,
        gallery="\n".join(map(_row, gallery())),
        findings="\n".join(_finding(known) for known in KNOWLEDGE),
    )


def _row(pair: Pair) -> str:
    evidence = examined(pair.shows).findings[0].evidence[0].text
    where = f"[there]({pair.where})" if pair.where else "collection"
    return f"| `{pair.code}` | {_cell(evidence)} | {where} | {_cell(pair.miss)} |"


def _cell(text: str) -> str:
    """Shortened, as code, in a table."""
    shown = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return f"`{shown if len(shown) <= _CELL else shown[: _CELL - 1] + '…'}`"


def _finding(known: Knowledge) -> str:
    causes = "\n".join(_cause(cause) for cause in known.causes)
    see = f"\nSee: {', '.join(known.references)}.\n" if known.references else ""
    return f"## `{known.code}`\n\n{known.severity}: {known.symptom}.\n\n{causes}\n{see}"


def _cause(cause: Cause) -> str:
    lines = [f"- {cause.text}", *([f"  - to tell: {cause.tell}"] if cause.tell else [])]
    if isinstance(cause.fix, Fix):
        for engine in ("flink", "spark", "holdfast"):
            lines += [f"  - {engine}: {_code(line)}" for line in getattr(cause.fix, engine)]
    return "\n".join(lines)


def _code(line: str) -> str:
    return line.removeprefix("# ") if line.startswith("# ") else f"`{line}`"


PAGES = {
    "failures.md": failures,
    "coordinator.md": coordinator,
    "findings.md": findings,
    "commands.md": lambda: commands(_NOTE),
    "settings.md": lambda: settings(_NOTE),
    "errors.md": lambda: errors_page(_NOTE),
}


def main() -> None:
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
