"""Pages of docs/ that list names of the code: settings and errors."""

import dataclasses
import re

from holdfast import errors
from holdfast.cli.run_options import OPTION_HELP
from holdfast.settings import Settings

_SETTINGS = """\
# Settings

{note}

Every option of `holdfast.run` and `holdfast.start`, as a keyword or as a field of `holdfast.Settings`; `holdfast run`
has those with a flag. Durations are texts such as `"500ms"`, `"10s"`, `"5m"`, or a `timedelta`. A wrong value is an
`InvalidSettings` that names the field, the value and the rule, before anything is touched.

Most jobs set four: `interval`, `work`, `retained` and `alarms`.

| option | flag | default | what it does |
|---|---|---|---|
{rows}
"""

_ERRORS = """\
# Errors

{note}

Every exception that holdfast raises is a `holdfast.HoldfastError`. It has `message`, `hint` (what to try, or None) and
`exit_code`, with which the command line ends, and a script that does not catch it. All are names of `holdfast`:
`except holdfast.OwnedByAnotherRun`.

| exception | is a | exit code | meaning |
|---|---|---|---|
{rows}
"""

_IN_TREE = re.compile(r"^[ │├└─]*(\w+) +(?:exit \d)? *(.*)$", re.MULTILINE)
_PYTHON_ONLY = {
    "spark": "The Spark session to use; one is made when it is absent.",
    "sink_position": "For your own writer: a function that returns the newest batch id that it has written, or None.",
    "alarms": "Who gets alarms: URLs and functions. On the command line `--alarm`, which may be repeated.",
}


def settings(note: str) -> str:
    rows = [_setting(field) for field in dataclasses.fields(Settings)]
    return _SETTINGS.format(note=note, rows="\n".join(rows))


def _setting(field: dataclasses.Field[object]) -> str:
    default = field.default
    shown = "" if default is None or default == () else f"`{default}`"
    name = field.name
    flag = f"`--{name.replace('_', '-')}`" if name in OPTION_HELP else ""
    return f"| `{name}` | {flag} | {shown} | {OPTION_HELP.get(name) or _PYTHON_ONLY[name]} |"


def errors_page(note: str) -> str:
    meanings = dict(_IN_TREE.findall(errors.__doc__ or ""))
    rows = [_error(kind, meanings.get(kind.__name__, "")) for kind in _kinds(errors.HoldfastError)]
    return _ERRORS.format(note=note, rows="\n".join(rows))


def _kinds(kind: type[errors.HoldfastError]) -> list[type[errors.HoldfastError]]:
    children = [
        each for each in kind.__subclasses__() if each.__bases__[0] is kind and each.__module__ == errors.__name__
    ]
    below = [each for child in children for each in _kinds(child)]
    return [kind, *below]


def _error(kind: type[errors.HoldfastError], meaning: str) -> str:
    parents = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
    return f"| `{kind.__name__}` | {parents} | {kind.exit_code} | {meaning or 'everything below'} |"
