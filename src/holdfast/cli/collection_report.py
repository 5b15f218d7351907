"""The output of `holdfast collect`: the plan, and the result."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from holdfast.cli import figures
from holdfast.cli.output import answer, labelled, print_message
from holdfast.identifiers import CheckpointId
from holdfast.repository.entries import Retention
from holdfast.repository.views import Observation

if TYPE_CHECKING:
    from holdfast.repository.collection import Unneeded
    from holdfast.repository.survey import CollectionPlan
    from holdfast.runtime.commands.leftovers import Leftover
    from holdfast.runtime.upkeep.freeing import Freed

_WHY = {
    "retired": "named only by retired checkpoints",
    "orphan": "left by failed attempts or runs",
    "temporary": "left by writers that crashed",
}


_LOCAL_WHY = {
    "stale": "set aside by --new-life",
    "set aside": "Spark could not read it, the note beside it has the reason",
    "staged": "output of failed attempts, not needed",
    "half-built": "left by a restore that was killed",
}


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    objects: int
    bytes: int


class UnneededDocument(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    bytes: int
    why: str
    free_at: datetime | None
    """When its grace ends; null when it can be deleted at once."""


class PackDocument(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    bytes: int
    needed_bytes: int


class FailedDocument(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    error: str


class LocalDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Leftovers of runs in and beside their work directory."""

    path: str
    bytes: int
    why: str
    since: datetime
    free_at: datetime | None
    """Until when it is kept for inspection; null when it can be deleted at once."""


class CollectionDocument(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    home: str
    running: bool
    executed: bool
    retention: Retention | None
    retire: tuple[CheckpointId, ...]
    free: dict[str, Amount]
    """By reason, what can be deleted at once."""
    in_grace: Amount
    objects: tuple[UnneededDocument, ...]
    outworn_packs: tuple[PackDocument, ...]
    unreadable: tuple[CheckpointId, ...]
    missing: tuple[str, ...]
    """Objects that checkpoints need and the home no longer has."""
    foreign: tuple[str, ...]
    """Names that holdfast did not create. They are never deleted."""
    freed: Amount
    failed: tuple[FailedDocument, ...]
    answer: str | None
    """The answer of the running job."""
    local: tuple[LocalDocument, ...] = ()
    freed_local: Amount = Amount(objects=0, bytes=0)


def with_local(
    document: CollectionDocument, found: "Sequence[Leftover]", removed: "Mapping[str, str | None]", now: datetime
) -> CollectionDocument:
    """`removed`: the directories that were to be removed, each with its error, if any."""
    gone = [item for item in found if removed.get(item.place.location, "kept") is None]
    failed = tuple(FailedDocument(key=place, error=why) for place, why in removed.items() if why is not None)
    return msgspec.structs.replace(
        document,
        local=tuple(_local(item, now) for item in found),
        freed_local=Amount(objects=len(gone), bytes=sum(item.bytes for item in gone)),
        failed=(*document.failed, *failed),
    )


def _local(item: "Leftover", now: datetime) -> LocalDocument:
    return LocalDocument(
        path=item.place.location,
        bytes=item.bytes,
        why=item.kind.value,
        since=datetime.fromtimestamp(item.since, UTC),
        free_at=now + timedelta(seconds=item.wait_s) if item.wait_s else None,
    )


def document_of(
    seen: Observation, rule: Retention | None, plan: "CollectionPlan", freed: "Freed | None", answer_text: str | None
) -> CollectionDocument:
    ready = [item for item in plan.objects if not item.wait_s]
    reasons = sorted({item.why.value for item in ready})
    return CollectionDocument(
        job=seen.job,
        home=seen.home,
        running=seen.running,
        executed=freed is not None,
        retention=rule,
        retire=plan.retire,
        free={why: _amount([item for item in ready if item.why == why]) for why in reasons},
        in_grace=_amount([item for item in plan.objects if item.wait_s]),
        objects=tuple(
            UnneededDocument(
                key=item.key,
                bytes=item.size,
                why=item.why.value,
                free_at=seen.now + timedelta(seconds=item.wait_s) if item.wait_s else None,
            )
            for item in plan.objects
        ),
        outworn_packs=tuple(
            PackDocument(key=pack.key, bytes=pack.size, needed_bytes=pack.needed) for pack in plan.sparse
        ),
        unreadable=plan.unreadable,
        missing=plan.missing,
        foreign=plan.foreign,
        freed=Amount(objects=freed.objects, bytes=freed.bytes) if freed else Amount(objects=0, bytes=0),
        failed=tuple(FailedDocument(key=key, error=error) for key, error in freed.failed.items()) if freed else (),
        answer=answer_text,
    )


def _amount(items: "Sequence[Unneeded]") -> Amount:
    return Amount(objects=len(items), bytes=sum(item.size for item in items))


def print_document(document: CollectionDocument, *, dry_run: bool) -> None:
    console = answer()
    console.print(f"job {document.job!r} in {document.home} keeps {_kept(document.retention)}")
    if document.retire:
        console.print(labelled("retire", figures.counted(len(document.retire), "checkpoint"), f": {_ids(document)}"))
    for why, amount in document.free.items():
        console.print(labelled(why, _shown(amount), f", {_WHY[why]}"))
    if document.in_grace.objects:
        last = max(item.free_at for item in document.objects if item.free_at is not None)
        console.print(labelled("in grace", _shown(document.in_grace), f", can be deleted by {figures.moment(last)}"))
    if document.outworn_packs:
        packs = document.outworn_packs
        needed, total = sum(pack.needed_bytes for pack in packs), sum(pack.bytes for pack in packs)
        console.print(
            labelled(
                "packs",
                f"{figures.counted(len(packs), 'pack')} of {figures.size(total)} kept for {figures.size(needed)}; ",
                "the running job repacks what it needs",
            )
        )
    if document.foreign:
        names = figures.counted(len(document.foreign), "name")
        console.print(labelled("foreign", names, f" that holdfast did not create, not deleted: {document.foreign[0]}"))
    if document.unreadable:
        print_message(f"checkpoint {document.unreadable[0]} has no readable manifest; what it may need is not deleted")
        print_message("Try: holdfast verify --repair")
    if document.missing:
        lost = figures.counted(len(document.missing), "object")
        print_message(f"{lost} that checkpoints need are missing from the home, such as {document.missing[0]}")
        print_message("Try: holdfast verify --repair; a running job repairs what its work directory still has")
    for item in document.local:
        console.print(labelled(item.why, f"{item.path}, {figures.size(item.bytes)}, ", _until(item)))
    console.print(_ending(document, dry_run=dry_run))


def _until(item: LocalDocument) -> str:
    what = _LOCAL_WHY[item.why]
    return f"{what}; can be deleted" if item.free_at is None else f"{what}; kept until {figures.moment(item.free_at)}"


def _ending(document: CollectionDocument, *, dry_run: bool) -> str:
    count, size = document.freed_local.objects, figures.size(document.freed_local.bytes)
    here = f"{count} {'directory' if count == 1 else 'directories'} of earlier runs, {size}" if count else ""
    if document.executed:
        return f"freed {_shown(document.freed)}" + (f", and {here}" if here else "")
    if here:
        return f"freed {here}"
    if document.answer is not None:
        return f"the running job answered: {document.answer}"
    if document.running:
        return "the running job deletes this on its own, in the background"
    return "nothing was changed" if dry_run else "nothing to do"


def _kept(rule: Retention | None) -> str:
    if rule is None:
        return "every checkpoint: its last run did not record its retention, and --retained was not given"
    parts = [f"the newest {rule.retained}"]
    parts += [f"one of each of the last {rule.keep_hourly} hours"] if rule.keep_hourly else []
    parts += [f"one of each of the last {rule.keep_daily} days"] if rule.keep_daily else []
    return f"{', '.join(parts)}, and every savepoint; grace {figures.duration(rule.grace_s * 1000)}"


def _ids(document: CollectionDocument) -> str:
    ids = document.retire
    return ", ".join(str(id) for id in ids) if len(ids) <= 8 else f"{ids[0]} to {ids[-1]}"


def _shown(amount: Amount) -> str:
    return f"{figures.counted(amount.objects, 'object')}, {figures.size(amount.bytes)}"
