"""Which job, task and checkpoint the text of an event mentions."""

import re

_JOB_DIGITS = 32
_HEX = rf"[0-9a-f]{{{_JOB_DIGITS}}}"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_JOB = re.compile(rf"[Jj]ob(?:ID|Id|-id|_id)?[ _=:'\"(]{{1,3}}({_HEX})|[Jj]ob [^()]{{1,200}}\(({_HEX})\)")
_BELOW_A_JOB = ("/chk-", "/shared", "/taskowned", "/savepoint")
_JOB_ID = re.compile(_HEX)
_QUERY = re.compile(rf"\bid = ({_UUID})|[qQ]uery[Ii]d[=: ]+({_UUID})|query_id[=: \"]+({_UUID})")
_CHECKPOINT = re.compile(
    r"\b[Cc]heckpoint (?:(?:ID|id|#) ?)?(\d{1,18})\b|\bchk-(\d{1,18})\b"
    r"|\b[Cc]heckpoint(?:Id|ID| [Ii]d)? ?[=:] ?(\d{1,18})\b"
    r"|\bsnapshot (\d{1,18}) for operator"
)
_SUBTASK = re.compile(r"\((\d+/\d+)\)")
_STAGE = re.compile(r"\btask (\d+)\.\d+ in (stage \d+\.\d+)")
_LEAD_INS = ("for operator ", "backend for ", "task ", "Task ", "resources for ")
_LOOKED_AT = 4_000
_TASK_CHARACTERS = 300

_HOST_IN_PATH = re.compile(
    r"/pods/[^_/]+_([^_/]+)_|/containers/([^_/]+)_|flink-[^-/]+-[a-z]+-\d+-([^/]+?)\.(?:log|out)(?:\.|$)"
)


def job_of(text: str) -> str | None:
    text = text[:_LOOKED_AT]
    if "ob" not in text and "chk-" not in text and "uery" not in text and "id = " not in text:
        return None
    return _first(_JOB, text) or _job_in_path(text) or _first(_QUERY, text)


def _job_in_path(text: str) -> str | None:
    for part in _BELOW_A_JOB:
        place = text.find(part)
        while place >= 0:
            if (found := _JOB_ID.fullmatch(text, max(0, place - _JOB_DIGITS), place)) is not None:
                return found[0]
            place = text.find(part, place + 1)
    return None


def checkpoint_of(text: str) -> int | None:
    found = _first(_CHECKPOINT, text[:_LOOKED_AT])
    return None if found is None else int(found)


def task_of(text: str) -> tuple[str | None, str | None]:
    """Name and subtask: Flink's `Source: orders (3/8)`, Spark's `task 3.0 in stage 12.0`."""
    text = text[:_LOOKED_AT]
    if (found := _SUBTASK.search(text)) is not None:
        name = _name_at_end(text[: found.start()])
        return (name[:_TASK_CHARACTERS] or None), found[1]
    if (stage := _STAGE.search(text)) is not None:
        return stage[2], stage[1]
    return None, None


def _name_at_end(text: str) -> str:
    start = text.find("Source: ")
    if start < 0:
        start = max((text.rfind(lead) + len(lead) for lead in _LEAD_INS if lead in text), default=0)
    return text[start:].strip(" .,:-")


def host_in_path(source: str) -> str | None:
    """Kubernetes names log files after the pod, Flink's scripts after the host."""
    return _first(_HOST_IN_PATH, source)


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return next((group for group in found.groups() if group is not None), None) if found else None
