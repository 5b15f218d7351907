"""The log of planned batches: who decides, what stands, what is repeated how, and the files that it is made of."""

from pathlib import Path

import pytest

from holdfast.errors import Corrupt, OutcomeUnknown, StorageError
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch
from holdfast.plans.log import PlanLog, newest_planned
from holdfast.plans.plan import Plan, decode_plan, encode_plan
from holdfast.plans.replay import How, repeats
from holdfast.plans.spark_logs import SourceLogs, commit, planned, put_in_place
from holdfast.repository.lines import plan_key
from holdfast.storage.faulty import Faults, FaultyStore
from holdfast.storage.interface import Created
from holdfast.storage.local import LocalStore

FOLDER = "plans/00000000000000000000-0123abcd/"


def plan(batch: int, attempt: str = "mine", watermark: int = 0, **fields: object) -> Plan:
    offsets = f'v1\n{{"batchWatermarkMs":{watermark},"batchTimestampMs":5,"conf":{{}}}}\n{batch}'
    return Plan(
        batch_id=BatchId(batch),
        fencing_epoch=FencingEpoch(1),
        attempt=AttemptId(attempt),
        metadata='{"id":"query"}',
        offsets=offsets,
        **fields,  # type: ignore[arg-type]
    )


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    (tmp_path / "home").mkdir()
    return LocalStore(tmp_path / "home")


# --- who decides ---


def test_who_comes_first_decides_and_who_comes_second_is_told_what_stands(store: LocalStore) -> None:
    log = PlanLog(store, FOLDER)
    assert log.create(plan(4, "first")).attempt == "first"
    assert log.create(plan(4, "second")).attempt == "first"


def test_a_create_without_an_answer_is_known_as_ones_own(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    create = store.create
    answers = iter([True, False])

    def unanswered(key: str, data: bytes) -> Created:
        outcome = create(key, data)
        if next(answers):
            raise OutcomeUnknown("the line broke")
        return outcome

    monkeypatch.setattr(store, "create", unanswered)
    assert PlanLog(store, FOLDER).create(plan(4, "mine")).attempt == "mine"


def test_a_home_that_stays_away_is_an_error_and_not_an_answer(store: LocalStore) -> None:
    with pytest.raises(StorageError):
        PlanLog(FaultyStore(store, Faults(before=1.0)), FOLDER).create(plan(4))


# --- what stands ---


@pytest.mark.parametrize("readers", [1, 3])
def test_plans_behind_a_barrier_come_in_their_order(store: LocalStore, readers: int) -> None:
    log = PlanLog(store, FOLDER, readers)
    for batch in range(12):
        log.create(plan(batch))
    PlanLog(store, FOLDER.replace("0-", "7-")).create(plan(12, "of another line"))
    assert [found.batch_id for found in log.behind(BatchId(8)).plans] == [9, 10, 11]
    assert len(log.behind(None).plans) == 12
    assert log.behind(BatchId(11)).plans == ()
    assert log.behind(BatchId(3)).broken is None


def test_a_plan_that_is_missing_between_others_is_named(store: LocalStore) -> None:
    log = PlanLog(store, FOLDER)
    for batch in (3, 4, 6):
        log.create(plan(batch))
    found = log.behind(BatchId(2))
    assert [standing.batch_id for standing in found.plans] == [3, 4]
    assert found.broken == "the home has no plan of batch 5, but one of 6"


def test_a_damaged_plan_is_no_plan(store: LocalStore, tmp_path: Path) -> None:
    log = PlanLog(store, FOLDER)
    log.create(plan(3))
    log.create(plan(4))
    path = tmp_path / "home" / plan_key(FOLDER, BatchId(4))
    path.write_bytes(path.read_bytes().replace(b"query", b"other"))
    found = log.behind(BatchId(2))
    assert len(found.plans) == 1
    assert "checksum" in (found.broken or "")
    with pytest.raises(Corrupt):
        decode_plan("plans/x", b"{}")


def test_a_plan_that_came_wrong_but_lies_right_is_read_once_more(store: LocalStore) -> None:
    log = PlanLog(store, FOLDER)
    log.create(plan(3))
    get = store.get
    answers = [get(plan_key(FOLDER, BatchId(3))).replace(b"query", b"other")]
    store.get = lambda key: answers.pop() if answers else get(key)  # type: ignore[method-assign]
    assert log.behind(BatchId(2)).plans == (plan(3),)
    assert not answers


def test_what_stands_where_a_plan_is_created_is_read_once_more_when_it_came_wrong(store: LocalStore) -> None:
    log = PlanLog(store, FOLDER)
    log.create(plan(3, "first"))
    get = store.get
    answers = [get(plan_key(FOLDER, BatchId(3))).replace(b"query", b"other")]
    store.get = lambda key: answers.pop() if answers else get(key)  # type: ignore[method-assign]
    assert log.create(plan(3, "second")).attempt == "first"
    assert not answers


@pytest.mark.parametrize("name", [".nfs000000000000c0de", f"{3:020d}~", f"{4:020d}.part"])
def test_what_somebody_left_among_the_plans_is_in_nobodys_way(store: LocalStore, tmp_path: Path, name: str) -> None:
    log = PlanLog(store, FOLDER)
    for batch in (3, 4, 5):
        log.create(plan(batch))
    (tmp_path / "home" / FOLDER / name).write_bytes(b"x")
    assert newest_planned(store, FOLDER, BatchId(2)) == 5
    assert [found.batch_id for found in log.behind(BatchId(2)).plans] == [3, 4, 5]


def test_from_the_first_batch_on_too(store: LocalStore, tmp_path: Path) -> None:
    PlanLog(store, FOLDER).create(plan(0))
    (tmp_path / "home" / FOLDER / ".DS_Store").write_bytes(b"x")
    assert newest_planned(store, FOLDER, BatchId(-1)) == 0


def test_a_plan_survives_its_bytes() -> None:
    whole = plan(7, sources={"0/3": "v1\n{}"})
    assert decode_plan("plans/x", encode_plan(whole)) == whole


# --- how it is repeated ---


def hows(batches: range, sink_has: int | None, *, stateful: bool) -> list[How]:
    has = None if sink_has is None else BatchId(sink_has)
    return [repeat.how for repeat in repeats([plan(batch) for batch in batches], has, stateful=stateful)]


def test_what_the_sink_has_is_discarded_and_what_it_lacks_is_written() -> None:
    assert hows(range(4, 8), 5, stateful=True) == [How.DISCARD, How.DISCARD, How.WRITE, How.LEAVE]


def test_without_state_nothing_is_run_that_the_sink_has_but_the_last_batch() -> None:
    assert hows(range(4, 8), 6, stateful=False) == [How.COMMIT, How.COMMIT, How.COMMIT, How.LEAVE]
    assert hows(range(4, 8), 7, stateful=False) == [How.COMMIT, How.COMMIT, How.COMMIT, How.DISCARD]


@pytest.mark.parametrize("stateful", [False, True])
def test_a_sink_that_has_nothing_or_cannot_tell_gets_every_batch(stateful: bool) -> None:
    assert hows(range(4, 6), None, stateful=stateful) == [How.WRITE, How.LEAVE]
    assert hows(range(4, 6), 3, stateful=stateful) == [How.WRITE, How.LEAVE]
    assert hows(range(4, 4), None, stateful=stateful) == []


# --- the files of a checkpoint directory ---


class Folder:
    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self, folder: str = "") -> list[str]:
        found = self.root / folder
        return [path.name for path in found.iterdir()] if found.is_dir() else []

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def write_atomic(self, path: str, data: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    def remove(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)


def entries(*numbers: int) -> bytes:
    return "\n".join(["v1", *(f'{{"path":"f{n}","timestamp":1,"batchId":{n}}}' for n in numbers)]).encode()


def spark(root: Path, last: int) -> Folder:
    """A directory as Spark leaves it: a file source whose log is compacted every third entry, and batches up to 1 that
    read entries up to 1; the source has made entries up to `last` since."""
    folder = Folder(root)
    folder.write_atomic("metadata", b'{"id":"query"}')
    for number in range(last + 1):
        compact = number % 3 == 2
        name = f"sources/0/{number}.compact" if compact else f"sources/0/{number}"
        folder.write_atomic(name, entries(*range(number + 1)) if compact else entries(number))
    for batch in range(2):
        folder.write_atomic(f"offsets/{batch}", f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch}}}'.encode())
    folder.write_atomic("commits/1", b'v1\n{"nextBatchWatermarkMs":3}')
    return folder


def planned_here(folder: Folder, logs: SourceLogs, batch: int, log_offset: int) -> Plan:
    offsets = f'v1\n{{"batchWatermarkMs":{batch * 10}}}\n{{"logOffset":{log_offset}}}'.encode()
    return planned(folder, logs, BatchId(batch), offsets, FencingEpoch(1), AttemptId("mine"))


def test_a_plan_has_the_entries_of_its_sources_that_are_new_with_it(tmp_path: Path) -> None:
    folder = spark(tmp_path, last=2)
    logs = SourceLogs(folder, BatchId(1))
    first = planned_here(folder, logs, 2, 2)
    assert first.sources == {"0/2.compact": entries(2).decode()}
    assert planned_here(folder, logs, 3, 2).sources == {}
    folder.write_atomic("sources/0/3", entries(3))
    assert planned_here(folder, logs, 4, 3).sources == {"0/3": entries(3).decode()}
    assert first.metadata == '{"id":"query"}'


def test_what_gives_the_first_batch_its_meaning_is_part_of_its_plan(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write_atomic("metadata", b'{"id":"query"}')
    folder.write_atomic("sources/0/0", b"v1\n1700000000000")  # when a rate source began
    assert planned_here(folder, SourceLogs(folder, None), 0, 0).sources == {"0/0": "v1\n1700000000000"}


def test_what_is_put_in_place_is_what_spark_had_written(tmp_path: Path) -> None:
    there, restored = spark(tmp_path / "there", last=2), spark(tmp_path / "restored", last=1)
    logs = SourceLogs(there, BatchId(1))
    plans = [planned_here(there, logs, 2, 2)]
    for number in (3, 4):
        there.write_atomic(f"sources/0/{number}", entries(number))
        plans.append(planned_here(there, logs, number, number))
    there.write_atomic("sources/0/5.compact", entries(*range(6)))
    plans.append(planned_here(there, logs, 5, 5))
    for each in plans:
        put_in_place(restored, each)
        assert restored.read(f"offsets/{each.batch_id}").decode() == each.offsets
    for name in there.names("sources/0"):
        assert restored.read(f"sources/0/{name}") == there.read(f"sources/0/{name}")


def test_a_directory_that_begins_gets_the_querys_id(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    put_in_place(folder, plan(0))
    assert folder.read("metadata") == b'{"id":"query"}'


def test_a_checksum_of_other_offsets_does_not_stay(tmp_path: Path) -> None:
    folder = spark(tmp_path, last=1)
    folder.write_atomic("offsets/2", b"other")
    folder.write_atomic("offsets/.2.crc", b"of other")
    put_in_place(folder, plan(2))
    assert ".2.crc" not in folder.names("offsets")


@pytest.mark.parametrize("number", [2, 3])
def test_what_the_directory_itself_has_logged_of_the_batch_gives_way_to_the_plan(tmp_path: Path, number: int) -> None:
    """Two runs had planned the batch, and this directory is of the one that came second."""
    there, otherwise = spark(tmp_path / "there", last=number), spark(tmp_path / "otherwise", last=number)
    logs = SourceLogs(there, BatchId(1))
    each = planned_here(there, logs, 2, number)
    name = "2.compact" if number == 2 else "3"
    held = otherwise.read(f"sources/0/{name}").decode()
    more = f'{{"path":"another","timestamp":1,"batchId":{number}}}'
    otherwise.write_atomic(f"sources/0/{name}", f"{held}\n{more}".encode())
    otherwise.write_atomic(f"sources/0/.{name}.crc", b"of other")
    put_in_place(otherwise, each)
    assert otherwise.read(f"sources/0/{name}") == there.read(f"sources/0/{name}")
    assert f".{name}.crc" not in otherwise.names("sources/0")


def test_a_commit_has_the_watermark_of_the_next_batch(tmp_path: Path) -> None:
    folder = spark(tmp_path, last=1)
    commit(folder, plan(2), plan(3, watermark=77))
    assert folder.read("commits/2") == b'v1\n{"nextBatchWatermarkMs":77}'
    with pytest.raises(Corrupt, match="plan of batch 3"):
        commit(folder, plan(2), Plan(**{**_fields(plan(3)), "offsets": "v1"}))  # type: ignore[arg-type]


def _fields(of: Plan) -> dict[str, object]:
    return {name: getattr(of, name) for name in of.__struct_fields__}
