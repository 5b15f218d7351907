r"""How log lines begin: what was put in front of them, and the layouts of Flink, Spark, Kafka, logback and the JVM.

The patterns only use what both Python's `re` and RE2 support, because each is used twice: `EVENT_START` finds, with RE2
over whole blocks, the lines at which an event begins; `PREFIXES` and `LAYOUTS` parse such a line. A pattern therefore
has no look-around, and its groups have names only where they are read.
"""

import re

_DAY = r"\d{4}[-/]\d{2}[-/]\d{2}"
_CLOCK = r"\d{2}:\d{2}:\d{2}"
_ZONE = r"(?:Z| ?[+-]\d{2}:?\d{2})"
_ISO = rf"{_DAY}[T ]{_CLOCK}(?:[.,]\d{{1,9}})?{_ZONE}?"
_EXACT = rf"{_DAY}T{_CLOCK}(?:\.\d{{1,9}})?{_ZONE}"
_SPARK = rf"\d{{2}}/\d{{2}}/\d{{2}} {_CLOCK}(?:[.,]\d{{1,9}})?"
_LOG4J_DATE = rf"\d{{2}} [A-Z][a-z]{{2}} \d{{4}} {_CLOCK}(?:[.,]\d{{1,9}})?"
_CLOCK_ONLY = rf"{_CLOCK}[.,]\d{{3}}"
_SYSLOG_DATE = rf"[A-Z][a-z]{{2}} [ \d]\d {_CLOCK}"
_TIME = rf"(?:{_ISO}|{_SPARK}|{_LOG4J_DATE}|{_CLOCK_ONLY})"

_LEVEL = r"(?:TRACE|DEBUG|INFO|WARNING|WARN|ERROR|FATAL|SEVERE|CRITICAL)"
_COLOUR = r"(?:\x1b\[[0-9;]*m)*"
_LOGGER = r"[A-Za-z_][\w.$/-]*"
_DOTTED_LOGGER = r"[a-z_][\w$]*(?:\.[\w$]+)+"
_SPARK_LOGGER = r"(?:[a-z]+\.)?(?:Executor|Utils|(?:[A-Z]+[a-z]+){2,}[A-Z]*)(?:\$\w+)*"
_BRACKETS = r"\[[^\]]*\]"
_THREAD = r"\[(?P<thread>[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]"
"""Spark's stream threads have brackets in their names."""

_PREFIX_PATTERNS = {
    "cri": rf"(?P<time>{_EXACT}) (?P<stream>stdout|stderr) (?P<tag>[FP])(?:\s|$)",
    "kubectl": r"\[pod/(?P<host>[^/\]]+)/(?P<stream>[^\]]*)\] ?",
    "bracketed": r"\[(?P<host>[A-Za-z0-9.]+-[\w.-]+) (?P<stream>[\w.-]+)\] ?",
    "logcli": rf"(?P<time>{_ISO}) (?P<labels>\{{[^}}\"]+\"[^}}]*\}}) ?",
    "syslog": rf"(?:<\d+>)?(?:1 )?(?P<time>{_SYSLOG_DATE}|{_EXACT}) (?P<host>[\w.-]+) "
    r"(?P<stream>[A-Za-z_][\w./-]*(?:\[\d+\])?): ?",
    "kail": r"[a-z0-9-]+/(?P<host>[a-z0-9][a-z0-9.-]*)\[(?P<stream>[\w.-]+)\]: ",
    "carbon": r"TID: \[-?\d+\](?: \[[^\]\d]*\])* ",
    "compose": r"(?P<host>[A-Za-z0-9][\w.-]*) +\| ?",
    "grep": r"(?P<stream>[\w./-]+\.(?:log|out|err|txt)[\w.-]*):(?:\d+:)? ?",
    "stern": r"(?P<host>[a-z0-9][a-z0-9.-]*-(?:[a-z0-9]{5}|\d{1,3})) (?P<stream>[a-z][a-z0-9-]*) ",
    "numbered": r"\d{1,9}:",
    "kibana": rf"[A-Z][a-z]{{2}} \d{{1,2}}, \d{{4}} @ {_CLOCK}\.\d{{3}}[\t,]\"?",
    "timestamps": rf"(?P<time>{_EXACT}) ",
}

_LAYOUT_PATTERNS = (
    # log4j and logback: time, thread before or after the level; Kafka's brokers put the time into brackets.
    rf"\[?(?P<time>{_TIME})\]?[ \t]+(?:{_THREAD}[ \t]+|[\w-]+ )?"
    rf"{_COLOUR}\[?(?P<level>{_LEVEL})\]?{_COLOUR}(?:[\s:\xc2]|$)",
    # The JVM's own log, for its garbage collector.
    rf"\[(?P<time>{_ISO}|\d+[.,]\d+s)\](?:\[[^\]]*\])*?"
    r"\[(?P<level>info|warning|error|debug|trace) *\](?:\[(?P<logger>[^\]]*)\])",
    # No time, but clearly a log line.
    rf"(?:{_THREAD}[ \t]+)?(?P<level>{_LEVEL})[ \t]+(?:{_BRACKETS}[ \t]+)?(?:{_TIME}[ \t]+)?"
    rf"(?:{_DOTTED_LOGGER}[ \t]*(?:{_BRACKETS}[ \t]*)*(?:- |: )|{_SPARK_LOGGER}: )",
    # Flink's web page writes the time on a line of its own above the exception.
    rf"(?P<time>{_ISO})\s*$",
)

_JSON_KEYS = r"level|severity|log\.level|Event|msg|message|MESSAGE|textPayload|line"

DOCKER_START = '{"log":"'

PREFIXES = {kind: re.compile(pattern) for kind, pattern in _PREFIX_PATTERNS.items()}
LAYOUTS = tuple(re.compile(pattern) for pattern in _LAYOUT_PATTERNS)
JSON_START = re.compile(rf'\{{(?:.*[^\\])?"(?:{_JSON_KEYS})" ?:')

AFTER_LEVEL = (
    # Flink: logger, nested context in brackets, dash.
    re.compile(
        rf"(?:{_THREAD}[ \t]+)?(?P<logger>{_LOGGER})(?::\d+)?[ \t]*"
        rf"(?:\([\w.$]+:[^\s)]*(?:\(\d+\))?\)[ \t]*)?(?P<context>(?:{_BRACKETS}[ \t]*)*)- (?P<message>.*)",
        re.DOTALL,
    ),
    # Carbon: logger in braces, before the message and behind it.
    re.compile(rf"\{{(?P<logger>{_DOTTED_LOGGER})\}}[ \t]*-[ \t]*(?P<message>.*)", re.DOTALL),
    # Spark: logger, colon.
    re.compile(rf"(?:{_THREAD}[ \t]+)?(?P<logger>{_LOGGER}): (?P<message>.*)", re.DOTALL),
    # Kafka: message, logger in parentheses.
    re.compile(rf"(?P<message>.*) \((?P<logger>{_DOTTED_LOGGER})\)\s*$", re.DOTALL),
    # Logger, and the message was wrapped.
    re.compile(rf"(?P<logger>{_DOTTED_LOGGER})\s*(?P<context>\[\])?\s*-?\s*(?P<message>)$"),
)

WITHOUT_TIME = re.compile(rf"(?:{_BRACKETS}[ \t]+)?(?:{_TIME}[ \t]+)?")


def _anonymous(pattern: str) -> str:
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)


ANY_PREFIX = re.compile("|".join(f"(?P<{kind}>{_anonymous(each)})" for kind, each in _PREFIX_PATTERNS.items()))
"""Most lines have no prefix, and one match shows it; the group that matched is the prefix."""

EVENT_START = (
    r"^(?:\r?\[Stage [^\n]*\r *)?\x00*(?:\xef\xbb\xbf)?(?:\x1b\[[0-9;]*m)*(?:"
    + "|".join([r"\{\"log\":\"", *map(_anonymous, _PREFIX_PATTERNS.values())])
    + "){0,3}(?:"
    + "|".join(map(_anonymous, [*_LAYOUT_PATTERNS, JSON_START.pattern]))
    + ")"
)
"""For RE2, over lines of bytes that may still end in a line feed, and in which a hard space begins with \\xc2."""
