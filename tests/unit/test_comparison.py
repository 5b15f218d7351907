"""docs/comparison.md is what the records say, and the comparison of outputs sees what is lost, doubled or wrong."""

import shutil
from pathlib import Path

import msgspec
import pytest

from bench.peers import report
from bench.peers.pipeline import Checked, Group, Shape, check
from bench.peers.record import RECORDED, Faults, Rounds, read, write
from bench.peers.systems.all import SYSTEMS

SHAPE = Shape(keys=1, window_keys=4, per_second=10, delay=1, batch=1)
NAMES = [system.name for system in SYSTEMS]


def right(seconds: int) -> list[Group]:
    numbers = {
        (n // 10, n % 4): [m for m in range(n // 10 * 10, n // 10 * 10 + 10) if m % 4 == n % 4] for n in range(80)
    }
    return [Group(*place, len(each), sum(each)) for place, each in numbers.items() if place[0] < seconds]


def test_the_page_and_its_plots_are_what_the_records_say() -> None:
    made = report.made(RECORDED)
    assert len(made) > 1
    for name, content in made.items():
        assert (report.PAGE.parent / name).read_text() == content, f"run python -m bench.peers.report: {name}"


def test_no_plot_is_left_from_other_records() -> None:
    found = {f"images/{path.name}" for path in report.PAGE.parent.glob("images/comparison-*")}
    assert found == report.made(RECORDED).keys() - {report.PAGE.name}


def test_another_throughput_makes_another_page(tmp_path: Path) -> None:
    recorded = shutil.copytree(RECORDED, tmp_path / "recorded")
    name = next(name for name in NAMES if read(recorded, Rounds, name))
    record = read(recorded, Rounds, name)
    assert record is not None
    quicker = tuple(msgspec.structs.replace(each, rows=each.rows * 7) for each in record.rounds)
    write(recorded, msgspec.structs.replace(record, rounds=quicker), name)
    before, after = report.made(RECORDED), report.made(recorded)
    assert {each for each in before if before[each] != after[each]} >= {report.PAGE.name}


def test_a_lost_row_of_ours_is_in_the_page_and_among_what_others_do_better(tmp_path: Path) -> None:
    recorded = shutil.copytree(RECORDED, tmp_path / "recorded")
    record = read(recorded, Faults, "our-sink")
    assert record is not None
    bad = Checked(seconds=10, lost=123_456, doubled=0, wrong=0)
    write(
        recorded,
        msgspec.structs.replace(
            record, suffered=tuple(msgspec.structs.replace(each, checked=bad) for each in record.suffered)
        ),
        "our-sink",
    )
    page = report.made(recorded)[report.PAGE.name]
    assert "**123,456, 0, 0**" in page
    assert "against holdfast, Files sink: its output was right" in page


def test_the_right_output_is_right() -> None:
    assert check(right(8), SHAPE, margin=2) == Checked(seconds=5, lost=0, doubled=0, wrong=0)


@pytest.mark.parametrize(
    ("rows", "checked"),
    [
        (right(8)[1:], Checked(seconds=5, lost=1, doubled=0, wrong=0)),
        (right(8) + right(2), Checked(seconds=5, lost=0, doubled=8, wrong=0)),
        ([Group(0, 0, 99, 0), *right(8)[1:]], Checked(seconds=5, lost=0, doubled=0, wrong=1)),
        ([Group(0, 0, 99, 0), *right(8)], Checked(seconds=5, lost=0, doubled=1, wrong=1)),
        ([], Checked(seconds=0, lost=0, doubled=0, wrong=0)),
    ],
)
def test_what_is_lost_doubled_or_wrong_is_counted(rows: list[Group], checked: Checked) -> None:
    assert check(rows, SHAPE, margin=2) == checked
