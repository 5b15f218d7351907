"""Writes docs/what-you-see.md: what a user sees in the terminal when a job is started, killed and stopped.

Real processes on a terminal of 100 columns. Places are named as on a server; nothing else is changed.
"""

import contextlib
import os
import pty
import re
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "what-you-see.md"
PATIENCE = 600.0
COLUMNS, ROWS = 100, 40
SHOWN_AS = "/srv"
COMMAND = "holdfast run orders.py --home file:///srv/home --sink delta:/srv/orders --work /srv/work --interval 5s"
PIPELINE = """\
def orders(spark):
    events = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    return events.selectExpr("value % 10 AS customer", "value", "timestamp")
"""
LIVING = re.compile(r"orders (●|✕|ending)|  (checkpoint|savepoint)( \d+)? of batch|  (critical|warning|info) |$")
"""Lines of the status below the log, which changes in place."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]")


class Terminal:
    """A process on its own terminal, and when each of its lines appeared."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.began = time.monotonic()
        self.pid, self._handle = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ |= {"TERM": "xterm", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
            os.execvp(command[0], command)
        self._text = ""
        self.lines: list[str] = []

    def until(self, reached: Callable[[str], bool]) -> None:
        """Read on until a line is reached, or the end."""
        deadline = time.monotonic() + PATIENCE
        seen = len(self.lines)
        while True:
            for line in self.lines[seen:]:
                if reached(line):
                    return
            seen = len(self.lines)
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(self.lines))
            if not self._read():
                return

    def _read(self) -> bool:
        if not select.select([self._handle], [], [], 1.0)[0]:
            return True
        data = b""
        with contextlib.suppress(OSError):  # the other side is closed
            data = os.read(self._handle, 1 << 16)
        self._text += data.decode(errors="replace")
        *whole, self._text = self._text.split("\n")
        passed = time.monotonic() - self.began
        for line in whole:
            last = ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2].rstrip()
            if not LIVING.match(last):
                self.lines.append(f"{int(passed) // 60}:{int(passed) % 60:02d}  {last}")
        return bool(data)

    def end(self) -> int:
        self.until(lambda line: False)
        os.close(self._handle)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Recording:
    def __init__(self, place: Path) -> None:
        self._place = place
        self._parts: list[str] = []

    def start(self) -> Terminal:
        holdfast = str(Path(sys.executable).with_name("holdfast"))
        return Terminal([holdfast, *COMMAND.replace(SHOWN_AS, str(self._place)).split()[1:]], self._place)

    def tell(self, title: str, words: str, *blocks: list[str]) -> None:
        shown = "\n".join(f"```text\n{self._shown(block)}\n```\n" for block in blocks)
        self._parts.append(f"## {title}\n\n{words}\n\n{shown}")

    def _shown(self, lines: list[str]) -> str:
        return "\n".join(lines).replace(str(self._place), SHOWN_AS).replace(os.uname().nodename, "server")

    def page(self) -> str:
        return _HEAD + "\n".join(self._parts)


_HEAD = f"""\
# What you see

<!-- Written by scripts/record_what_you_see.py from real processes. Run it again when `run` says something else. -->

One job on one machine, on a terminal of {COLUMNS} columns: started, killed, killed with its disk, its home taken
away and brought back, stopped. Each line begins with the time at which it appeared, in minutes and seconds
after the start of the process. A run is numbered by its entry in the journal, so the numbers have gaps. The live status
below these lines, which changes in place, is not shown. It looks like this:

```text
orders ●  batch 88 · 1,204 rows/s · checkpoint 41 21.0s ago · published up to 80
  checkpoint 42 of batch 88: copying █████░░░░░░░░░░░░░░░ 1 of 4 shards, 2.5s
```

"""


def completed(number: int) -> Callable[[str], bool]:
    return lambda line: f"checkpoint {number} " in line and "completed" in line


def record(place: Path) -> str:
    (place / "home").mkdir()
    (place / "orders.py").write_text(PIPELINE)
    recording = Recording(place)

    first = recording.start()
    first.until(completed(2))
    os.kill(first.pid, signal.SIGKILL)
    first.end()
    recording.tell("The first start", "The home is an empty directory.", [f"$ {COMMAND}", *first.lines])

    second = recording.start()
    second.until(completed(4))
    recording.tell(
        "Killed, and started again",
        "`kill -9`, then the same command.",
        [f"$ kill -9 {first.pid}", f"$ {COMMAND}", *second.lines],
    )

    os.kill(second.pid, signal.SIGKILL)
    second.end()
    shutil.rmtree(place / "work")
    third = recording.start()
    third.until(completed(5))
    restored = list(third.lines)
    recording.tell(
        "Killed, and its disk lost",
        "The same command on an empty disk: the state comes back from the home.",
        [f"$ kill -9 {second.pid}; rm -r work", f"$ {COMMAND}", *restored],
    )

    (place / "home").rename(place / "away")
    for _ in range(2):
        third.until(lambda line: ": checkpoint failed" in line)
    (place / "away").rename(place / "home")
    third.until(lambda line: "is over" in line)
    outage = third.lines[len(restored) :]
    recording.tell(
        "An outage", "`mv home away`; after two failures `mv away home`. The process is the same one.", outage
    )

    before = len(third.lines)
    os.kill(third.pid, signal.SIGINT)
    code = third.end()
    recording.tell("A stop", "Ctrl-C.", [*third.lines[before:], "$ echo $?", str(code)])
    return recording.page()


def main() -> int:
    place = Path(tempfile.mkdtemp(prefix="holdfast-record-"))
    try:
        page = record(place)
    finally:
        shutil.rmtree(place)
    (Path(sys.argv[1]) if sys.argv[1:] else PAGE).write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
