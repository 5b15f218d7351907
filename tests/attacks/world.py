"""The places of one job, its lives, and the answer computed another way."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.attacks.engine import transformed
from tests.attacks.life import command, live, rescaled

FORKS = multiprocessing.get_context("forkserver")
# What takes long to import is imported once. None of it starts a thread.
FORKS.set_forkserver_preload(["tests.attacks.life", "holdfast.cli.main", "holdfast.sinks.delta", "deltalake"])

KILLED = -signal.SIGKILL
OPTIONS = {
    "interval": "100ms",
    "heartbeat": "200ms",
    "restart_delay": "20ms",
    "restart_attempts": 4,
    "grace": "0s",
    "storage_deadline": "3s",
    "stop_timeout": "60s",
}


class Broken(AssertionError):
    """An attack succeeded."""


@dataclass
class Trouble:
    """What an outsider did that a start may refuse."""

    name: str
    codes: frozenset[int]
    undo: Callable[[], None]
    ways: tuple[dict[str, Any], ...] = ()
    """Options with which a start must go on, exactly."""


class Life:
    def __init__(self, world: World, given: dict[str, Any]) -> None:
        self._answer = world.root / f"answer-{world.number}.json"
        self._process = FORKS.Process(target=live, args=(given, self._answer, world.log), daemon=True)
        self._process.start()
        self.given = given

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def wait_for_steps(self, more: int) -> None:
        """Until it has taken so many more steps, has ended, or takes none for a while."""
        file = self._answer.with_suffix(".steps")
        taken = self._taken(file)
        deadline = time.monotonic() + 10
        while self.alive and self._taken(file) < taken + more and time.monotonic() < deadline:
            time.sleep(0.005)

    @staticmethod
    def _taken(file: Path) -> int:
        return file.stat().st_size if file.exists() else 0

    def send(self, number: int) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def end(self, patience: float = 600) -> tuple[int, str]:
        self._process.join(patience)
        code = self._process.exitcode
        if code is None:
            os.kill(self.pid, signal.SIGKILL)
            self._process.join()
            raise Broken(f"a life did not end within {patience:g} s")
        if code == KILLED:
            return KILLED, "killed"
        if not self._answer.exists():
            return code, "no answer"
        try:
            told = json.loads(self._answer.read_text())
        except ValueError:
            return code, "no answer"
        if told["code"] == 99:
            raise Broken(f"a life ended with a traceback: {told['message']}")
        return told["code"], told["message"]


@dataclass
class World:
    root: Path
    seed: int
    sink: str
    homes: Callable[[str], str] | None = None
    """The URL of a home of that name in a store; None for directories."""
    job: str = "orders"
    fed: int = 0
    number: int = 0
    wiped: set[int] = field(default_factory=set)
    """Ids of rows that others deleted: they may be there, or not."""
    shown: set[int] = field(default_factory=set)
    """Ids that a reader has seen, and that nobody has asked to take back."""
    may_go_back: bool = False
    """Somebody asked for an older checkpoint, or put something older back, since `shown` was noted."""
    may_lack_checkpoints: bool = False
    """Somebody damaged the home or asked for an older checkpoint."""
    troubles: list[Trouble] = field(default_factory=list)
    excused: set[int] = field(default_factory=set)
    """How the life that runs may end because of what is done to it meanwhile."""
    asked_to_stop: bool = False
    """The life that runs need not come to the end of its input."""
    next_options: dict[str, Any] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    clones: dict[str, Path] = field(default_factory=dict)
    small_objects: dict[str, list[bytes]] = field(default_factory=dict)
    """By name, what stood in a home at some time."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.places = self.root / "places"
        self.work, self.place, self.source = (self.places / name for name in ("work", "out", "in"))
        self.log = self.root / "log"
        for path in (self.source, self.work):
            path.mkdir(parents=True, exist_ok=True)
        self.home = self.new_home("home")
        self._sizes = random.Random(self.seed + 1)
        self.answer: list[dict[str, int]] = []

    def new_home(self, name: str) -> str:
        if self.homes is not None:
            return self.homes(f"{self.seed}-{self.root.parent.name}/{name}")
        (self.places / name).mkdir()
        return f"file://{self.places / name}"

    @property
    def home_directory(self) -> Path | None:
        return Path(self.home.removeprefix("file://")) if self.home.startswith("file://") else None

    def tell(self, line: str) -> None:
        self.story.append(line)
        with self.log.open("a") as log:
            log.write(f"=== {line}\n")

    def feed(self, files: int) -> None:
        """Input files become visible whole."""
        for _ in range(files):
            ids = [self.fed * 100 + n for n in range(self._sizes.choice([0, 1, 2, 3, 7]))]
            before, total = (self.answer[-1]["before"] + 1, self.answer[-1]["total"]) if self.answer else (0, 0)
            self.answer += transformed(ids, before, total)
            path = self.source / f"{self.fed:06d}.json"
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(ids))
            temporary.rename(path)
            self.fed += 1

    def start(self, *, ends: bool = False, **other: Any) -> Life:
        self.number += 1
        options = {**OPTIONS, **self.next_options, **other.pop("options", {})}
        given = {
            "job": self.job,
            "home": self.home,
            "work": str(self.work),
            "sink": self.sink,
            "place": str(self.place),
            "source": str(self.source),
            "ends": ends,
            "per_batch": self.random.choice([1, 1, 2, 5]),
            "pause": self.random.choice([0.0, 0.0, 0.01, 0.05]),
            "options": options,
            **other,
        }
        shown = {k: v for k, v in options.items() if OPTIONS.get(k) != v}
        self.tell(f"start {self.number} ends={ends} {shown} {other}")
        return Life(self, given)

    def command(self, *arguments: str, patience: float = 600, kill_after: float | None = None) -> tuple[int, str]:
        self.number += 1
        output = self.root / f"output-{self.number}"
        process = FORKS.Process(target=command, args=(list(arguments), output, self.log), daemon=True)
        process.start()
        process.join(kill_after if kill_after is not None else patience)
        if process.exitcode is None:
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            if kill_after is None:
                raise Broken(f"holdfast {' '.join(arguments)} did not end within {patience:g} s")
        text = output.read_text() if output.exists() else ""
        code = process.exitcode
        assert code is not None
        self.tell(f"holdfast {' '.join(arguments)} -> {code}")
        if code == 99 or "Traceback" in text or "internal error" in text:
            raise Broken(f"holdfast {' '.join(arguments)}: a traceback or an internal error; see {self.log}")
        return code, text

    def rescaled(self, dies_at: int | None, times: int) -> list[int]:
        """`holdfast rescale`, so often at once; the first one dies at that step."""
        self.number += 1
        processes = []
        for number in range(times):
            scratch = self.root / f"scratch-{self.number}-{number}"
            given = (self.home, self.job, str(scratch), dies_at if number == 0 else None, self.log)
            processes.append(FORKS.Process(target=rescaled, args=given, daemon=True))
            processes[-1].start()
        for process in processes:
            process.join(600)
        codes = [process.exitcode for process in processes]
        self.tell(f"rescale dies_at={dies_at} -> {codes}")
        return [98 if code is None else code for code in codes]

    def of_job(self, *arguments: str, **how: Any) -> tuple[int, str]:
        return self.command(*arguments, "--home", self.home, "--job", self.job, **how)

    def checkpoints(self) -> list[dict[str, Any]]:
        code, text = self.of_job("checkpoints", "--json", "--limit", "1000")
        return json.loads(text)["checkpoints"] if code == 0 else []

    # What readers see

    def rows(self) -> list[dict[str, int]]:
        if self.sink == "delta":
            if not DeltaTable.is_deltatable(str(self.place)):
                return []
            rows = DeltaTable(str(self.place)).to_pyarrow_table().to_pylist()
        else:
            rows = []
            for path in sorted(self.place.glob("*.parquet")):
                try:
                    rows += pq.read_table(path).to_pylist()
                except FileNotFoundError:  # it is being rewound
                    continue
        return [row for row in rows if row["id"] >= 0]

    def check(self, *, clean: bool = False, whole: bool = False) -> None:
        """No row twice, none that is wrong; after a clean end a beginning of the answer, at the very end all of it."""
        rows = self.rows()
        counted = Counter(row["id"] for row in rows)
        twice = sorted(number for number, times in counted.items() if times > 1)
        if twice:
            raise Broken(f"{len(twice)} rows are visible twice: {twice[:10]}")
        right = {row["id"]: row for row in self.answer}
        wrong = [row for row in rows if right.get(row["id"]) != row]
        if wrong:
            raise Broken(f"{len(wrong)} rows are wrong: {wrong[:3]}")
        visible = set(counted)
        if not self.may_go_back and (lost := self.shown - visible - self.wiped):
            raise Broken(f"{len(lost)} rows that readers had seen are gone: {sorted(lost)[:10]}")
        if clean or whole:
            ids = [row["id"] for row in self.answer]
            upto = max((at + 1 for at, number in enumerate(ids) if number in visible), default=0)
            upto = len(ids) if whole else upto
            if missing := [number for number in ids[:upto] if number not in visible and number not in self.wiped]:
                raise Broken(f"{len(missing)} of {upto} rows are missing: {missing[:10]}")
            self.may_go_back = False
            self.shown = visible
        elif not self.may_go_back:
            self.shown = visible

    def check_checkpoints(self) -> None:
        if self.may_lack_checkpoints or self.troubles:
            return
        bad = [c for c in self.checkpoints() if c["corrupt"] or c["abandoned"]]
        if bad:
            raise Broken(f"a sound checkpoint was given up: {bad[0]}")

    # Backups

    def clone(self, what: Path, name: str) -> Path:
        """A copy such as a backup, or the tool of a person, makes it. In no hurry: nothing runs."""
        to = self.root / "clones" / f"{name}-{self.number}-{len(self.story)}"
        to.parent.mkdir(exist_ok=True)
        if what.exists():
            shutil.copytree(what, to, symlinks=True)
        else:
            to.mkdir()
        return to

    def put(self, clone: Path, at: Path) -> Path:
        """Put a copy in the place of what is there, which is kept."""
        kept = self.root / "clones" / f"kept-{at.name}-{self.number}-{len(self.story)}-{random.random()}"
        if at.exists():
            shutil.move(at, kept)
        shutil.copytree(clone, at, symlinks=True)
        return kept
