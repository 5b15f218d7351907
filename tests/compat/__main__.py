"""`make compat`: every query under every supported PySpark, and one version's checkpoints under newer ones.

Results are kept in .compat/results.json, so that the suite can be run in parts; the table of all of them is printed.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from tests.compat.environments import ROOT, VERSIONS
from tests.compat.plans import CHAIN, FORMATS, LEAP, QUERIES, Plan, plans
from tests.compat.stories import EXACT, Story

RESULTS = ROOT / "results.json"
LETTERS = dict(zip(FORMATS, "hrcv", strict=True))
Results = dict[str, dict[str, dict[str, str]]]
"""By column, case and state format: `exact`, or what went wrong."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description=__doc__)
    parser.add_argument("--column", action="append", choices=(*VERSIONS, CHAIN, LEAP), help="only this one")
    parser.add_argument("--format", action="append", choices=FORMATS, help="only this one")
    parser.add_argument("--case", action="append", choices=QUERIES, help="only this one")
    given = parser.parse_args(arguments)
    columns, formats = given.column or (*VERSIONS, CHAIN, LEAP), given.format or FORMATS
    found = plans(given.case or QUERIES)
    chosen = [plan for plan in found if plan.column in columns and plan.state_format in formats]
    failed = [plan for plan in chosen if not run(plan)]
    sys.stdout.write(table(results()) + "\n")
    return 1 if failed else 0


def run(plan: Plan) -> bool:
    story = Story(ROOT / "run" / f"{plan.column}-{plan.state_format}-{plan.versions[0]}", plan)
    outcomes = story.outcomes()
    say(plan.title)
    for remark in story.remarks():
        say(f"    {remark}")
    wrong = {case: outcome for case, outcome in outcomes.items() if outcome != EXACT}
    for case, outcome in wrong.items():
        say(f"    {case}: {outcome[:300]}; see {story.log}")
    keep(plan, outcomes)
    if not wrong:
        story.forget()
    return not wrong


def say(line: str) -> None:
    sys.stderr.write(line + "\n")


def results() -> Results:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(plan: Plan, outcomes: dict[str, str]) -> None:
    known = results()
    for case, outcome in outcomes.items():
        known.setdefault(plan.column, {}).setdefault(case, {})[plan.state_format] = outcome
    ROOT.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(known, indent=2))


def table(known: Results) -> str:
    """The formats in which the output was exact, by query and column."""
    columns = (*VERSIONS, CHAIN, LEAP)
    lines = [f"| query | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for case in QUERIES:
        cells = [_cell(known.get(column, {}).get(case, {})) for column in columns]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(outcomes: dict[str, str]) -> str:
    shown = [
        letter if outcomes[name] == EXACT else f"**{letter} fails**"
        for name, letter in LETTERS.items()
        if name in outcomes
    ]
    return " ".join(shown) or "-"


if __name__ == "__main__":
    sys.exit(main())
