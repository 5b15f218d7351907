"""What the jobs that share the directory of a `Files` sink have left in it. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks import files_columns
from holdfast.sinks.files_layout import FilesLayout, Life, Marker, current_life, jobs_at, life_of, lives_of
from holdfast.sinks.files_place import require_no_foreign_file, require_no_table
from holdfast.sinks.protocol import OtherName, SinkContext, require_one_name


def survey(place: Path, described: str, context: SinkContext, schema_json: str) -> Life | None:
    """The life of the job whose output is here. Refuses a directory of another writer, and columns that do not fit."""
    require_no_table(place, described)
    life = current_life(place, context.job, context.lineage)
    if life is None and not context.accept:
        require_no_foreign_file(place, described)
    files_columns.require_fit(described, schema_json, written(place, context))
    return life


def published_beside(place: Path, described: str, context: SinkContext, known: FencingEpoch | None) -> BatchId | None:
    """`known` is the newest run under the job's own name."""
    return require_one_name(context, known or FencingEpoch(0), tuple(other_names(place, context)), described)


def other_names(place: Path, context: SinkContext) -> Iterator[OtherName]:
    own = life_of(context.lineage)
    for name in sorted(jobs_at(place) - {context.job}):
        life = current_life(place, JobName(name), context.lineage)
        if life is not None and life.life == own.life:
            markers = FilesLayout(place, JobName(name), life).markers()
            newest = next(iter(markers), FencingEpoch(0))
            yield OtherName(name, newest, newest_published(markers).batch_id)


def written(place: Path, context: SinkContext) -> list[str]:
    """Schemas with every column that a visible file of holdfast has, of any job and life."""
    jobs = {JobName(name) for name in jobs_at(place)} | {context.job}
    layouts = [layout for job in sorted(jobs) for layout in lives(place, job)]
    return [schema for layout in layouts for schema in layout.columns() or columns_of_0_1_0(layout)]


def lives(place: Path, job: JobName) -> list[FilesLayout]:
    return [FilesLayout(place, job, Life(0, name)) for name in sorted(lives_of(place, job))]


def columns_of_0_1_0(layout: FilesLayout) -> list[str]:
    """Version 0.1.0 recorded the columns of its newest run only; one file of each run has the columns of that run."""
    one_of_each = {file.fencing_epoch: file.path for file in layout.visible()}
    found = [schema for path in one_of_each.values() if (schema := files_columns.schema_in(path)) is not None]
    published = newest_published(layout.markers()).batch_id is not None
    newest = layout.newest_schema()
    return [*found, *([newest] if published and newest is not None else [])]


def newest_published(markers: Mapping[FencingEpoch, Marker]) -> Marker:
    return next((marker for marker in markers.values() if not marker.claim), Marker())


def another_life(place: Path, described: str, context: SinkContext, life: Life) -> Conflict:
    published = newest_published(FilesLayout(place, context.job, life).markers()).batch_id
    shown = "nothing yet" if published is None else f"batches up to {published}"
    return Conflict(
        f"could not open {described}: it holds the output of another life of job {context.job!r} ({shown}), "
        "whose home is not this one; this life would write the same input once more",
        hint="put the home of that life back; or write to another directory; or leave its rows and begin anew "
        "beside them: --new-life",
    )
