"""The command's first instructions: a signal ends it with one line while everything else is still imported.

Imports nothing but what the interpreter has loaded. Nothing has been begun yet, so there is nothing to unwind.
"""

import _signal as signal  # type: ignore[import-not-found]  # the interpreter's own; `signal` is read from a file
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    from holdfast.cli.main import main as command

    return command()


def _end(number: int, frame: "FrameType | None") -> None:
    os.write(2, b"holdfast: interrupted\n")
    os._exit(128 + number)
