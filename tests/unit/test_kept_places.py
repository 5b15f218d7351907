"""Whether input files and a Delta table still have what comes behind a checkpoint, and until when."""

import json
from collections.abc import Mapping, Sequence

import pytest

from holdfast.checkpoint.layout import WorkFile
from holdfast.identifiers import CheckpointId
from holdfast.sources.delta_kept import DeltaKept, duration
from holdfast.sources.files_kept import FilesKept
from holdfast.sources.restorable import Offsets, Restorable

DAY = 86_400.0
NOW = 1000 * DAY


def offsets(**by_checkpoint: str) -> Offsets:
    return {CheckpointId(int(id[1:])): {"0": offset} for id, offset in by_checkpoint.items()}


# --- files ---


class Logs:
    """Of one file source: entry N names the files N-a and N-b."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.reads: list[str] = []
        self.size = 100

    def names(self, folder: str = "") -> list[str]:
        return list(self._names) if folder == "sources/0" else []

    def stat(self, path: str) -> WorkFile:
        return WorkFile(path, self.size, "0")

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        name = path.rpartition("/")[2]
        numbers = range(int(name[:-8]) + 1) if name.endswith(".compact") else [int(name)]
        files = [{"path": f"file:/in/{n}-{part}", "timestamp": 1, "batchId": n} for n in numbers for part in "ab"]
        return "\n".join(["v1", *map(json.dumps, files)]).encode()


def files_kept(logs: Logs, *gone: str) -> FilesKept:
    return FilesKept("0", lambda: logs, lambda paths: [path for path in paths if path.rpartition("/")[2] in gone])


def test_a_checkpoint_cannot_be_gone_back_to_when_a_file_that_came_behind_it_is_deleted() -> None:
    kept = files_kept(Logs("0", "1", "2", "3"), "2-b")
    found = kept.look(offsets(_1='{"logOffset":1}', _2='{"logOffset":2}'), NOW)
    assert [found[CheckpointId(id)].gone for id in (1, 2)] == [True, False]
    assert found[CheckpointId(1)].first == "file:/in/2-b"
    assert found[CheckpointId(2)].until is None


def test_entries_that_were_compacted_are_read_once_and_only_what_is_new() -> None:
    logs = Logs("7", "8", "9.compact", "10")
    kept = files_kept(logs, "9-a")
    wanted = offsets(_1='{"logOffset":8}', _2='{"logOffset":9}')
    for _ in range(3):
        found = kept.look(wanted, NOW)
        assert [found[CheckpointId(id)].gone for id in (1, 2)] == [True, False]
    assert logs.reads == ["sources/0/9.compact", "sources/0/10"]


def test_a_log_that_is_too_large_is_not_read() -> None:
    logs = Logs("9.compact")
    logs.size = 1 << 40
    assert files_kept(logs).look(offsets(_1='{"logOffset":3}'), NOW) == {}
    assert logs.reads == []


# --- Delta ---


class Table:
    """Its log: the age of each version in days, and its actions."""

    name = "the Delta table /t"

    def __init__(self, *versions: tuple[float, list[dict[str, object]]], first: int = 0) -> None:
        self._versions = {first + number: each for number, each in enumerate(versions)}
        self.gone: set[str] = set()
        self.given: dict[str, str] = {}

    def properties(self) -> Mapping[str, str]:
        return self.given

    def modified(self, path: str) -> float | None:
        found = self._versions.get(int(path[-25:-5]))
        return None if found is None else NOW - found[0] * DAY

    def text(self, path: str) -> str:
        return "\n".join(map(json.dumps, self._versions[int(path[-25:-5])][1]))

    def missing(self, paths: Sequence[str]) -> Sequence[str]:
        return [path for path in paths if path in self.gone]


def add(path: str, *, data: bool = True) -> dict[str, object]:
    return {"add": {"path": path, "dataChange": data, "size": 1}}


def remove(path: str, days_ago: float) -> dict[str, object]:
    at = (NOW - days_ago * DAY) * 1000
    return {"remove": {"path": path, "deletionTimestamp": round(at), "dataChange": False}}


def at_version(version: int, *, starting: bool = False) -> str:
    return json.dumps(
        {
            "sourceVersion": 1,
            "reservoirId": "x",
            "reservoirVersion": version,
            "index": -1,
            "isStartingVersion": starting,
        }
    )


def looked(table: Table, *needs: str) -> list[Restorable]:
    found = DeltaKept("0", table).look({CheckpointId(id): {"0": each} for id, each in enumerate(needs, 1)}, NOW)
    return [found[id] for id in sorted(found)]


def test_the_log_is_kept_for_thirty_days_or_as_the_table_says() -> None:
    table = Table((20, [add("a")]), (5, [add("b")]))
    assert [each.until for each in looked(table, at_version(0), at_version(1), at_version(2))] == [
        NOW + 10 * DAY,
        NOW + 25 * DAY,
        None,
    ]
    table.given = {"delta.logRetentionDuration": "interval 3 weeks"}
    assert looked(table, at_version(0))[0].until == NOW + DAY


def test_versions_that_were_cleaned_up_are_gone() -> None:
    table = Table((20, [add("b")]), (1, [add("c")]), first=7)
    old, new = looked(table, at_version(6), at_version(8))
    assert (old.gone, old.first) == (True, "version 6 of the Delta table /t")
    assert not new.gone


def test_files_that_optimize_replaced_are_kept_for_a_week_until_a_vacuum() -> None:
    compacted = [remove("a", days_ago=4), add("ab", data=False)]
    table = Table((9, [add("a")]), (5, [add("b")]), (4, compacted))
    before, behind = looked(table, at_version(0), at_version(1))
    assert before.until == NOW + 3 * DAY
    assert behind.until == NOW + 25 * DAY, "it does not read the file that was replaced"
    in_first_snapshot = looked(table, at_version(1, starting=True))[0]
    assert in_first_snapshot.until == NOW + 3 * DAY


def test_files_that_a_vacuum_deleted_are_gone() -> None:
    table = Table((19, [add("a")]), (18, [remove("a", days_ago=18)]), (1, [add("b")]))
    table.gone = {"a"}
    before, behind = looked(table, at_version(0), at_version(2))
    assert (before.gone, before.first) == (True, "a of the Delta table /t")
    assert not behind.gone


def test_other_sources_are_not_asked_about() -> None:
    assert looked(Table((1, [])), '{"orders":{"0":1}}', '{"logOffset":1}', "-") == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("interval 30 days", 30 * DAY), ("interval 1 week 12 hours", 7.5 * DAY), ("7 DAYS", 7 * DAY), (None, 5.0)],
)
def test_durations_as_delta_writes_them(text: str | None, seconds: float) -> None:
    assert duration(text, 5.0) == seconds
