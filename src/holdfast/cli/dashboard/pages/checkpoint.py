"""One checkpoint: phases, shards, why it failed, how to restore it."""

import shlex
from datetime import datetime
from urllib.parse import quote

from holdfast.cli import figures
from holdfast.cli.dashboard.charts import waterfall
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import cell, copyable, path_of, table, time_of, whole_page
from holdfast.cli.dashboard.pages.timeline import batch_table
from holdfast.cli.home_reader import HomeReading
from holdfast.repository.documents import CheckpointDetail
from holdfast.repository.entries import CheckpointRepaired
from holdfast.showing import shown


def checkpoint_page(reading: HomeReading, job: Judged, each: CheckpointDetail, now: datetime) -> str:
    mark = "✕ " if each.failure else ""
    named = f"savepoint {each.name}" if each.name else f"#{each.id}"
    content: list[Child] = [
        tag("p", tag("a", f"← {job.view.job}", href=path_of(job))),
        tag("h1", f"{named} ", tag("span", f"{mark}{each.status}", class_=f"state {each.status}")),
    ]
    if each.failure:
        content += [tag("h2", "Why it failed"), _failure(each)]
    content.append(_checkpoint_facts(each))
    named_job = f"--home {shlex.quote(shown(reading.home))} --job {shlex.quote(job.view.job)}"
    if each.status == "completed":
        command = f"holdfast verify {named_job} --checkpoint {each.id}"
        content += [tag("h2", "Is it whole?"), tag("p", _verified(job, each), id="verified"), copyable(command)]
    if each.usable:
        command = f"holdfast restore {named_job} --checkpoint {each.id} --to ./restored"
        content += [tag("h2", "Restore it"), _source(each), copyable(command)]
    if each.phases:
        phases = [(phase.name, float(phase.ms)) for phase in each.phases]
        content += [tag("h2", "Phases"), waterfall(phases, figures.duration)]
    if each.slowest_shards:
        content += [tag("h2", "Slowest shards"), _shards(each)]
    if each.batches:
        content += [tag("h2", "Batches since the checkpoint before"), batch_table("batches", each.batches)]
    return whole_page(f"{job.view.job} {named}", reading, now, *content, stream=f"?job={quote(job.view.job)}")


def _verified(job: Judged, each: CheckpointDetail) -> Child:
    """By the journal, and by the note that `verify` or a scrub left; reading its bytes is left to the command."""
    if each.corrupt is not None:
        return f"No: {shown(each.corrupt)}"
    repairs = (entry for _, entry in reversed(job.seen.state.sequences) if isinstance(entry, CheckpointRepaired))
    repaired = next((entry.at for entry in repairs if entry.id == each.id), None)
    at = max((at for at in (each.verified_at, repaired) if at is not None), default=None)
    if at is None:
        return "No damage is known. When its bytes were last read is not noted; this command reads them:"
    after = ", after a repair" if at == repaired else ""
    return ("Yes: every byte was read and was right, ", time_of(at), f"{after}. To read them again:")


def _source(each: CheckpointDetail) -> Child:
    if each.source_gone:
        return tag("p", "Its source is gone: what a restore would read again is deleted.")
    if each.source_until is not None:
        return tag("p", "Its sources keep what it needs until about ", time_of(each.source_until), ".")
    return None


def _failure(each: CheckpointDetail) -> Markup:
    failure = each.failure
    assert failure is not None
    counted = "counted" if failure.counted else "not counted"
    return tag(
        "article",
        tag("h3", f"✕ {failure.reason} ({counted})"),
        tag("p", shown(failure.message)),
        copyable(shown(failure.hint)) if failure.hint else None,
        class_="finding critical",
    )


def _checkpoint_facts(each: CheckpointDetail) -> Markup:
    facts: list[tuple[str, Child]] = [
        ("batch", "-" if each.barrier_batch_id is None else each.barrier_batch_id),
        ("triggered", f"{each.triggered_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("completed", f"{each.completed_at:%Y-%m-%d %H:%M:%S} UTC" if each.completed_at else "-"),
        ("duration", figures.duration(each.duration_ms)),
        ("size", figures.size(each.bytes_total)),
        ("new bytes", figures.size(each.bytes_new)),
        ("reused bytes", figures.size(each.bytes_reused)),
        ("files", "-" if each.files is None else each.files),
        ("objects written", "-" if each.objects_written is None else each.objects_written),
        ("shards", f"{each.shards_acknowledged} of {each.shards}" if each.shards is not None else "-"),
        ("run", each.fencing_epoch),
    ]
    if not each.failure:
        facts.append(("usable", "yes" if each.usable else f"no: {shown(each.unusable_because or each.status)}"))
    known = [(name, value) for name, value in facts if value != "-"]
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in known], class_="facts")


def _shards(each: CheckpointDetail) -> Markup:
    rows = [
        tag(
            "tr",
            cell("shard", shard.id, sort=shard.id),
            cell("copied by", shown(shard.host) or "driver", sort=shard.host),
            cell("took", figures.duration(shard.ms), sort=shard.ms, title=f"{shard.ms} ms"),
            cell("new", figures.size(shard.bytes_new), sort=shard.bytes_new),
            cell("size", figures.size(shard.bytes_total), sort=shard.bytes_total),
            cell("files", shard.files, sort=shard.files),
        )
        for shard in each.slowest_shards
    ]
    return table("shards", ("shard", "copied by", "took", "new", "size", "files"), rows)
