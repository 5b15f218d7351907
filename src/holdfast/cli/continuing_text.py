"""How plain Spark goes on with the query's own writer, in words."""

from collections.abc import Iterator

from holdfast.cli.continuing import ContinuationDocument
from holdfast.cli.output import answer


def print_continuing(found: ContinuationDocument, barrier: int) -> None:
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in _lines(found, barrier):
        table.add_row(label, text)
    console = answer()
    console.print("")
    console.print(table)
    console.print("")
    for number, step in enumerate(found.steps, 1):
        console.print(f"{number}. {step}", soft_wrap=True)


def _lines(found: ContinuationDocument, barrier: int) -> Iterator[tuple[str, str]]:
    """Label and text."""
    yield "checkpoint", f"has every batch up to {barrier}"
    if found.planned_batch_id > barrier:
        yield "plans", f"what {_named((barrier + 1, found.planned_batch_id))} read is known"
    else:
        yield "plans", f"none after batch {barrier}"
    if found.broken is not None:
        yield "", f"later ones cannot be used: {found.broken}"
    yield "output", _output_text(found)
    if found.missing is not None:
        yield (
            "missing",
            f"rows of {_named(found.missing)}, if they had any: the output lacks them, nobody writes them again",
        )
    if found.skipped is not None:
        yield "done", f"{_named(found.skipped)}: the output has them; put in place as done"
    if found.replayed is not None:
        yield "for the state", f"{_named(found.replayed)}: the output has them; they run once more into nothing"
    if found.repeated is not None:
        yield "repeated", _repeated_text(found, found.repeated)
    if found.twice is not None:
        yield (
            "twice",
            f"{_named(found.twice)}: the output has them, and nobody knows what they read. Their ids pass empty, "
            "and their rows come again under new ids",
        )
    yield "promise", _promise(found)


def _output_text(found: ContinuationDocument) -> str:
    if found.writer is None:
        return (
            f"not looked at (--sink PATH). It has at least the batches up to "
            f"{max(found.planned_batch_id - 1, 0)}: Spark plans a batch when the one before it is done"
            if found.planned_batch_id > 0
            else "not looked at (--sink PATH)"
        )
    return f"{found.writer} has {'no batch' if found.writer_has == -1 else f'batches up to {found.writer_has}'}"


def _repeated_text(found: ContinuationDocument, batch: int) -> str:
    same = f"batch {batch}, with the same rows under the same id"
    if found.writer_has is None:
        return f"{same}: the output may have it"
    return f"{same}: the output has it, and skips it" if batch <= found.writer_has else f"{same}: the output lacks it"


def _promise(found: ContinuationDocument) -> str:
    if found.exact:
        return "every row once, by the steps below"
    if found.writer is None:
        return (
            "exact for a writer that skips or replaces what it has seen, up to the newest plan. Plans come a moment "
            "late: rows of a batch that began in the last moment may be missing or come twice"
        )
    named = [f"rows of {_named(found.missing)} are missing"] if found.missing is not None else []
    named += [f"rows of {_named(found.twice)} come twice"] if found.twice is not None else []
    return f"not exact: {', and '.join(named)}; every other row once, by the steps below"


def _named(batches: tuple[int, int]) -> str:
    first, last = batches
    return f"batch {first}" if first == last else f"batches {first} to {last}"
