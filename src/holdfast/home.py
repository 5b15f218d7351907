"""`holdfast.open`: the jobs of a home and their checkpoints, for programs that look. Reads only; needs no Spark.

What a method returns has the fields that `--json` prints (docs/cli.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, overload

from holdfast.cli.choosing import named_savepoint, no_such_checkpoint
from holdfast.cli.health import judged
from holdfast.cli.observing import examine, job_store
from holdfast.errors import InvalidSettings
from holdfast.identifiers import job_name
from holdfast.repository.documents import CheckpointDetail, JobView
from holdfast.repository.jobs import job_names
from holdfast.repository.views import Observation, checkpoint_detail, checkpoints, row_of
from holdfast.storage.urls import open_store

if TYPE_CHECKING:
    import pandas
    import pyarrow


def open(url: str) -> Home:
    """The home at this URL, such as `s3://bucket/holdfast`. Raises `StorageError` when it cannot be reached."""
    if not isinstance(url, str) or not url:
        raise InvalidSettings.of("url", url, "must be the URL of a home", hint="holdfast.open('s3://bucket/holdfast')")
    home = Home(url)
    home.jobs()
    return home


class Home:
    """Where checkpoints of jobs are kept. Created by `holdfast.open`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._root = open_store(url)

    def __repr__(self) -> str:
        return f"holdfast.open({self.url!r})"

    def jobs(self) -> tuple[str, ...]:
        """The names of its jobs."""
        return tuple(job_names(self._root))

    def job(self, name: str) -> Job:
        """One job. Raises `NotFound`, with the names that there are, when the home has no such job."""
        job_store(self.url, name)
        return Job(self, job_name(name))


class Job:
    """One job as its home has it, whether it runs or not. Each call reads the home again."""

    def __init__(self, home: Home, name: str) -> None:
        self.home = home
        self.name = name

    def __repr__(self) -> str:
        return f"{self.home!r}.job({self.name!r})"

    def status(self) -> JobView:
        """Its owner, whether it runs, its newest checkpoint, its health and findings: what `holdfast status` shows."""
        return judged(self._seen())[0]

    def checkpoints(self) -> Checkpoints:
        """Every checkpoint that the journal still holds, newest first, failed ones included."""
        return Checkpoints(checkpoints(self._seen()))

    def savepoints(self) -> Checkpoints:
        """The named ones that are kept."""
        return Checkpoints(
            each for each in self.checkpoints() if each.kind == "savepoint" and each.status == "completed"
        )

    def checkpoint(self, point: int | str) -> CheckpointDetail:
        """One checkpoint, by its id or by the name of a savepoint. Raises `NotFound`."""
        seen = self._seen()
        id = named_savepoint(seen, point).id if isinstance(point, str) else point
        found = checkpoint_detail(seen, id)
        if found is None:
            raise no_such_checkpoint(seen, id)
        return found

    def _seen(self) -> Observation:
        return examine(self.home.url, self.name)


class Checkpoints(Sequence[CheckpointDetail]):
    """A sequence of checkpoints, newest first, which also is a table."""

    def __init__(self, items: Iterable[CheckpointDetail]) -> None:
        self._items = tuple(items)

    @overload
    def __getitem__(self, index: int) -> CheckpointDetail: ...

    @overload
    def __getitem__(self, index: slice) -> Checkpoints: ...

    def __getitem__(self, index: int | slice) -> CheckpointDetail | Checkpoints:
        return Checkpoints(self._items[index]) if isinstance(index, slice) else self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[CheckpointDetail]:
        return iter(self._items)

    def __repr__(self) -> str:
        shown = ", ".join(f"{each.id} {each.status}" for each in self._items[:5])
        return f"<{len(self)} checkpoints: {shown}{', …' if len(self) > 5 else ''}>"

    def to_pandas(self) -> pandas.DataFrame:
        """One row each, as a pandas table."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise InvalidSettings(f"could not make a table: {error}", hint="pip install pandas") from error
        return pandas.DataFrame([row_of(each) for each in self._items])

    def to_arrow(self) -> pyarrow.Table:
        """One row each, as an Arrow table."""
        try:
            import pyarrow
        except ModuleNotFoundError as error:
            raise InvalidSettings(f"could not make a table: {error}", hint="pip install pyarrow") from error
        return pyarrow.Table.from_pylist([row_of(each) for each in self._items])
