"""The savepoints of a job, and how each is used or dropped."""

from urllib.parse import quote

from holdfast.cli import figures
from holdfast.cli.dashboard.guard import FORM_WORD
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import cell, path_of, table, time_of
from holdfast.repository.documents import CheckpointDetail

_HEADS = ("name", "checkpoint", "batch", "taken", "size", "usable")


def savepoints(job: Judged, form_word: str | None) -> Child:
    """`form_word` as for the page of the job."""
    kept = [each for each in job.history if each.kind == "savepoint" and each.status == "completed"]
    if not kept:
        return None
    droppable = form_word is not None and job.view.running
    heads = (*_HEADS, "drop") if droppable else _HEADS
    rows = [_row(job, each, form_word if droppable else None) for each in kept]
    return tag("section", tag("h2", "Savepoints"), table("savepoints", heads, rows))


def _row(job: Judged, each: CheckpointDetail, form_word: str | None) -> Markup:
    at = f"{path_of(job)}/checkpoints/{each.id}"
    return tag(
        "tr",
        cell("name", each.name or "-", sort=each.name or ""),
        cell("checkpoint", tag("a", f"#{each.id}", href=at), sort=each.id),
        cell("batch", each.barrier_batch_id, sort=each.barrier_batch_id),
        cell("taken", time_of(each.triggered_at), sort=each.triggered_at.timestamp()),
        cell("size", figures.size(each.bytes_total), sort=each.bytes_total or 0),
        cell("usable", "yes" if each.usable else each.unusable_because or "no", sort=str(each.usable)),
        cell("drop", _drop(job, each, form_word), sort=each.name or "") if form_word and each.name else None,
        data_savepoint=each.name,
    )


def _drop(job: Judged, each: CheckpointDetail, form_word: str) -> Markup:
    """In two steps, also without script: retention may delete the checkpoint soon after."""
    name = each.name or ""
    form = tag(
        "form",
        tag("input", type="hidden", name=FORM_WORD, value=form_word),
        tag("button", f"Drop {name} now"),
        method="post",
        action=f"/api/v1{path_of(job)}/savepoints/{quote(name)}/drop",
    )
    return tag("details", tag("summary", "Drop…"), form)
