"""One difference between a query and the checkpoint that it is to resume from."""

import msgspec

NOTHING = "-"


class Difference(msgspec.Struct, frozen=True):
    subject: str
    checkpoint: str
    query: str
    refused: bool
    why: str
    """What Spark would do."""
    advice: str | None = None


def rows(differences: tuple[Difference, ...]) -> list[tuple[str, ...]]:
    """As a table, headings first."""
    return [
        ("", "what", "checkpoint", "query", "so"),
        *(("refused" if d.refused else "note", d.subject, d.checkpoint, d.query, d.why) for d in differences),
    ]


def as_text(differences: tuple[Difference, ...]) -> str:
    table = rows(differences)
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table)
    return "\n".join(f"  {line}" for line in lines)


def refuse(subject: str, held: str | None, coming: str | None, why: str, advice: str) -> Difference:
    return Difference(subject, held or NOTHING, coming or NOTHING, True, why, advice)


def warn(subject: str, held: str | None, coming: str | None, why: str) -> Difference:
    return Difference(subject, held or NOTHING, coming or NOTHING, False, why)
