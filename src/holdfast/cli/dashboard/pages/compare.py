"""Two checkpoints: what grew."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from holdfast.cli import figures
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import (
    cell,
    path_of,
    requests_of,
    size,
    table,
    whole_page,
)
from holdfast.cli.home_reader import HomeReading
from holdfast.repository.documents import CheckpointDetail
from holdfast.showing import shown

_SHARDS = 50

Contents = Mapping[str, tuple[int, int]]
"""Of a checkpoint, by shard: bytes and files."""


def compare_page(
    reading: HomeReading,
    job: Judged,
    compared: tuple[CheckpointDetail, CheckpointDetail],
    contents: tuple[Contents, Contents] | str,
    now: datetime,
) -> str:
    """`contents` is why they could not be read, when they could not."""
    a, b = compared
    rows = [_compared(name, value(a), value(b), write) for name, value, write in _COMPARED]
    rows += _compared_phases(a, b)
    heads = ("what", f"#{a.id}", f"#{b.id}", "grew by")
    return whole_page(
        f"{job.view.job} #{a.id} and #{b.id}",
        reading,
        now,
        tag("p", tag("a", f"← {job.view.job}", href=path_of(job))),
        tag("h1", f"#{a.id} and #{b.id}: what grew"),
        table("compared", heads, [row for row in rows if row is not None]),
        *_by_shard(contents, heads),
    )


def _by_shard(contents: tuple[Contents, Contents] | str, heads: tuple[str, ...]) -> list[Child]:
    if isinstance(contents, str):
        return [tag("p", "Their shards could not be compared: ", shown(contents), class_="away", id="no-shards")]
    a, b = contents
    operators = [_sized(name, _sum(a, name), _sum(b, name)) for name in sorted({*map(_operator, [*a, *b])})]
    sizes = [(shard, a.get(shard, (0, 0))[0], b.get(shard, (0, 0))[0]) for shard in {*a, *b}]
    sizes.sort(key=lambda each: (-abs(each[2] - each[1]), each[0]))
    listed = [_sized(*each) for each in sizes[:_SHARDS] if each[1] != each[2]]
    more = f"The {_SHARDS} of {len(sizes)} shards that changed most." if len(sizes) > _SHARDS else None
    return [
        tag("h2", "By operator"),
        table("operators", heads, operators),
        tag("h2", "By shard"),
        table("shards", heads, listed) if listed else tag("p", "No shard has another size."),
        tag("p", more, class_="summary") if more else None,
    ]


def _operator(shard: str) -> str:
    """`state/0` of `state/0/17`."""
    return "/".join(shard.split("/")[:2])


def _sum(contents: Contents, operator: str) -> int:
    return sum(size for shard, (size, _) in contents.items() if _operator(shard) == operator)


def _sized(name: str, a: int, b: int) -> Markup:
    row = _compared(name, a, b, size)
    assert row is not None
    return row


def _compared(name: str, a: float | None, b: float | None, write: Callable[[float], str]) -> Markup | None:
    if a is None and b is None:
        return None
    grew = (b or 0) - (a or 0)
    sign = "+" if grew > 0 else "-" if grew < 0 else "±"
    return tag(
        "tr",
        cell("what", name, sort=name),
        cell("first", "-" if a is None else write(a), sort=a or 0),
        cell("second", "-" if b is None else write(b), sort=b or 0),
        cell("grew by", f"{sign}{write(abs(grew))}", sort=grew),
        data_grew=f"{grew:g}",
        data_what=name,
    )


def _compared_phases(a: CheckpointDetail, b: CheckpointDetail) -> list[Markup | None]:
    first = {phase.name: float(phase.ms) for phase in a.phases}
    second = {phase.name: float(phase.ms) for phase in b.phases}
    names = list(dict.fromkeys([*first, *second]))
    return [_compared(f"phase {name}", first.get(name), second.get(name), figures.duration) for name in names]


_COMPARED: Sequence[tuple[str, Callable[[CheckpointDetail], float | None], Callable[[float], str]]] = (
    ("size", lambda each: each.bytes_total, size),
    ("new bytes", lambda each: each.bytes_new, size),
    ("files", lambda each: each.files, lambda value: f"{value:.0f}"),
    ("shards", lambda each: each.shards, lambda value: f"{value:.0f}"),
    ("objects written", lambda each: each.objects_written, lambda value: f"{value:.0f}"),
    ("duration", lambda each: each.duration_ms, figures.duration),
    ("requests", requests_of, lambda value: f"{value:.0f}"),
)
