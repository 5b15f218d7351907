"""Lines become events: traces stay whole wherever a file is cut, pods do not mix, damage is counted and not fatal."""

import gzip
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.matching.engines import fast
from holdfast.doctor.matching.examination import added_up
from holdfast.doctor.matching.grouping import EVENT_LINES, Grouping
from holdfast.doctor.matching.scanning import Reading, events_of, scan
from holdfast.doctor.matching.sightings import Sighting
from holdfast.doctor.reading.blocks import Piece
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.inputs import pieces_of, resolve, shared_out
from holdfast.doctor.reading.windows import REACH, windows
from holdfast.errors import NotFound

HEAD = "2026-01-02 03:04:05,678 {level}  org.apache.flink.Foo     [] - {message}"


def failed(number: int, frames: int = 5) -> list[str]:
    """An event with three exceptions; only the innermost says what the rule looks for."""
    return [
        HEAD.format(level="WARN", message=f"Checkpoint {number} failed"),
        f"java.util.concurrent.CompletionException: outer {number}",
        *("\tat org.apache.flink.Outer.run(Outer.java:1)" for _ in range(frames)),
        f"\tSuppressed: java.lang.IllegalStateException: aside {number}",
        "\t\tat org.apache.flink.Aside.run(Aside.java:1)",
        "\tCaused by: java.lang.Exception: cause of what was suppressed",
        "Caused by: java.io.IOException: middle",
        "\tat org.apache.flink.Middle.run(Middle.java:1)",
        "\t... 23 more",
        "Caused by: java.net.ConnectException: the needle",
        "\tat java.base/java.net.Socket.connect(Socket.java:1)",
        "\t... 24 more",
    ]


def healthy(number: int) -> list[str]:
    return [HEAD.format(level="INFO", message=f"Completed checkpoint {number}"), "and a second line of it"]


RULES = (
    Rule(
        "seen",
        ("the needle",),
        lambda event: Clue(event.message, variant="/".join(x.class_name for x in event.exceptions)),
    ),
)


def written(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def seen(path: Path, piece_size: int) -> tuple[list[Sighting], Reading]:
    readings = [scan(piece, RULES) for piece in pieces_of([str(path)], piece_size)]
    total = added_up(readings)
    return total.sightings, Reading(Piece(str(path)), total.bytes, total.lines, total.events, total.unparsed)


CHAIN = "java.util.concurrent.CompletionException/java.io.IOException/java.net.ConnectException"


def test_an_event_is_the_same_wherever_the_file_is_cut(tmp_path: Path) -> None:
    chance = random.Random(7)
    blocks = [failed(n, chance.randrange(40)) if chance.random() < 0.3 else healthy(n) for n in range(60)]
    path = written(tmp_path / "job.log", [line for block in blocks for line in block])
    whole = seen(path, 10**9)
    assert {sighting.key.variant for sighting in whole[0]} == {CHAIN}
    assert sum(sighting.count for sighting in whole[0]) == sum(len(block) > 2 for block in blocks)
    for pieces in (2, 3, 29, 64):
        assert seen(path, path.stat().st_size // pieces) == whole


def test_evidence_says_the_line(tmp_path: Path) -> None:
    path = written(tmp_path / "job.log", [*healthy(1), *failed(2), *healthy(3), *failed(4)])
    for size in (10**9, 100):
        (sighting,), _ = seen(path, size)
        assert [sample.line for sample in sighting.samples] == [3, 21]


def test_a_file_larger_than_a_window_is_read_as_one(tmp_path: Path) -> None:
    blocks = [failed(n) if n % 50 == 0 else healthy(n) for n in range(60_000)]
    data = "".join(f"{line}\n" for block in blocks for line in block).encode()
    assert len(data) > 6 * REACH
    events: list[LogEvent] = []
    rest = memoryview(data)

    def read(size: int) -> bytes:
        nonlocal rest
        chunk, rest = bytes(rest[: min(size, 70_001)]), rest[min(size, 70_001) :]
        return chunk

    lines = 0
    for window in windows(read, 0, None, fast().line_starts, size=100_000):
        assert len(window.data) <= 100_000 + 2 * REACH
        lines += window.own_lines
        events += Grouping("x", window, fast()).events_with(fast().needles(RULES))
    numbers = [number + 1 for number, line in enumerate(data.splitlines()) if b"failed" in line]
    assert [event.line for event in events] == numbers
    assert {"/".join(link.class_name for link in event.exceptions) for event in events} == {CHAIN}
    assert lines == data.count(b"\n")


def test_of_what_healthy_jobs_write_a_few_lines_are_looked_at_the_same_wherever_the_file_is_cut(tmp_path: Path) -> None:
    path = written(
        tmp_path / "job.log", [line for n in range(40_000) for line in (failed(n) if n % 5000 == 7 else healthy(n))]
    )
    rules = (*RULES, Rule("healthy", ("Completed checkpoint",), lambda event: Clue(event.message), frequent=True))

    def sightings(piece_size: int) -> list[Sighting]:
        return added_up(scan(piece, rules) for piece in pieces_of([str(path)], piece_size)).sightings

    whole = sightings(10**9)
    counts = {sighting.key.code: sighting.count for sighting in whole}
    assert counts["seen"] == 8
    assert 30 < counts["healthy"] < 200
    assert next(each for each in whole if each.key.code == "healthy").last.text.startswith("Completed checkpoint 39999")
    assert sightings(1_000_000) == whole == sightings(777_777)


def test_pods_that_write_to_the_same_file_are_kept_apart(tmp_path: Path) -> None:
    pods = [[f"[pod/tm-{pod}/main] {line}" for line in failed(pod) + healthy(pod)] for pod in range(4)]
    chance = random.Random(3)
    mixed = []
    while any(pods):
        pod = chance.choice([lines for lines in pods if lines])
        mixed.append(pod.pop(0))
    path = written(tmp_path / "all.log", mixed)
    events = {event.host: event for event in events_of(Piece(str(path))) if event.level == "WARN"}
    assert sorted(events) == ["tm-0", "tm-1", "tm-2", "tm-3"]
    for number, event in enumerate(events[host] for host in sorted(events)):
        assert event.message == f"Checkpoint {number} failed"
        assert [link.class_name for link in event.exceptions] == CHAIN.split("/")
        assert event.exceptions[0].message == f"outer {number}"
        assert event.frames[-1] == "java.net.Socket.connect"
    sightings, _ = seen(path, 10**9)
    assert sorted((each.key.host, each.key.variant, each.count) for each in sightings) == [
        (f"tm-{pod}", CHAIN, 1) for pod in range(4)
    ]


def test_a_trace_in_cri_docker_and_windows_lines(tmp_path: Path) -> None:
    stamp = "2026-01-02T03:04:05.678901234Z"
    forms = {
        "cri": [f"{stamp} stdout F {line}" for line in failed(1)],
        "docker": [
            '{"log":"' + line.replace("\t", "\\t") + '\\n","stream":"stdout","time":"' + stamp + '"}'
            for line in failed(1)
        ],
        "windows": [f"{line}\r" for line in failed(1)],
        "no log line": failed(1)[1:],
    }
    for name, lines in forms.items():
        (sighting,), _ = seen(written(tmp_path / name, lines), 10**9)
        assert (sighting.count, sighting.key.variant) == (1, CHAIN), name


def test_python_tracebacks(tmp_path: Path) -> None:
    lines = [
        "26/01/02 03:04:05 ERROR TaskSetManager: Lost task 1.0 in stage 2.0: "
        "org.apache.spark.api.python.PythonException: Traceback",
        "Traceback (most recent call last):",
        '  File "/app/job.py", line 3, in f',
        "    raise ValueError(1)",
        "ValueError: the needle",
    ]
    (event,) = events_of(Piece(str(written(tmp_path / "job.log", lines))))
    assert event.exceptions[-1].class_name == "ValueError"
    assert (event.task, event.subtask) == ("stage 2.0", "1")


def test_bad_encodings_nul_bytes_and_endless_lines(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    broken = [line.encode().replace(b"outer", b"\xff\xfe\xe4outer\x00") for line in failed(5)]
    endless = b"x" * (10 * 1024 * 1024) + b" the needle"
    with path.open("wb") as file:
        file.write(b"\x00" * 5000 + b"\n".join([*broken, endless, *(line.encode() for line in failed(6))]) + b"\n")
    for size in (10**9, 1_000_000):
        sightings, reading = seen(path, size)
        counts = {each.key.variant: each.count for each in sightings}
        assert counts[CHAIN] == 2
        assert max(len(sample.text) for each in sightings for sample in each.samples) < 10_000
        assert reading.lines == 2 * len(failed(5)) + 1


def test_what_cannot_be_read_is_counted(tmp_path: Path) -> None:
    written(tmp_path / "prose.txt", ["no log line at all"] * 30)
    written(tmp_path / "mixed.log", [*["rubbish"] * 4, *failed(1), *["rubbish"] * (EVENT_LINES + 100), *healthy(2)])
    (tmp_path / "empty.log").touch()
    (tmp_path / "program").write_bytes(b"\x7fELF" + bytes(range(256)) * 200)
    (tmp_path / "random").write_bytes(random.Random(1).randbytes(50_000))
    good = "".join(f"{line}\n" for line in failed(1) * 2000).encode()
    (tmp_path / "cut.gz").write_bytes(gzip.compress(good)[:-2000])
    files = (*resolve([str(tmp_path)]).files, str(tmp_path / "rotated away"))
    total = added_up(scan(piece, RULES) for piece in pieces_of(files))
    assert [Path(path).name for path in total.binary] == ["program", "random"]
    assert ["cut.gz" in total.troubles[0], "rotated away" in total.troubles[1], len(total.troubles)] == [True, True, 2]
    assert total.files == 7
    extra = 100 + len(failed(1)) - 1 + 1  # the event's first line and its trace are within what an event may have
    assert total.unparsed == 30 + 4 + extra
    assert any(sighting.key.source.endswith("mixed.log") for sighting in total.sightings)


@pytest.mark.parametrize("cut", [2, 31])
def test_lines_that_belong_to_no_event_do_not_depend_on_the_cut(tmp_path: Path, cut: int) -> None:
    gap = ["rubbish"] * (EVENT_LINES + 50)
    path = written(tmp_path / "mixed.log", [*["rubbish"] * 9, *healthy(1), *gap, *healthy(2), *gap])
    assert seen(path, path.stat().st_size // cut + 1) == seen(path, 10**9)


def test_compressed_files(tmp_path: Path) -> None:
    text = "".join(f"{line}\n" for number in range(300) for line in failed(number)).encode()
    (tmp_path / "a.log").write_bytes(text)
    (tmp_path / "a.gz").write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
    with pa.output_stream(str(tmp_path / "b.zst"), compression="zstd") as file:
        file.write(text)
    (tmp_path / "misnamed.log").write_bytes(gzip.compress(text))
    for path in resolve([str(tmp_path)]).files:
        (sighting,), reading = seen(Path(path), 1000)
        assert (sighting.count, reading.lines) == (300, text.count(b"\n"))


def test_what_the_user_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.log", "b.log.1", "deep/c.log", "deep/.hidden", ".git/d.log"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)

    def names(*named: str) -> list[str]:
        return [str(Path(file).relative_to(tmp_path)) for file in resolve(named).files]

    assert names(".") == ["a.log", "b.log.1", "deep/c.log"]
    assert names("*.log", f"file://{tmp_path}/a.log") == ["a.log"]
    assert names("**/*.log") == ["a.log", "deep/c.log"]
    assert resolve(["s3a://bucket/logs", "a.log"]).urls == ("s3a://bucket/logs",)
    for missing in ("nowhere.log", "*.nothing"):
        with pytest.raises(NotFound, match=missing.replace("*", r"\*")):
            resolve([missing])


def test_small_files_share_a_task_and_large_tasks_go_first(tmp_path: Path) -> None:
    sizes = {"a": 10, "b": 10, "c": 250, "d": 10}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * size)
    pieces = list(pieces_of([str(tmp_path / name) for name in sizes], 100))
    assert [(Path(piece.path).name, piece.start, piece.end) for piece in pieces] == [
        ("a", 0, None),
        ("b", 0, None),
        ("c", 0, 100),
        ("c", 100, 200),
        ("c", 200, None),
        ("d", 0, None),
    ]
    assert shared_out(pieces, 100, cores=2) == [[2], [3], [4, 5], [0, 1]]


def test_a_task_takes_a_share_of_what_is_left(tmp_path: Path) -> None:
    """A task costs Spark some hundredths of a second, and nobody should wait for the last one."""
    files = [tmp_path / f"{number:03d}" for number in range(100)]
    for file in files:
        file.write_bytes(b"x" * 10)
    tasks = shared_out(list(pieces_of(map(str, files), 10)), 10, cores=2)
    assert [len(task) for task in tasks][:4] == [33, 22, 15, 10]
    assert max(len(task) for task in tasks[-3:]) <= 6
    assert [place for task in tasks for place in task] == list(range(100))
