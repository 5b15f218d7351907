"""Help in groups, as plain text no wider than the terminal: what matters comes first."""

from collections.abc import Iterable, Iterator
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

_OPTIONS, _ARGUMENTS, _COMMANDS = "Options", "Arguments", "Commands"


class GroupedCommand(TyperCommand):
    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(_usage(each) for each in self.get_params(ctx) if isinstance(each, TyperArgument))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_groups(_options(self.get_params(ctx), ctx), formatter)


class GroupedCommands(TyperGroup):
    def format_options(self, ctx: Any, formatter: Any) -> None:
        limit = formatter.width - 6 - max((len(name) for name in self.list_commands(ctx)), default=0)
        _write_groups([*self.lines(ctx, limit), *_options(self.get_params(ctx), ctx)], formatter)

    def lines(self, ctx: Any, limit: int) -> Iterator[tuple[str, tuple[str, str]]]:
        """Of each command its group, its name, and what it does, not longer than `limit`."""
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield _panel(command, _COMMANDS), (name, command.get_short_help_str(limit))


def _usage(argument: TyperArgument) -> str:
    name = _name(argument)
    return name if argument.required else f"[{name}]"


def _name(argument: TyperArgument) -> str:
    dots = "..." if argument.nargs != 1 else ""
    return (argument.metavar or str(argument.name).upper()) + dots


def _options(parameters: Iterable[Any], ctx: Any) -> list[tuple[str, tuple[str, str]]]:
    rows: list[tuple[str, tuple[str, str]]] = []
    prefix, ctx.auto_envvar_prefix = ctx.auto_envvar_prefix, None  # that every option has a variable, is said once
    try:
        for each in parameters:
            if isinstance(each, TyperArgument):
                rows.append((_ARGUMENTS, (_name(each), each.help or "")))
            elif (record := each.get_help_record(ctx)) is not None:
                rows.append((_panel(each, _OPTIONS), record))
    finally:
        ctx.auto_envvar_prefix = prefix
    return rows


def _panel(each: Any, default: str) -> str:
    return getattr(each, "rich_help_panel", None) or default


def _write_groups(rows: Iterable[tuple[str, tuple[str, str]]], formatter: Any) -> None:
    groups: dict[str, list[tuple[str, str]]] = {}
    for panel, row in rows:
        groups.setdefault(panel, []).append(row)
    general = groups.pop(_OPTIONS, None)
    if general is not None:
        groups[_OPTIONS] = general  # `--json` and `--help` are known to everybody
    for panel, records in groups.items():
        with formatter.section(panel):
            formatter.write_dl(records)
