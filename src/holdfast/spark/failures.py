"""What Spark says of a failed task, in one line."""

import re


def one_line(error: Exception) -> str:
    """Of a text that may hold a Java and a Python traceback, the line that says what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"[A-Za-z_.]*(Error|Exception|Interrupt): ", line)]
    return python[-1] if python else next(iter(lines), type(error).__name__)
