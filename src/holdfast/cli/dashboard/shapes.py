"""Marks that differ by shape, not only by colour. Positions are parts of the width, so that no shape is stretched."""

from typing import Literal

from holdfast.cli.dashboard.markup import Markup, tag

Shape = Literal["cross", "diamond", "triangle", "square"]
GLYPHS: dict[Shape, str] = {"cross": "✕", "diamond": "◆", "triangle": "▲", "square": "■"}
_PATHS: dict[Shape, str] = {
    "cross": "M-4-4L4 4M4-4L-4 4",
    "diamond": "M0-6L6 0L0 6L-6 0Z",
    "triangle": "M0-5L5 5L-5 5Z",
    "square": "M-4-4H4V4H-4Z",
}


def bar(x: float, width: float, top: float, height: float, colour: str) -> Markup:
    """`x` and `width` from 0 to 1, `top` and `height` in pixels."""
    return tag("rect", x=share(x), width=share(width), y=f"{top:.1f}", height=f"{height:.1f}", class_=colour)


def mark(shape: Shape, x: float, y: float, colour: str) -> Markup:
    """Its centre is at `x`, from 0 to 1, and `y`, in pixels."""
    path = tag("path", d=_PATHS[shape], class_=f"{shape} {colour}")
    return tag("svg", path, x=share(x), y=f"{y:.1f}", overflow="visible")


def share(value: float) -> str:
    return f"{value * 100:.3f}%"
