"""The board of the program that serves the pages."""

from holdfast.cli.dashboard.board import Board, Line
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import cell, table


def board_section(board: Board | None) -> Child:
    if board is None:
        return None
    rows = [
        tag(
            "tr",
            [cell(head, value, sort=value) for head, value in zip(board.heads, row, strict=True)],
            class_="critical" if number in board.bad else None,
            data_row=row[0],
        )
        for number, row in enumerate(board.rows)
    ]
    return tag(
        "section",
        tag("h2", board.title),
        tag("p", board.about, class_="summary") if board.about else None,
        table("score", board.heads, rows) if rows else None,
        tag("ol", [_line(each) for each in board.lines], class_="events said") if board.lines else None,
        id="board",
    )


def _line(each: Line) -> Markup:
    return tag("li", tag("span", each.at, class_="at"), f" {each.mark} {each.text}", class_="bad" if each.bad else None)
