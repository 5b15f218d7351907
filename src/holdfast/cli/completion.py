"""`holdfast completion`: a script with which a shell completes commands and options."""

import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from holdfast.errors import InvalidSettings

SHELLS = ("bash", "zsh", "fish", "powershell")
_VARIABLE = "_HOLDFAST_COMPLETE"

Shell = Annotated[
    str,
    typer.Argument(
        metavar="|".join(SHELLS), show_default=False, autocompletion=lambda: list(SHELLS), help="The shell."
    ),
]


def completion(shell: Shell) -> None:
    """Print a script that completes commands and options.

    bash: eval "$(holdfast completion bash)". The same line in ~/.bashrc or ~/.zshrc keeps it.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if shell not in SHELLS:
        raise InvalidSettings.of("shell", shell, f"must be one of {', '.join(SHELLS)}", hint="holdfast completion bash")
    sys.stdout.write(get_completion_script(prog_name="holdfast", complete_var=_VARIABLE, shell=shell) + "\n")


def is_asked_for(environment: Mapping[str, str]) -> bool:
    return _VARIABLE in environment


def prepare() -> None:
    """Lets this process answer a shell that asks for completions."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
