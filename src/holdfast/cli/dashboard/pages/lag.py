"""How far a job is behind its Kafka topics."""

from holdfast.cli import figures
from holdfast.cli.dashboard.charts import ranking
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import cell, table, time_of
from holdfast.repository.self_report import ReportedLag, ReportedPartition

_DRAWN = 20
"""Partitions in the picture."""
_ROWS = 200
_TRENDS = {"growing": "▲ growing", "shrinking": "▼ shrinking", "steady": "● steady"}


def lag_cell(lag: ReportedLag | None) -> Markup:
    """For a row of the jobs."""
    if lag is None:
        return cell("lag", "-", sort=-1)
    old = f" · {_age(lag)}" if lag.seconds else ""
    trend = tag("span", f" {_TRENDS[lag.trend]}", class_=lag.trend) if lag.trend and lag.processed else None
    return cell("lag", (f"{lag.processed:,} records{old}", trend), sort=lag.processed, title=_caught_up(lag))


def lag_section(lag: ReportedLag | None) -> Child:
    if lag is None:
        return None
    facts: list[tuple[str, Child]] = [
        ("not processed", f"{lag.processed:,} records"),
        ("readers do not see", "-" if lag.published is None else f"{lag.published:,} records"),
        ("oldest record", _age(lag) if lag.seconds else "-"),
        ("trend", _TRENDS[lag.trend] if lag.trend else "not watched for long enough"),
        ("caught up", _caught_up(lag)),
        ("asked", time_of(lag.at)),
    ]
    drawn = [(_name(each), float(each.processed)) for each in lag.partitions[:_DRAWN]]
    more = f"The {_ROWS} of {len(lag.partitions)} partitions with the largest lag."
    return tag(
        "section",
        tag("h2", "Kafka lag"),
        tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts], class_="facts"),
        ranking("lag by partition", drawn, lambda value: f"{value:,.0f}"),
        tag("details", tag("summary", "Numbers"), _partitions(lag), id="lag-numbers"),
        tag("p", more) if len(lag.partitions) > _ROWS else None,
        id="lag",
    )


def _partitions(lag: ReportedLag) -> Markup:
    rows = [
        tag(
            "tr",
            cell("partition", _name(each), sort=_name(each)),
            cell("not processed", f"{each.processed:,}", sort=each.processed),
            cell("readers do not see", "-" if each.published is None else f"{each.published:,}", sort=each.published),
            data_partition=_name(each),
        )
        for each in lag.partitions[:_ROWS]
    ]
    return table("lag-partitions", ("partition", "not processed", "readers do not see"), rows)


def _name(each: ReportedPartition) -> str:
    return f"{each.topic}[{each.partition}]"


def _age(lag: ReportedLag) -> str:
    return f"{'more than' if lag.at_least else 'about'} {figures.duration((lag.seconds or 0) * 1000)} old"


def _caught_up(lag: ReportedLag) -> str:
    if not lag.processed:
        return "now"
    if lag.caught_up_in_s is None:
        return "never at this pace" if lag.trend == "growing" else "not known"
    return f"in about {figures.duration(lag.caught_up_in_s * 1000)}"
