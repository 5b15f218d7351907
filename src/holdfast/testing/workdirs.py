"""The conformance suite for work directories: Spark's checkpoint directory can be in a place when it passes.

Subclass it in a test module:

    class TestMyDirectory(WorkDirectoryConformance):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path):
            self.path = tmp_path

        def make_directory(self):
            return MyDirectory(self.path)

Every test works below a name of its own. What a place says of its abilities is held against it: a test that depends on
one asks for the other behaviour where the ability is missing. Nothing here needs directories, renames or links.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from holdfast.checkpoint.layout import FileTrouble, NotPlannable, WorkFile
from holdfast.errors import Corrupt
from holdfast.identifiers import Ticket
from holdfast.workdir.interface import Building, Changed, WorkDirectory
from holdfast.workdir.planned_file import pieces, pieces_of, whole

__all__ = ["WorkDirectoryConformance"]

MIB = 1 << 20
RACERS = 8
LARGE = bytes(range(256)) * (9 * MIB // 256)
CONTENTS = {
    "metadata": b'{"id":"1"}',
    "commits/0": b"v1\n{}",
    "sources/0/0": b"v1",
    "state/0/0/.1.delta.crc": b"hidden",
    "state/0/0/1.delta": b"state",
    "state/0/0/SSTs/large.sst": LARGE,
    "state/0/1/empty": b"",
}
ODD_NAMES = ("with space", "per%20cent", "plus+", "hash#1", "equals=1", "ümläut", "..dots..", ".hidden", "_under")
NOT_PLAIN = (".", "..", "/", "/a", "a/", "a//b", "./a", "../a", "a/..", "a/../../b", "a/./b", "a\0b")
CLOCKS_DIFFER = 3600.0
"""Seconds: far more than clocks of two machines, far less than anything is kept."""
USES: dict[str, Callable[[WorkDirectory, str], object]] = {
    "at": lambda directory, path: directory.at(path),
    "exists": lambda directory, path: directory.exists(path),
    "names": lambda directory, path: directory.names(path),
    "folders": lambda directory, path: directory.folders(path),
    "stat": lambda directory, path: directory.stat(path),
    "scan": lambda directory, path: list(directory.scan(path)),
    "open": lambda directory, path: list(pieces_of(directory, path)),
    "read": lambda directory, path: directory.read(path),
    "write_atomic": lambda directory, path: directory.write_atomic(path, b"x"),
    "create": lambda directory, path: directory.create(path, b"x"),
    "remove": lambda directory, path: directory.remove(path),
}


class WorkDirectoryConformance:
    def make_directory(self) -> WorkDirectory:
        """A new handle on the same place each time. `directory.at(name)` of a new name must be empty."""
        raise NotImplementedError

    @pytest.fixture
    def name(self) -> str:
        return f"conformance-{uuid.uuid4().hex[:12]}"

    @pytest.fixture
    def work(self, name: str) -> Iterator[WorkDirectory]:
        work = self.make_directory().at(name)
        yield work
        work.remove_tree()

    @pytest.fixture
    def directory(self, work: WorkDirectory) -> WorkDirectory:
        return work.at("1-1")

    # -- paths

    @pytest.mark.parametrize("use", USES)
    def test_a_path_that_could_lead_elsewhere_is_refused(self, directory: WorkDirectory, use: str) -> None:
        for path in NOT_PLAIN:
            with pytest.raises(Corrupt, match="not plain"):
                USES[use](directory, path)
        with pytest.raises(Corrupt, match="not plain"), directory.build() as building:
            building.write("../metadata", [b"x"])

    def test_a_directory_below_says_so(self, work: WorkDirectory) -> None:
        below = work.at("1-1").at("state/0")
        assert below.location == f"{work.location}/1-1/state/0"
        assert below.spark_root == f"{work.spark_root}/1-1/state/0"
        assert below.spark_root.startswith(f"{work.scheme}:")
        assert (below.scheme, below.abilities) == (work.scheme, work.abilities)
        put(below, {"x": b"1"})
        assert work.read("1-1/state/0/x") == b"1"

    def test_where_it_is_mounted_everybody_finds_it(self, directory: WorkDirectory) -> None:
        put(directory, {"x": b"1"})
        if directory.mounted_at is not None:
            assert (directory.mounted_at / "x").read_bytes() == b"1"

    def test_odd_names_are_names(self, directory: WorkDirectory) -> None:
        contents = {f"{name}/{name}": name.encode() for name in ODD_NAMES}
        put(directory, contents)
        assert content(directory) == contents
        assert sorted(directory.names()) == sorted(directory.folders()) == sorted(ODD_NAMES)

    # -- looking

    def test_where_nothing_is_nothing_is_found(self, directory: WorkDirectory) -> None:
        assert not directory.exists()
        assert not directory.exists("commits/0")
        assert directory.names() == directory.names("commits") == directory.folders() == directory.folders("a/b") == []
        assert list(directory.scan()) == list(directory.scan("sources")) == []
        for look in (directory.read, directory.stat, lambda path: list(pieces_of(directory, path))):
            with pytest.raises(FileNotFoundError):
                look("metadata")
        for ask in (directory.identity, directory.changed_at, lambda: directory.changed_at("metadata")):
            with pytest.raises(FileNotFoundError):
                ask()
        directory.remove("metadata")
        assert directory.remove_tree() is None
        directory.remove_if_empty()

    def test_a_scan_finds_every_file_as_it_is(self, directory: WorkDirectory) -> None:
        put(directory, CONTENTS)
        found = {file.path: file for file in directory.scan()}
        assert {path: file.size for path, file in found.items()} == {path: len(data) for path, data in CONTENTS.items()}
        assert all(directory.stat(path) == file for path, file in found.items())
        assert {file.path for file in directory.scan("state/0/0")} == {
            "state/0/0/.1.delta.crc",
            "state/0/0/1.delta",
            "state/0/0/SSTs/large.sst",
        }
        assert {file.path for file in directory.scan(skip="state")} == {"metadata", "commits/0", "sources/0/0"}

    def test_it_is_told_when_something_was_written(self, directory: WorkDirectory) -> None:
        put(directory, {"commits/0": b""})
        first = directory.changed_at("commits/0")
        assert abs(time.time() - first) < CLOCKS_DIFFER
        put(directory, {"commits/1": b""})
        assert directory.changed_at("commits") >= first
        assert directory.changed_at("commits/1") >= first

    def test_names_and_folders_are_those_directly_in_it(self, directory: WorkDirectory) -> None:
        put(directory, CONTENTS)
        assert sorted(directory.names()) == ["commits", "metadata", "sources", "state"]
        assert sorted(directory.folders()) == ["commits", "sources", "state"]
        assert sorted(directory.names("state/0/0")) == [".1.delta.crc", "1.delta", "SSTs"]
        assert directory.folders("state/0/0") == ["SSTs"]
        assert directory.exists("state/0")
        assert directory.exists("metadata")
        assert not directory.exists("stat"), "the beginning of a name is no name"
        assert directory.names("stat") == []

    def test_an_empty_directory_need_not_exist(self, directory: WorkDirectory) -> None:
        directory.make()
        if directory.exists():
            with pytest.raises(FileExistsError):
                directory.make()
        assert directory.names() == []
        assert list(directory.scan()) == []
        put(directory, {"commits/0": b""})
        directory.remove("commits/0")
        assert directory.names("commits") == []

    def test_another_handle_and_another_process_find_the_same(
        self, directory: WorkDirectory, work: WorkDirectory, name: str
    ) -> None:
        put(directory, {"metadata": b"1"})
        others = [
            self.make_directory().at(name).at("1-1"),
            directory.within(60),
            pickle.loads(pickle.dumps(directory)),
            pickle.loads(pickle.dumps(work)).at("1-1"),
        ]
        for other in others:
            assert other.read("metadata") == b"1"
            assert other.location == directory.location
            assert other.identity() == directory.identity()
            assert list(other.scan()) == list(directory.scan())

    def test_a_directory_that_took_the_name_is_another_one(self, directory: WorkDirectory, work: WorkDirectory) -> None:
        build(directory, {"metadata": b"1"})
        before = directory.identity()
        directory.move_to(work.at("away"))
        # Objects have no number of their own: there the query's id must tell.
        same_query = directory.abilities.pins or directory.abilities.takes_over_by_rename
        build(directory, {"metadata": b"1" if same_query else b"2"})
        assert directory.identity() != before

    # -- writing

    def test_what_is_written_is_there_whole_and_alone(self, directory: WorkDirectory) -> None:
        directory.write_atomic("query/1.json", b"one")
        before = directory.stat("query/1.json")
        directory.write_atomic("query/1.json", b"two")
        assert directory.read("query/1.json") == b"two"
        after = directory.stat("query/1.json")
        assert after.size == before.size
        assert after.identity != before.identity, "same name, same size, another file"
        assert directory.names("query") == ["1.json"], "no temporary file is left"
        directory.remove("query/1.json")
        assert not directory.exists("query/1.json")

    def test_a_file_is_read_in_pieces_from_anywhere(self, directory: WorkDirectory) -> None:
        put(directory, {"large": LARGE})
        assert b"".join(pieces_of(directory, "large")) == directory.read("large") == LARGE
        with directory.open("large") as handle:
            handle.seek(len(LARGE) - 8)
            assert handle.read(100) == LARGE[-8:]
            assert handle.read(100) == b""

    def test_of_all_who_create_one_wins(self, directory: WorkDirectory, name: str) -> None:
        start = Barrier(RACERS)

        def create(racer: int) -> bool:
            mine = self.make_directory().at(name).at("1-1")
            start.wait()
            try:
                mine.create("job.json", str(racer).encode())
            except FileExistsError:
                return False
            return True

        with ThreadPoolExecutor(RACERS) as pool:
            won = list(pool.map(create, range(RACERS)))
        assert won.count(True) == 1
        assert directory.read("job.json") == str(won.index(True)).encode()
        with pytest.raises(FileExistsError):
            directory.create("job.json", b"late")
        assert directory.names() == ["job.json"]

    # -- the planned file

    def test_a_planned_file_is_read_as_planned(self, directory: WorkDirectory) -> None:
        put(directory, CONTENTS)
        for file in directory.scan():
            with directory.open_planned(file) as handle:
                assert whole(handle, file) == CONTENTS[file.path]
                handle.seek(0)
                assert b"".join(pieces(handle, file)) == CONTENTS[file.path]

    def test_one_that_was_replaced_or_removed_is_not_taken_for_it(self, directory: WorkDirectory) -> None:
        put(directory, {"metadata": b"one"})
        planned = directory.stat("metadata")
        directory.write_atomic("metadata", b"two")
        assert _trouble(directory, planned) is FileTrouble.CHANGED
        directory.remove("metadata")
        assert _trouble(directory, planned) is FileTrouble.VANISHED

    @pytest.mark.parametrize("becomes", ["replaced", "removed"])
    def test_bytes_of_two_files_are_never_mixed(self, directory: WorkDirectory, becomes: str) -> None:
        put(directory, {"large": LARGE})
        planned = directory.stat("large")
        read = bytearray()

        def read_slowly() -> None:
            with directory.open_planned(planned) as handle:
                for piece in pieces(handle, planned):
                    if not read:
                        directory.remove("large") if becomes == "removed" else put(directory, {"large": LARGE[::-1]})
                    read.extend(piece)

        try:
            read_slowly()
        except Changed:
            assert LARGE.startswith(bytes(read))
        else:
            assert bytes(read) == LARGE
            assert becomes == "removed", "what has another file of its name now must be noticed"

    # -- pins

    def test_a_pinned_file_outlives_its_name_or_nothing_is_pinned(self, directory: WorkDirectory) -> None:
        put(directory, {"a": b"one", "b": b"two"})
        planned = [directory.stat(path) for path in ("a", "b")]
        assert directory.pin(Ticket(1), planned) is directory.abilities.pins
        put(directory, {"a": b"new"})
        directory.remove("b")
        if directory.abilities.pins:
            for holder in (directory, pickle.loads(pickle.dumps(directory))):
                assert [_read(holder, file) for file in planned] == [b"one", b"two"]
        directory.unpin(Ticket(1))
        directory.unpin(Ticket(1))
        assert [_trouble(directory, file) for file in planned] == [FileTrouble.CHANGED, FileTrouble.VANISHED]

    def test_what_changed_before_it_was_pinned_is_not_pinned(self, directory: WorkDirectory) -> None:
        put(directory, {"a": b"one", "b": b"two"})
        planned = [directory.stat(path) for path in ("a", "b")]
        put(directory, {"b": b"new"})
        if directory.abilities.pins:
            with pytest.raises(NotPlannable):
                directory.pin(Ticket(1), planned)
        else:
            assert not directory.pin(Ticket(1), planned)

    # -- directories that appear whole

    def test_a_built_directory_appears_with_all_that_was_written(
        self, directory: WorkDirectory, work: WorkDirectory
    ) -> None:
        with directory.build() as building, ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda path: building.write(path, _halves(CONTENTS[path])), CONTENTS))
            assert not directory.exists("metadata"), "without it Spark finds no query there"
        assert content(directory) == CONTENTS
        assert work.names() == ["1-1"], "nothing half-built is left"

    def test_a_block_that_fails_leaves_nothing(self, directory: WorkDirectory, work: WorkDirectory) -> None:
        def broken() -> Iterator[bytes]:
            yield LARGE
            raise ZeroDivisionError

        def fail() -> None:
            with directory.build() as building:
                for path, data in CONTENTS.items():
                    building.write(path, [data])
                building.write("broken", broken())

        with pytest.raises(ZeroDivisionError):
            fail()
        assert list(work.scan()) == []
        assert not directory.exists()
        assert work.names() == []

    def test_no_file_is_written_twice(self, directory: WorkDirectory) -> None:
        def write_twice() -> None:
            with directory.build() as building:
                building.write("metadata", [b"1"])
                building.write("metadata", [b"2"])

        with pytest.raises(FileExistsError):
            write_twice()
        assert not directory.exists("metadata")

    def test_what_is_there_is_not_built_over(self, directory: WorkDirectory) -> None:
        put(directory, {"kept": b"mine"})
        with pytest.raises(FileExistsError):
            build(directory, {"metadata": b"1"})
        assert content(directory) == {"kept": b"mine"}

    def test_nor_what_came_while_it_was_built(self, directory: WorkDirectory) -> None:
        def build_beside_somebody() -> None:
            with directory.build() as building:
                building.write("metadata", [b"1"])
                put(directory, {"kept": b"mine"})

        with pytest.raises(FileExistsError):
            build_beside_somebody()
        assert content(directory) == {"kept": b"mine"}

    def test_an_empty_directory_may_be_built_over(self, directory: WorkDirectory) -> None:
        directory.make()
        build(directory, CONTENTS)
        assert content(directory) == CONTENTS

    # -- taking over

    def test_files_are_taken_from_another_directory_that_stays_as_it_is(
        self, directory: WorkDirectory, work: WorkDirectory
    ) -> None:
        put(directory, CONTENTS)
        taken = work.at("2-1")
        with taken.build(taking_from=directory) as building:
            for file in directory.scan():
                if not file.path.endswith(".crc"):
                    building.take(file)
            building.write("ledger/0.json", [b"{}"])
        expected = {path: data for path, data in CONTENTS.items() if not path.endswith(".crc")}
        found = content(taken)
        found.pop("state/0/0/.1.delta.crc", None)  # a checksum may go along with its file
        assert found == {**expected, "ledger/0.json": b"{}"}
        assert content(directory) == CONTENTS
        put(taken, {"metadata": b"theirs"})
        put(directory, {"commits/0": b"ours"})
        directory.remove("state/0/0/1.delta")
        assert directory.read("metadata") == CONTENTS["metadata"], "neither sees what becomes of the other"
        assert taken.read("commits/0") == CONTENTS["commits/0"]
        assert taken.read("state/0/0/1.delta") == CONTENTS["state/0/0/1.delta"]

    @pytest.mark.parametrize("becomes", ["replaced", "removed"])
    def test_only_the_planned_file_is_taken(self, directory: WorkDirectory, work: WorkDirectory, becomes: str) -> None:
        put(directory, {"metadata": b"one"})
        planned = directory.stat("metadata")
        directory.remove("metadata") if becomes == "removed" else put(directory, {"metadata": b"two"})
        with pytest.raises(Changed), work.at("2-1").build(taking_from=directory) as building:
            building.take(planned)
        assert not work.exists("2-1")

    def test_a_directory_is_moved_with_all_that_is_in_it(self, directory: WorkDirectory, work: WorkDirectory) -> None:
        put(directory, CONTENTS)
        put(work.at("taken"), {"kept": b"mine"})
        with pytest.raises(FileExistsError):
            directory.move_to(work.at("taken"))
        assert content(directory) == CONTENTS
        directory.move_to(work.at("2-1"))
        assert content(work.at("2-1")) == CONTENTS
        assert not directory.exists()
        put(directory, {"commits/1": b"by somebody who was left behind"})
        assert content(work.at("2-1")) == CONTENTS, "the old name leads elsewhere"

    # -- removing

    def test_a_tree_is_removed_and_nothing_else(self, directory: WorkDirectory, work: WorkDirectory) -> None:
        put(directory, CONTENTS)
        put(work, {"1-10/kept": b"mine", "1-1.aside": b"why"})
        directory.remove_if_empty()
        assert content(directory) == CONTENTS, "it is not empty"
        assert directory.remove_tree() is None
        assert content(work) == {"1-10/kept": b"mine", "1-1.aside": b"why"}
        assert not directory.exists()

    def test_an_empty_directory_is_removed(self, directory: WorkDirectory, work: WorkDirectory) -> None:
        put(directory, {"x": b"1"})
        directory.remove("x")
        directory.remove_if_empty()
        assert not directory.exists()


def put(directory: WorkDirectory, contents: Mapping[str, bytes]) -> None:
    for path, data in contents.items():
        directory.write_atomic(path, data)


def build(directory: WorkDirectory, contents: Mapping[str, bytes]) -> None:
    building: Building
    with directory.build() as building:
        for path, data in contents.items():
            building.write(path, [data])


def content(directory: WorkDirectory) -> dict[str, bytes]:
    return {file.path: directory.read(file.path) for file in directory.scan()}


def _halves(data: bytes) -> list[bytes]:
    return [data[: len(data) // 2], data[len(data) // 2 :]]


def _read(directory: WorkDirectory, file: WorkFile) -> bytes:
    with directory.open_planned(file) as handle:
        return whole(handle, file)


def _trouble(directory: WorkDirectory, file: WorkFile) -> FileTrouble | None:
    try:
        _read(directory, file)
    except Changed as error:
        return error.trouble
    return None
