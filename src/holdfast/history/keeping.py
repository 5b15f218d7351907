"""How far back the job can be rewound."""

from datetime import timedelta

from holdfast.finding import Finding
from holdfast.history.numbers import ENOUGH, Numbers

_SHORT = timedelta(hours=1)


def short_memory(numbers: Numbers) -> Finding | None:
    """A mistake is often noticed hours later; then a checkpoint from before it is needed."""
    run = numbers.seen.state.pipeline
    if run is None or run.retention is None or run.retention.keep_hourly or run.retention.keep_daily:
        return None
    kept = [item for item in numbers.completed if item.status == "completed"]
    if len(kept) < max(ENOUGH, run.retention.retained):
        return None
    reach = kept[0].triggered_at - kept[-1].triggered_at
    if reach >= _SHORT:
        return None
    return numbers.finding(
        "retention-short",
        "info",
        "the retained checkpoints are all recent",
        f"the {len(kept)} retained checkpoints reach back {reach.total_seconds() / 60:.0f} minutes; a "
        "mistake that is noticed later cannot be undone",
        ("keep_hourly=24", "keep_daily=7", "# before an upgrade: holdfast savepoint create NAME"),
        (
            (item, f"checkpoint {item.id} is the {place} one")
            for item, place in ((kept[0], "newest"), (kept[-1], "oldest"))
        ),
        count=len(kept),
    )
