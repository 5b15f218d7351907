"""Spark's error about a failed task, in one line."""

import re


def one_line(error: Exception) -> str:
    """The line that names the error, from a text that may contain Java and Python tracebacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception|Interrupt): ", line)]
    return python[-1] if python else next(iter(lines), type(error).__name__)
