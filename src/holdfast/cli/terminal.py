"""A console that shows text from outside without interpreting its control characters."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from holdfast.showing import shown


class SafeConsole(Console):
    """Colours and cursor movements are the console's own; control characters in text are escaped."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=shown(segment.text))
