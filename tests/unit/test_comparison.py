"""docs/comparison.md is what the records say, and the comparison of outputs sees what is lost, doubled or wrong."""

from pathlib import Path

import msgspec
import pytest

from bench.peers import report
from bench.peers.pipeline import Checked, Group, Shape, check
from bench.peers.record import RECORDED, Circumstances, Faults, Round, Rounds, Suffered, read, write
from bench.peers.systems.system import Checkpoint

SHAPE = Shape(keys=1, window_keys=4, per_second=10, delay=1, batch=1)


def right(seconds: int) -> list[Group]:
    numbers = {
        (n // 10, n % 4): [m for m in range(n // 10 * 10, n // 10 * 10 + 10) if m % 4 == n % 4] for n in range(80)
    }
    return [Group(*place, len(each), sum(each)) for place, each in numbers.items() if place[0] < seconds]


WHERE = Circumstances("2026-11-19 04:00", "System 1.0", "Java 17", "2 cores", "abc1234", "python -m bench.peers")


def a_round(number: int, rows: int, others: float = 0.0) -> Round:
    taken = (Checkpoint(0.5, 9_000_000, full=True), Checkpoint(0.2, 1_000_000, full=False))
    return Round(number, "windowed", SHAPE, "5s", 10.0, rows, 12.0, taken, 3.0, 4.0, others, 1.0)


def records(folder: Path, rows: dict[str, int], lost: dict[str, int], others: float = 0.0) -> Path:
    """Of systems with so many rows in ten seconds, and of such that lost so many in a fault."""
    for name, each in rows.items():
        write(folder, Rounds(WHERE, tuple(a_round(number, each + number * 10, others) for number in range(3))), name)
    for name, each in lost.items():
        checked = Checked(seconds=10, lost=each, doubled=0, wrong=0)
        silent = Suffered("killed-driver", WHERE, progressed=True, restored="by itself", silent_s=9, checked=checked)
        write(folder, Faults(SHAPE, "3s", (silent,)), name)
    return folder


def page_of(folder: Path) -> str:
    return report.made(folder)[report.PAGE.name]


def better(page: str) -> str:
    """What is said under the headline."""
    return page.partition("## What the others do better")[2].partition("## ")[0]


def test_the_page_and_its_plots_are_what_the_records_say() -> None:
    for name, content in report.made(RECORDED).items():
        assert (report.PAGE.parent / name).read_text() == content, f"run python -m bench.peers.report: {name}"


def test_no_plot_is_left_from_other_records() -> None:
    found = {f"images/{path.name}" for path in report.PAGE.parent.glob("images/comparison-*")}
    assert found == report.made(RECORDED).keys() - {report.PAGE.name}


def test_the_page_has_no_figure_without_records(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    assert page.count("Nothing is recorded yet.") == 4
    assert "rows/s" not in page


def test_a_figure_is_the_median_with_least_and_most(tmp_path: Path) -> None:
    page = page_of(records(tmp_path, {"flink": 20_000}, {}))
    assert "| Flink | 3 | 2,001 (2,000 to 2,002) |" in page


def test_disturbed_rounds_are_marked(tmp_path: Path) -> None:
    assert "2,001 (2,000 to 2,002) ? |" in page_of(records(tmp_path, {"flink": 20_000}, {}, others=1.5))


def test_a_first_look_is_called_one(tmp_path: Path) -> None:
    folder = records(tmp_path, {"flink": 20_000}, {})
    assert "a first look and not a measurement" not in page_of(folder)
    record = read(folder, Rounds, "flink")
    assert record is not None
    quick = msgspec.structs.replace(record.circumstances, command="python -m bench.peers --quick")
    write(folder, msgspec.structs.replace(record, circumstances=quick), "flink")
    assert "a first look and not a measurement" in page_of(folder)


def test_rounds_of_different_sizes_make_no_page(tmp_path: Path) -> None:
    folder = records(tmp_path, {"flink": 20_000, "plain": 10_000}, {})
    record = read(folder, Rounds, "plain")
    assert record is not None
    larger = msgspec.structs.replace(SHAPE, batch=2)
    rounds = tuple(msgspec.structs.replace(each, shape=larger) for each in record.rounds)
    write(folder, msgspec.structs.replace(record, rounds=rounds), "plain")
    with pytest.raises(SystemExit, match="different sizes"):
        page_of(folder)


def test_a_quicker_system_is_among_what_others_do_better(tmp_path: Path) -> None:
    page = page_of(records(tmp_path, {"flink": 20_000, "our-sink": 10_000, "own-writer": 30_000}, {}))
    assert "- windowed, throughput: Flink 2,001 rows/s; holdfast, Files sink 1,001 rows/s" in better(page)
    assert "own writer" not in better(page)


def test_a_slower_system_is_not(tmp_path: Path) -> None:
    assert "throughput" not in better(page_of(records(tmp_path, {"plain": 9_000, "our-sink": 10_000}, {})))


def test_a_lost_row_of_ours_is_in_the_page_and_among_what_others_do_better(tmp_path: Path) -> None:
    page = page_of(records(tmp_path, {}, {"flink": 0, "our-sink": 123_456}))
    assert "**123,456, 0, 0**" in page
    assert "Flink against holdfast, Files sink: its output was right" in better(page)


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
