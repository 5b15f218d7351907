"""HTML and SVG as values. Text is escaped unless it is `Markup`, so nothing from a home can become a tag. Pure."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias


class Markup(str):
    """Already HTML."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Markup | Iterable[Child] | None"
_VOID = frozenset(("link", "meta", "input", "br"))


def tag(element: str, /, *children: Child, **attributes: object) -> Markup:
    """`class_` and `data_x` become `class` and `data-x`. An attribute that is None or False is left out."""
    shown = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if element in _VOID:
        return Markup(f"<{element}{shown}>")
    return Markup(f"<{element}{shown}>{text_of(children)}</{element}>")


def text_of(child: Child) -> Markup:
    if child is None:
        return Markup("")
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int | float):
        return Markup(escape(str(child)))
    return Markup("".join(text_of(each) for each in child))


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
