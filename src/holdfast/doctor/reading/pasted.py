"""Text that went through a ticket, a chat, a mail or a web page before it got here -> lines as the runtime wrote them.

People ask for help with quoted, indented, wrapped and fenced text. Every line that comes out knows the line of the text
that it began at. Nothing is decided here about what a line means; other lines come out as they are.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.doctor.reading.formats import EVENT_START
from holdfast.doctor.reading.prefixes import stripped
from holdfast.doctor.reading.traces import is_frame, starts_trace

MOST_BYTES = 512 * 1024
"""A longer file is a log that a program wrote."""

_HEAD = re.compile(EVENT_START.removeprefix("^"))
_FENCE = re.compile(r"\s*(?:```|~~~)")
_QUOTE = re.compile(r"\s{0,3}(?:(?:>|\|(?= (?:at |Caused by|\.\.\. )))[ \t]?)+")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{2,4}|#x[0-9a-fA-F]{2,4});")
_TAGS = re.compile(r"</?(?:pre|code|p|div|span|br|blockquote)(?: [^<>]*)?/?>")
_BUILD_TOOL = re.compile(r"\[(?:info|warn|error)\] ?")
_EXPORTED = re.compile(
    r"\"?(?:\d{13}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?)\"?[,\t]\"?(?!\d{3}\b)(?=\S)"  # CloudWatch, Datadog
    r"|\[\d{4}-\d\d-\d\d, \d\d:\d\d:\d\d \w+\] \{[\w.]+:\d+\} \w+ - (?:\[[\w-]+\] )?"  # Airflow
    r"|[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\] "  # Kubernetes' own
)
_GUTTER = re.compile(r"\s*\d{1,7}[:|]?\s+(?=at [\w.$]+\(|Caused by: |(?:[a-z_]\w*\.){2,}[A-Z])")
_PROGRESS = re.compile(r"(?:\[Stage \d+:[^\]\n]*\]\s*)+")
_CONSOLE = re.compile(r"(?:\. ){3,}> |\[ERROR\] (?=Could not execute SQL)")
_BRACKET = re.compile(r"\s*\[+\s*[\"']?(?=\S)|\s*[\"'](?=(?:\\t|\s)*(?:at |Caused by|\.\.\. \d|\w+\.\w+\.))")
_BRACKET_END = re.compile(r"(?:[\"'],?\s*\]*|\]+),?\s*$")
_LISTED = re.compile(r"\s*\[\s*[\"'].*[\"'],?\s*\]?\s*$")
_BETWEEN_LISTED = re.compile(r"[\"'], [\"']")
_FIELD = re.compile(r"\s*\"[\w@. -]+\": ?(\"(?:[^\"\\]|\\.)*+\"),?\s*$")
"""A field of a document of JSON that was printed over several lines, as by clients of clouds and of Flink's REST."""
_CODE_SPAN = re.compile(r"`([^`]{12,})`")
_SPAN_ALONE = re.compile(r"\s*`[^`]{12,}`[.\s]*$")
_SPEAKS = frozenset(
    ("i", "we", "my", "our", "us", "you", "your", "anyone", "someone", "maybe", "hi", "hello", "thanks")
)
_ADVICE = re.compile(
    r"\b(?:If you (?:want|do not want|don't want|wish)|You can|Please|check your cluster UI)\b[^.]*\.?"
)
"""How Flink, Spark and Kafka end a message: such a "you" is nobody in particular."""
_WORDS = re.compile(r"[A-Za-z']+")
_SPLIT_FRAME = re.compile(r"at(?: [\w.$/@<>-]*)?$|at [^()]+\([^()]*$")
_FLATTENED = re.compile(
    r"(?<=[\w)\].;:]) *(?:\\n)?(?:\\t|\t| )+(?=at [\w.$<>/@]+\([\w.$ ]+(?::\d+)?\))"
    r"|(?<=\)) (?=Caused by: |\.\.\. \d+ more)"
)
_WIDTHS = frozenset((72, 76, 78, 79, 80, 100, 119, 120, 132, 160))
"""Of terminals, mails and pages."""


@dataclass(frozen=True, slots=True)
class WrittenLine:
    number: int
    """From 0, in the text."""
    text: str


def written(text: str) -> list[WrittenLine]:
    """The lines of the text, without what was put around them."""
    lines = [WrittenLine(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"))]
    lines = [each for line in _unfenced(lines) for each in _unlisted(line)]
    lines = [each for line in lines for each in _of_field(line)]
    lines = [WrittenLine(line.number, _bare(line.text)) for line in lines]
    lines = list(_unbroken(lines, _columns(lines)))
    return [piece for line in lines for piece in _apart(line)]


def _is_flattened(line: str) -> bool:
    return not line.startswith("{") and _FLATTENED.search(line) is not None


def _bare(line: str) -> str:
    """Without what was put around it. A line of JSON is left alone: what is in its strings is for its own reader."""
    if line.lstrip(" \t").startswith("{"):
        return line
    if _ENTITY.search(line):
        line = html.unescape(line).replace("\xa0", " ")
    line = _TAGS.sub("", line) if "<" in line else line
    line = _QUOTE.sub("", line, count=1) if _QUOTE.match(line) else line
    for pattern in (_PROGRESS, _CONSOLE, _BUILD_TOOL, _EXPORTED, _GUTTER):
        if (found := pattern.match(line)) is not None:
            line = line[found.end() :]
    line = _unbracketed(_without_ticks(line))
    bare = line.lstrip(" \t")
    return bare if bare != line and _HEAD.match(bare) else line


def _unlisted(line: WrittenLine) -> Iterator[WrittenLine]:
    """A list of lines in one line, as programs print it."""
    items = _BETWEEN_LISTED.split(line.text.strip()[1:]) if _LISTED.match(line.text) else []
    if any(_unbracketed(f"[{item}") != f"[{item}" for item in items):
        yield from (WrittenLine(line.number, f"[{item}") for item in items)
    else:
        yield line


def _of_field(line: WrittenLine) -> Iterator[WrittenLine]:
    """The lines in a string of JSON."""
    found = _FIELD.match(line.text) if "\\n" in line.text else None
    try:
        texts = json.loads(found[1]).split("\n") if found else [line.text]
    except ValueError:
        texts = [line.text]
    yield from (WrittenLine(line.number, text.rstrip("\r")) for text in texts)


def _unbracketed(line: str) -> str:
    """Of a list of lines, an item; or a line that was put in brackets. Only if it is a line of a trace or of a log."""
    found = _BRACKET.match(line)
    if found is None:
        return line
    within = _BRACKET_END.sub("", line[found.end() :]).replace("\\t", "\t")
    is_one = starts_trace(within) or is_frame(within.lstrip()) or _HEAD.match(within)
    return within if is_one else line


def _without_ticks(line: str) -> str:
    """Of Markdown: code, and bold print."""
    if line.startswith("**") and line.rstrip().endswith("**"):
        return line.rstrip().removeprefix("**").removesuffix("**")
    if line.startswith("`") and not line.startswith("``"):
        line = line[1:]
        return line[: line.rindex("`")] if line.count("`") == 1 and line.rstrip(" .").endswith("`") else line
    return line


def _unfenced(lines: Iterable[WrittenLine]) -> Iterator[WrittenLine]:
    """Where a text has fences, what stands between them is the excerpt; of the rest, only what is quoted as code."""
    lines = list(lines)
    fenced = sum(_FENCE.match(line.text) is not None for line in lines) >= 2
    within = False
    for line in lines:
        if _FENCE.match(line.text):
            within = not within
            yield WrittenLine(line.number, "")
        elif not within and _SPAN_ALONE.match(line.text):
            yield from (WrittenLine(line.number, ""), line, WrittenLine(line.number, ""))
        elif within or not fenced:
            yield line
        else:
            yield from _quoted(line)


def _quoted(line: WrittenLine) -> Iterator[WrittenLine]:
    """In prose beside fences: code spans, and lines that are a line of a log or of a trace."""
    if _HEAD.match(line.text) or starts_trace(line.text) or is_frame(line.text):
        yield line
        return
    yield from (WrittenLine(line.number, span) for span in _CODE_SPAN.findall(line.text))


def _columns(lines: Iterable[WrittenLine]) -> int | None:
    """At which column a terminal has broken the lines, if it has."""
    lengths = [len(line.text) for line in lines]
    longest = max(lengths, default=0)
    return longest if longest in _WIDTHS and lengths.count(longest) >= 2 else None


def _unbroken(lines: Iterable[WrittenLine], columns: int | None) -> Iterator[WrittenLine]:
    """Lines that were one before a terminal or a mail broke them."""
    whole: WrittenLine | None = None
    last = 0
    for line in lines:
        if whole is not None and _continues(whole.text, last, line.text, columns):
            gap = " " if whole.text.endswith("at") else ""
            rest = line.text if last == columns else gap + line.text.lstrip(" \t")
            whole = WrittenLine(whole.number, whole.text + rest)
        else:
            if whole is not None:
                yield whole
            whole = line
        last = len(line.text)
    if whole is not None:
        yield whole


def _continues(before: str, last: int, line: str, columns: int | None) -> bool:
    if not line or _HEAD.match(line) or starts_trace(line) or is_frame(line):
        return False
    return (columns is not None and last == columns) or _SPLIT_FRAME.search(before.lstrip()) is not None


def _apart(line: WrittenLine) -> Iterator[WrittenLine]:
    """A trace that was pasted into one line."""
    pieces = _FLATTENED.split(line.text) if _is_flattened(line.text) else [line.text]
    if len(pieces) > 1 and not stripped(pieces[0]).text.strip():  # only what a collector put before a frame
        pieces[:2] = [f"{pieces[0]} \t{pieces[1]}"]
    yield from (WrittenLine(line.number, piece) for piece in pieces)


def is_prose(text: str) -> bool:
    """A sentence that somebody wrote, not a runtime: it asks, or speaks of itself or to somebody."""
    if starts_trace(text) or is_frame(text) or _HEAD.match(text):
        return False
    text = _ADVICE.sub("", text)
    words = [word.lower() for word in _WORDS.findall(text)]
    return text.rstrip().endswith("?") or (len(words) >= 4 and not _SPEAKS.isdisjoint(words))
