"""Parses a printed chain of exceptions, of Java and Python. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_FRAME = re.compile(r"\s+(?:at ([\w.$/<>@ -]+)\(|\.\.\. \d+ (?:more|common))")
_CAUSED_BY = "Caused by: "
_CALLED = re.compile(r"An error occurred while calling \S+$")
_TASK = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ")
_HEAD = re.compile(r"([A-Za-z_][\w.$]*)(?:: ?(.*))?$", re.DOTALL)
_PYTHON_HEAD = re.compile(r"([A-Za-z_][\w.]*)(?:: |:?$|:?\n)")
_SQLSTATE = re.compile(r"\s+SQLSTATE: \w{5}$")
_REASON = re.compile(r"\n *Reason: *(\S.*)")
_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_FRAME = re.compile(r'\s+File "(.+)", line (\d+), in (.+)')
_LIBRARY = re.compile(r"/site-packages/|/pyspark/|/py4j|/lib/python3|<frozen ")
_LONGEST_LINE = 400
_FRAMES_KEPT = 40


@dataclass(frozen=True)
class Link:
    """One exception of a chain."""

    kind: str
    """Its class, as printed."""
    message: str
    python: bool = False
    """Python raised it."""
    place: str = ""
    """The place in the user's own Python code, if any."""
    frames: str = ""
    """Java's stack frames, innermost first, one per line."""

    @property
    def line(self) -> str:
        """One line for display."""
        first = next((line.strip() for line in self.message.splitlines() if line.strip()), "")
        if reason := _REASON.search(self.message):
            first = f"{first} {reason[1].strip()}"
        name = self.kind.rpartition(".")[2].rpartition("$")[2]
        said = (f"{name}: {first}" if name and first else name or first)[:_LONGEST_LINE]
        return f"{said} ({self.place})" if self.place else said


def chain_of(text: str) -> tuple[Link, ...]:
    """The links of a chain, outermost first."""
    return tuple(link for block, frames in _blocks(text) for link in _framed(_links(block), frames))


def _framed(links: Iterator[Link], frames: list[str]) -> list[Link]:
    """The frames after a block belong to the last exception that its message quotes."""
    *outer, last = links
    return [*outer, replace(last, frames="\n".join(frames[:_FRAMES_KEPT]))]


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """The text between Java's stack frames, and the frames.

    When a message of several lines contains "Caused by", no frame has come yet: the line is part of the message.
    """
    lines: list[str] = []
    frames: list[str] = []
    called = False
    for line in text.splitlines():
        if frame := _FRAME.match(line):
            frames.append(frame[1] or "")
        elif (frames and line.startswith(_CAUSED_BY)) or (called and line.startswith(": ")):
            yield "\n".join(lines), frames
            lines, frames = [line.removeprefix(_CAUSED_BY).removeprefix(": ")], []
        elif not frames:
            lines.append(line)
        called = bool(_CALLED.search(line.rstrip(".")))
    yield "\n".join(lines), frames


def _links(block: str) -> Iterator[Link]:
    """A block is one exception, and those that its message quotes: of a task, or of Python."""
    if task := _TASK.search(block):
        yield from _links(block[: task.start()])
        yield from _links(block[task.end() :])
        return
    before, traceback, after = block.partition(_TRACEBACK)
    yield _link(before)
    if traceback:
        yield _python_link(after)


def _link(text: str) -> Link:
    head = _HEAD.match(text.strip())
    return Link(head[1], head[2] or "") if head and "." in head[1] else Link("", text.strip())


def _python_link(traceback: str) -> Link:
    """The exception of the last traceback: when one was raised while another was handled, the later one."""
    lines = traceback.splitlines()
    frames = [(index, frame) for index, line in enumerate(lines) if (frame := _PYTHON_FRAME.match(line))]
    begin = frames[-1][0] + 1 if frames else 0
    raised = next((index for index in range(begin, len(lines)) if lines[index][:1].strip()), len(lines))
    said = _SQLSTATE.sub("", "\n".join(lines[raised:]).strip())
    head = _PYTHON_HEAD.match(said)
    places = [frame for _, frame in frames if not _LIBRARY.search(frame[1])]
    place = f"{places[-1][1].rpartition('/')[2]}, line {places[-1][2]}, in {places[-1][3]}" if places else ""
    kind, message = (head[1], said[head.end() :]) if head else ("", said)
    return Link(kind, message, python=True, place=place)
