"""docs/comparison.md and its plots, made of the records: `python -m bench.peers.report`. Nothing in them is by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from bench.peers import figures
from bench.peers.faults.all import FAULTS
from bench.peers.faults.fault import Fault
from bench.peers.figures import OURS, Figure, Spread, of_query
from bench.peers.pipeline import QUERIES, Query
from bench.peers.plot import Bar, bars
from bench.peers.record import RECORDED, Circumstances, Faults, Round, Rounds, Suffered, read
from bench.peers.systems.all import SYSTEMS
from bench.rounds import DISTURBED

_TEMPLATE = Path(__file__).with_name("comparison.md")
PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
TITLES = {system.name: system.title for system in SYSTEMS}
_PLOTTED = (figures.THROUGHPUT, figures.PROCESSOR, figures.WRITTEN, figures.VISIBLE)
_TABLES = (figures.RUNNING, figures.CHECKPOINTS, figures.RECOVERY)
_QUICK = "Recorded with `--quick`: little state and short rounds, a first look and not a measurement."
_NOT_RECORDED = "Nothing is recorded yet."
_COLUMNS = (
    "system",
    "kept running",
    "restarts: processes, own",
    "silent, usually",
    "output again",
    "restored",
    "lost, doubled, wrong rows, in event time",
    "",
)


def write(folder: Path, page: Path) -> Path:
    for name, content in made(folder).items():
        path = page.parent / name if name != PAGE.name else page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return page


def made(folder: Path) -> dict[str, str]:
    """The page and its plots, by name."""
    rounds = {name: measured for name in TITLES if (measured := read(folder, Rounds, name)) is not None}
    faults = {name: suffered for name in TITLES if (suffered := read(folder, Faults, name)) is not None}
    plots = dict(_plots(rounds))
    return {PAGE.name: _page(rounds, faults, plots), **plots}


def _page(rounds: dict[str, Rounds], faults: dict[str, Faults], plots: dict[str, str]) -> str:
    parts = {
        "DISTURBED": [str(DISTURBED)],
        **{query.upper(): _measured(query, rounds, plots) for query in QUERIES},
        "FAULTS": _under_faults(faults),
        "LOSSES": _losses(rounds, faults),
        "RECORDS": _records(rounds, faults),
    }
    page = _TEMPLATE.read_text()
    for name, lines in parts.items():
        page = page.replace(f"{{{name}}}", "\n".join(lines).strip())
    return page


def _measured(query: Query, rounds: dict[str, Rounds], plots: dict[str, str]) -> Iterator[str]:
    each = [round for record in rounds.values() for round in of_query(record, query)]
    if not each:
        yield _NOT_RECORDED
        return
    yield _sizes(each)
    yield ""
    if any("--quick" in record.circumstances.command for record in rounds.values() if of_query(record, query)):
        yield _QUICK
        yield ""
    for name in plots:
        if f"-{query}-" in name:
            yield f"![{name.rpartition('/')[2].removesuffix('.svg').replace('-', ' ')}]({name})"
    yield ""
    for table in _TABLES:
        if any(figure.spread(of_query(record, query)) for figure in table for record in rounds.values()):
            yield from _table(query, rounds, table)


def _sizes(rounds: Sequence[Round]) -> str:
    some = rounds[0]
    if any((each.shape, each.interval) != (some.shape, some.interval) for each in rounds):
        raise SystemExit(f"rounds of the {some.query} pipeline have different sizes: record all systems anew")
    shape = some.shape
    state = (
        f"{shape.keys:,} keys"
        if some.query == "keyed"
        else f"{shape.window_keys:,} new groups per second of event time, which has {shape.per_second:,} rows; "
        f"the watermark stays {shape.delay} s behind"
    )
    return f"{state}; a checkpoint every {some.interval}; Spark's batches have {shape.batch:,} rows."


def _table(query: Query, rounds: dict[str, Rounds], wanted: Sequence[Figure]) -> Iterator[str]:
    yield "| system | rounds | " + " | ".join(f"{figure.name} ({figure.unit})" for figure in wanted) + " |"
    yield "|---" * (2 + len(wanted)) + "|"
    for name, record in rounds.items():
        mine = of_query(record, query)
        if mine:
            cells = (_cell(figure.spread(mine)) for figure in wanted)
            yield f"| {TITLES[name]} | {len(mine)} | {' | '.join(cells)} |"
    yield ""


def _cell(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    span = f" ({_number(min(spread.values))} to {_number(max(spread.values))})" if len(spread.values) > 1 else ""
    return f"{_number(spread.middle)}{span}{' ?' if spread.disturbed else ''}"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _plots(rounds: dict[str, Rounds]) -> Iterator[tuple[str, str]]:
    for query in QUERIES:
        for figure in _PLOTTED:
            spreads = {name: figure.spread(of_query(record, query)) for name, record in rounds.items()}
            told = {name: spread for name, spread in spreads.items() if spread is not None}
            if told:
                name = f"images/comparison-{query}-{_slug(figure.name)}.svg"
                yield name, bars(f"{query}: {figure.name.replace('`', '')} ({figure.unit})", _bars(told))


def _bars(told: dict[str, Spread]) -> list[Bar]:
    return [
        Bar(
            TITLES[name],
            min(spread.values),
            spread.middle,
            max(spread.values),
            _number(spread.middle) + (" ?" if spread.disturbed else ""),
            name in OURS,
        )
        for name, spread in told.items()
    ]


def _slug(name: str) -> str:
    return "-".join(name.replace("`", "").split(" ")[:3]).lower()


def _under_faults(faults: dict[str, Faults]) -> Iterator[str]:
    if not faults:
        yield _NOT_RECORDED
        return
    some = next(iter(faults.values()))
    yield (
        f"The windowed pipeline with {some.shape.per_second:,} rows per second and a checkpoint every {some.interval}; "
        "the store is a small disk of its own."
    )
    yield ""
    for fault in FAULTS:
        told = {name: each for name, record in faults.items() for each in record.suffered if each.fault == fault.name}
        if told:
            yield from _fault(fault, told)


def _fault(fault: Fault, told: dict[str, Suffered]) -> Iterator[str]:
    yield f"### {fault.title[0].upper()}{fault.title[1:]}"
    yield ""
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "|---" * len(_COLUMNS) + "|"
    for name, each in told.items():
        if each.not_applicable:
            yield f"| {TITLES[name]} | {each.not_applicable} | | | | | | |"
            continue
        checked = each.checked
        rows = f"{checked.lost:,}, {checked.doubled:,}, {checked.wrong:,}" if checked else "-"
        compared = f" in {checked.seconds} s" if checked else ""
        cells = (
            "yes" if each.kept_running else "no",
            f"{each.process_restarts}, {each.own_restarts}",
            f"{each.silent_s:.0f} s, {each.usual_silent_s:.0f} s",
            "yes" if each.progressed else "**no**",
            each.restored if each.restored == "by itself" else f"**{each.restored}**",
            (rows if checked is None or checked.right else f"**{rows}**") + compared,
            f"the second one {each.second}" if each.second else "",
        )
        yield f"| {TITLES[name]} | {' | '.join(cells)} |"
    yield ""
    loads = [each.load for each in told.values() if not each.not_applicable]
    if loads:
        yield f"Load of the machine meanwhile: {_from_to(loads)}."
        yield ""


def _from_to(values: Sequence[float]) -> str:
    least, most = f"{min(values):.0f}", f"{max(values):.0f}"
    return least if least == most else f"{least} to {most}"


def _losses(rounds: dict[str, Rounds], faults: dict[str, Faults]) -> list[str]:
    return [*_lost_figures(rounds), *_lost_faults(faults)] or [_NOT_RECORDED]


def _lost_figures(rounds: dict[str, Rounds]) -> Iterator[str]:
    for query in QUERIES:
        for loss in figures.losses(rounds, query, [figure for table in _TABLES for figure in table]):
            ours = ", ".join(f"{TITLES[name]} {_number(spread.middle)}" for name, spread in loss.ours.items())
            spreads = (loss.theirs, *loss.ours.values())
            mark = " `?`" if any(spread.disturbed for spread in spreads) else ""
            figure = loss.figure
            yield (
                f"- {query}, {figure.name}: {TITLES[loss.other]} {_number(loss.theirs.middle)} {figure.unit}; "
                f"{ours} {figure.unit}{mark}"
            )


def _lost_faults(faults: dict[str, Faults]) -> Iterator[str]:
    for fault in FAULTS:
        for other, ours, what in figures.advantages(fault.name, faults):
            yield f"- {fault.title}: {TITLES[other]} against {TITLES[ours]}: {what}"


def _records(rounds: dict[str, Rounds], faults: dict[str, Faults]) -> Iterator[str]:
    yield "| recorded | system | commit | machine | Java | command | load, others |"
    yield "|---|---|---|---|---|---|---|"
    for name, record in rounds.items():
        beside = f"{_span([each.load for each in record.rounds])}, {_span([each.others for each in record.rounds])}"
        yield _row(name, record.circumstances, beside)
    for name, suffered in faults.items():
        for circumstances, each in _by_run(suffered).items():
            yield _row(name, circumstances, _span([one.load for one in each]))


def _by_run(faults: Faults) -> dict[Circumstances, list[Suffered]]:
    """Faults of one run differ in the time alone."""
    runs: dict[tuple[str, str], list[Suffered]] = {}
    for each in faults.suffered:
        if not each.not_applicable:
            runs.setdefault((each.circumstances.commit, each.circumstances.command), []).append(each)
    return {each[-1].circumstances: each for each in runs.values()}


def _span(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def _row(name: str, each: Circumstances, beside: str) -> str:
    java = each.java.replace('"', "")
    return (
        f"| {each.at} | {TITLES[name]}, {each.system} | {each.commit} | {each.machine} | {java} | `{each.command}` | "
        f"{beside} |"
    )


def main() -> None:
    sys.stdout.write(f"{write(RECORDED, PAGE)}\n")


if __name__ == "__main__":
    main()
