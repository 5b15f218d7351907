"""docs/commands.md: every command with its arguments and options, as `--help` has them."""

from collections.abc import Iterator
from typing import Any

import typer

from holdfast.cli.main import app
from holdfast.cli.run_options import OPTION_HELP, variable_of

_COMMANDS = """\
# Every command and option

{note}

What `--help` says of each command. What the commands are for, their exit codes and their JSON: [cli.md](cli.md). Each
option is also an environment variable: `HOLDFAST_` and its name for `run` (`HOLDFAST_INTERVAL`), with the command in
front of the name for other commands (`HOLDFAST_CHECKPOINTS_LIMIT`).

{commands}"""


def commands(note: str) -> str:
    root: Any = typer.main.get_command(app)
    return _COMMANDS.format(note=note, commands="\n".join(_sections("holdfast", root)))


def _sections(path: str, group: Any) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _sections(f"{path} {name}", command)
        else:
            yield _section(f"{path} {name}", command)


def _section(path: str, command: Any) -> str:
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    rows = [row for each in command.params if (row := _row(each)) is not None]
    table = "\n".join(["| option | what it does |", "|---|---|", *rows, ""])
    about = " ".join((command.help or "").split())
    return f"## `{path}`\n\n```text\n{path} {usage}\n```\n\n{about}\n\n{table}"


def _row(each: Any) -> str | None:
    if each.name == "help" or getattr(each, "hidden", False):
        return None
    if each.param_type_name == "argument":
        return f"| `{_escaped(each.metavar or each.name.upper())}` | {_escaped(each.help or '')} |"
    takes = "" if each.is_flag else f" {each.metavar or 'TEXT'}"
    variable = f" (`{each.envvar}`)" if each.envvar and each.envvar != variable_of(each.name) else ""
    same = each.name in OPTION_HELP or each.default in (None, False, "")
    default = "" if each.is_flag or same else f" Default: {getattr(each.default, 'value', each.default)}."
    return f"| `{_escaped(', '.join(each.opts) + takes)}` | {_escaped(each.help or '')}{default}{variable} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
