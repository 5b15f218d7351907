"""The corruption matrix, without drivers: each kind of damage, in each state format, in the work directory and in the
newest checkpoint. Found before a query resumes; or, where nothing here can see it, found by Spark; never passed by.

The same with whole drivers: tests/end_to_end/test_corruption.py.
"""

import shutil
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from holdfast.errors import Corrupt
from holdfast.repository.blobs import Blobs
from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.runtime.query.causes import SUSPICIONS, failure_of_text
from holdfast.settings import Settings
from holdfast.sinks import Files
from holdfast.snapshot.carrier import copy_shards
from holdfast.spark.api import start_stepwise
from holdfast.spark.failure_text import failure_text
from holdfast.storage.local import LocalStore
from holdfast.storage.urls import open_store
from holdfast.workdir import barriers
from holdfast.workdir.factory import work_directory
from holdfast.workdir.restorer import restore, take_over
from holdfast.workdir.soundness import damage
from tests.damage import DAMAGE, Damage, empty, flipped, missing, overwritten, truncated
from tests.spark.conftest import STATE_FORMATS
from tests.spark.counting import EPOCH, Input, Run, manifest_of
from tests.torture import TORTURE

WITHIN_REACH = {
    "hdfs": {"delta", "snapshot"},
    "rocksdb": {"table", "archive"},
    "rocksdb-changelog": {"table", "archive", "changelog"},
    "rocksdb-v2": {"table", "archive", "changelog"},
}
"""Which kinds of files the state of each format has; at some barriers not all of them are needed."""


REPLACEABLE = {"missing archive", "missing delta", "missing changelog"}
"""Where the same version can be had from other files."""


class Stopped:
    """A query that was stopped in the middle of its input, with its directory."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark = spark
        self.source = Input(place / "input")
        run = Run(spark, self.source, place / "running")
        run.await_commit(9)
        run.query.stop()
        # No maintenance thread of Spark's looks for it any more.
        self.work = (place / "running").rename(place / "work")

    def damaged(self, kind: Damage, to: Path, *, with_checksums: bool = True) -> str | None:
        """A copy with this damage; the path of the damaged file."""
        shutil.rmtree(to, ignore_errors=True)
        ignored = None if with_checksums else shutil.ignore_patterns(".*.crc")
        shutil.copytree(self.work, to, ignore=ignored)
        if not with_checksums and kind.act.__name__ == "wrong_checksum":
            return None
        return kind.do(to)

    def resume(self, directory: Path) -> str | None:
        """Let Spark go on: None when it came to the right answer, else why it died."""
        continued = Run(self.spark, self.source, directory, availableNow=True)
        try:
            continued.query.awaitTermination()
        except Exception:
            return failure_text(self.spark, continued.query)
        assert continued.answers[max(continued.answers)] == self.source.answers[-1], "silently wrong"
        return None


@pytest.fixture(scope="module")
def stopped_queries() -> dict[str, Stopped]:
    return {}


@pytest.fixture
def stopped(
    stopped_queries: dict[str, Stopped],
    spark: SparkSession,
    state_format: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Stopped:
    """Made once for each state format: tests damage copies of it."""
    if state_format not in stopped_queries:
        stopped_queries[state_format] = Stopped(spark, tmp_path_factory.mktemp(state_format))
    return stopped_queries[state_format]


@pytest.mark.parametrize("state_format", STATE_FORMATS if TORTURE else ["hdfs", "rocksdb-v2"], indirect=True)
def test_every_kind_of_damage_is_found_or_does_no_harm(stopped: Stopped, state_format: str, tmp_path: Path) -> None:
    """Without Hadoop's checksums, which a restored directory lacks, some damage is only found by Spark."""
    assert damage(work_directory(stopped.work)) is None
    reached = set()
    unseen = []
    for kind in DAMAGE:
        for with_checksums in (True, False):
            path = stopped.damaged(kind, tmp_path / "damaged", with_checksums=with_checksums)
            if path is None:
                continue
            reached.add(kind.name.partition(" ")[2].removeprefix("checksum "))
            found = damage(work_directory(tmp_path / "damaged"))
            if found is None:
                assert not with_checksums or kind.name in REPLACEABLE, kind.name
                unseen.append((kind, with_checksums))
            else:
                assert path.startswith("commits/") or shown_in(found, Path(path)), f"{kind.name}: {found}"
    assert reached & WITHIN_REACH[state_format]
    assert reached - WITHIN_REACH[state_format] == {"offsets", "commit", "metadata", "source log"}

    for kind, with_checksums in unseen if TORTURE else unseen[:1]:
        stopped.damaged(kind, tmp_path / "damaged", with_checksums=with_checksums)
        why = stopped.resume(tmp_path / "damaged")
        assert why is None or unreadable(why), f"{kind.name}: {why}"


def shown_in(found: str, path: Path) -> bool:
    """The file, or the store that lacks a version without it."""
    return path.name in found or str(path.parent) in found


def unreadable(why: str) -> bool:
    return failure_of_text(why).cause in SUSPICIONS


@pytest.mark.parametrize("state_format", ["rocksdb"], indirect=True)
def test_what_was_linked_is_proved_by_spark_as_it_is_read(stopped: Stopped, state_format: str, tmp_path: Path) -> None:
    """Checksums are linked along. So damage in a large file, whose bytes are not compared before, is found at once."""
    barrier = barriers.newest_barrier(work_directory(stopped.work))
    assert barrier is not None
    take_over(
        work_directory(stopped.work),
        barriers.plan(work_directory(stopped.work), barrier),
        work_directory(tmp_path / "linked"),
    )
    (kind,) = (kind for kind in DAMAGE if kind.name == "flipped table")
    assert kind.do(tmp_path / "linked")
    why = stopped.resume(tmp_path / "linked")
    assert why is not None
    assert unreadable(why), why


@pytest.mark.parametrize("state_format", ["rocksdb-changelog"], indirect=True)
def test_damage_in_the_newest_checkpoint_is_found_by_its_restore(
    stopped: Stopped, state_format: str, tmp_path: Path
) -> None:
    """No byte of any object can be other than it was, whatever it is a byte of."""
    barrier = barriers.newest_barrier(work_directory(stopped.work))
    assert barrier is not None
    (tmp_path / "home").mkdir()
    store = LocalStore(tmp_path / "home")
    plan = barriers.plan(work_directory(stopped.work), barrier)
    manifest = manifest_of(
        barrier, copy_shards(work_directory(stopped.work), plan.shards, Blobs(store, EPOCH), lambda: False)
    )
    for key in {file.key for file in manifest.files()}:
        good = (tmp_path / "home" / key).read_bytes()
        for act in (empty, truncated, flipped, overwritten, missing):
            act(tmp_path / "home" / key)
            with pytest.raises(Corrupt, match=r"should hold bytes with digest"):
                restore(store, manifest, work_directory(tmp_path / "restored"))
            (tmp_path / "home" / key).write_bytes(good)
    restore(store, manifest, work_directory(tmp_path / "restored"))
    assert stopped.resume(tmp_path / "restored") is None


def newest_directory(work: Path) -> Path:
    directories = [path for path in work.glob("[0-9]*-*") if path.is_dir()]
    return max(directories, key=lambda path: tuple(map(int, path.name.split("-"))))


class Numbers:
    """A job that passes on each number once. Its lives end by themselves, with a checkpoint."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._root = root
        self.work = root / "work"
        for name in ("home", "input"):
            (root / name).mkdir()

    def live(self, number: int, *, damaged: bool) -> None:
        """Take in one more number; `damaged` after recovery has chosen where to resume."""
        (self._root / "input" / f"{number}.json").write_text(f'{{"number": {number}}}')

        def damage_metadata(step: str) -> None:
            if damaged and step == "recovery.aligned":
                overwritten(newest_directory(self.work / "numbers") / "metadata")

        start_stepwise(
            self._query,
            "numbers",
            self.home,
            Files(self._root / "output"),
            Settings(spark=self._spark, work=self.work, trigger="available-now"),
            damage_metadata,
        ).await_termination()

    @property
    def home(self) -> str:
        return f"file://{self._root / 'home'}"

    def _query(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.schema("number INT").json(str(self._root / "input")).dropDuplicates(["number"])

    def visible(self) -> list[int]:
        tables = [parquet.read_table(path) for path in (self._root / "output").glob("*.parquet")]
        return sorted(number for table in tables for number in table.column("number").to_pylist())

    def marked_corrupt(self) -> set[int]:
        return set(JobState.of(read_entries(open_store(self.home).scoped("numbers"))).corrupt)


@pytest.mark.parametrize("state_format", ["rocksdb"], indirect=True)
def test_what_spark_refuses_to_start_on_is_set_aside_at_the_start_of_a_process(
    spark: SparkSession, state_format: str, tmp_path: Path
) -> None:
    numbers = Numbers(spark, tmp_path)
    numbers.live(1, damaged=False)
    numbers.live(2, damaged=True)
    assert len(list(numbers.work.glob("numbers/*.aside"))) == 1
    assert numbers.marked_corrupt() == set(), "the directory of the run before was to blame"
    shutil.rmtree(numbers.work)
    numbers.live(3, damaged=True)
    assert numbers.marked_corrupt() == set(), "restored, then damaged: it is restored once more"
    assert numbers.visible() == [1, 2, 3]
