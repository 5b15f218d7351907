"""What follows the first line of an event: more of its message, and stack traces of the JVM and of Python."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec import Struct

from holdfast.doctor.reading.events import ExceptionLink

MESSAGE_CHARACTERS = 8_000
_EXCEPTION_CHARACTERS = 2_000
_LINKS = 30
_FRAMES_EACH = 8
_FRAMES = 30

_CLASS = r"(?:[A-Za-z_][\w$-]*\.)+[\w$]*[A-Z][\w$]*"
_THROWN = r"(?:[A-Za-z_][\w$-]*\.)*[\w$]*(?:Exception|Error|Throwable|Failure|Interrupt)\w*"
_AT = re.compile(r"\s*at (?:[\w.@-]*/{1,2})*([\w.$<>/-]+)\(")
_MORE = re.compile(r"\s*\.\.\. (?:\d+ (?:more|common frames omitted)|\d+ frames)")
_CAUSE = re.compile(
    rf"(\s*)(Caused by|Suppressed|Wrapped by|Cause): ({_CLASS}|{_THROWN})(?:\([\w.$]+\))?(?:: ?(.*))?$", re.DOTALL
)
_EXCEPTION = re.compile(
    rf"(?:Exception in thread \"[^\"]*\" |: )?(?=[a-z_][\w$-]*\.|[A-Z]\w+(?:Error|Exception|Interrupt):)"
    rf"({_THROWN})(?:\([\w.$]+\))?(?:: ?(.*))?$",
    re.DOTALL,
)
_IN_MESSAGE = re.compile(
    r"(?:^|[\s:(])((?:[a-z_][\w$-]*\.)+[\w$.]*[A-Z]\w*(?:Exception|Error|Throwable)\w*)(?:: ?(.*))?", re.DOTALL
)
_FRAME = "\tat "
_RUN = re.compile(r"^\tat .*(?:\n\tat .*){0,29}(?:\n|\Z)", re.MULTILINE)
"""Frames that follow one another: of ten lines of a trace, nine."""
_PYTHON = "Traceback (most recent call last):"


def is_exception_line(text: str) -> bool:
    """An exception as the first thing on the line, which in a text without log lines is where an event begins."""
    return _EXCEPTION.match(text) is not None


def starts_trace(text: str) -> bool:
    return is_exception_line(text) or text.startswith(_PYTHON)


def is_frame(text: str) -> bool:
    """A frame, a cause, or what says that frames were left out: only a trace has such lines."""
    return bool(_AT.match(text) or _MORE.match(text) or _CAUSE.match(text))


@dataclass(slots=True)
class _Link:
    class_name: str
    message: list[str]
    frames: list[str] = field(default_factory=list)


class Trace(Struct, frozen=True):
    message: str
    exceptions: tuple[ExceptionLink, ...]
    """The chain of causes, outermost first. Suppressed exceptions are no causes and not included."""
    frames: tuple[str, ...]
    """Of the exceptions; where the text is nothing but frames, those."""


def read_trace(message: str, continuation: str, anywhere: bool = False) -> Trace:
    """`anywhere`: an exception also counts in the middle of the message, without frames behind it."""
    reader, place = _TraceReader(message), 0
    for run in _RUN.finditer(continuation):
        reader.take_all(continuation[place : run.start()])
        reader.take_run(run[0])
        place = run.end()
    reader.take_all(continuation[place:])
    return reader.read(anywhere)


@lru_cache(maxsize=1024)
def _frames_of(run: str) -> tuple[str, ...] | None:
    """None when a line only looks like a frame. A log has the same traces again and again."""
    frames = [_frame_of(line) for line in run.rstrip("\n").split("\n")]
    known = tuple(frame for frame in frames if frame is not None)
    return known if len(known) == len(frames) else None


def _frame_of(line: str) -> str | None:
    """`package.Class.method`, without the module in front."""
    if line.startswith(_FRAME):
        name, bracket, _ = line[len(_FRAME) :].partition("(")
        if bracket and " " not in name:
            return name.rpartition("/")[2]
    found = _AT.match(line)
    return found[1] if found else None


class _TraceReader:
    def __init__(self, message: str) -> None:
        self._message = [message] if message else []
        self._links: list[_Link] = []
        self._cut_off: list[str] = []
        """Frames of an exception whose own line is not in the text."""
        self._aside: int | None = None
        """Indentation of the suppressed exception that is being read."""
        self._in_python = False
        self._in_frames = False

    def take_all(self, lines: str) -> None:
        for line in lines.split("\n"):
            self.take(line.rstrip())

    def take_run(self, run: str) -> None:
        frames = _frames_of(run)
        if frames is None:
            self.take_all(run)
        else:
            self._frames(frames)

    def take(self, line: str) -> None:
        if not line or (self._in_python and line[0] == " "):
            return
        if (frame := _frame_of(line)) is not None:
            self._frames((frame,))
        elif _MORE.match(line):
            return
        elif (cause := _CAUSE.match(line)) is not None:
            self._cause(len(cause[1].expandtabs()), cause[2], cause[3], cause[4])
        elif line.startswith(_PYTHON):
            self._in_python = True
        elif (thrown := _EXCEPTION.match(line)) is not None:
            self._open(thrown[1], thrown[2])
        elif self._aside is None:
            self._text(line)

    def read(self, anywhere: bool) -> Trace:
        if anywhere and not self._links:
            self._open_from_message()
        links = tuple(
            ExceptionLink(link.class_name, " ".join(link.message)[:_EXCEPTION_CHARACTERS].strip())
            for link in self._links
        )
        frames = [frame for link in self._links for frame in link.frames]
        if not self._links and not self._message:
            frames = self._cut_off
        return Trace(" ".join(self._message)[:MESSAGE_CHARACTERS].strip(), links, tuple(frames[:_FRAMES]))

    def _frames(self, names: tuple[str, ...]) -> None:
        if not self._links and not self._in_frames:
            self._open_from_message()
        self._in_frames = True
        if not self._links:
            self._cut_off += names[: _FRAMES - len(self._cut_off)]
        elif self._aside is None:
            frames = self._links[-1].frames
            frames += names[: _FRAMES_EACH - len(frames)]

    def _open_from_message(self) -> None:
        """`Lost task 1.0 in stage 2.0: java.io.IOException: No space left on device`, and then its frames."""
        found = _IN_MESSAGE.search(" ".join(self._message))
        if found is not None:
            self._open(found[1], found[2])

    def _cause(self, indent: int, kind: str, class_name: str, message: str | None) -> None:
        if kind == "Suppressed" and self._links:
            self._aside = indent if self._aside is None else min(self._aside, indent)
        elif self._aside is None or indent < self._aside:
            self._open(class_name, message)

    def _open(self, class_name: str, message: str | None) -> None:
        self._aside, self._in_python, self._in_frames = None, False, False
        if len(self._links) < _LINKS:
            self._links.append(_Link(class_name, [message] if message else []))

    def _text(self, line: str) -> None:
        self._in_python = False
        if not self._links:
            self._grow(self._message, line, MESSAGE_CHARACTERS)
        elif not self._in_frames:
            self._grow(self._links[-1].message, line, _EXCEPTION_CHARACTERS)

    def _grow(self, parts: list[str], line: str, most: int) -> None:
        if sum(map(len, parts)) < most:
            parts.append(line.strip())
