"""A job on this host, driven step by step: the real runtime on real directories, with a state file."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.main import main
from holdfast.repository.ownership import current_process
from holdfast.repository.self_report import LocalState, read_local_state, write_local_state
from tests.unit.churning_runs import JOB, ChurningRun, ManualClock


class SharedClock(ManualClock):
    """Begins with that of this host."""

    def __init__(self) -> None:
        self._began, self._wall = time.monotonic(), datetime.now(UTC)
        self.now = self._began

    def wall(self) -> datetime:
        return self._wall + timedelta(seconds=self.now - self._began)


class Here:
    def __init__(self, root: Path, **settings: object) -> None:
        self.home, self.work = root / "home", root / "work"
        self.home.mkdir()
        self.clock = SharedClock()
        # A machine may be so slow that much of a heartbeat's life passes between two lines of a test.
        chosen = {"heartbeat": "60s", **settings}
        self.run = ChurningRun(self.home, self.work, self.clock, process=current_process(), **chosen)  # type: ignore[arg-type]

    @property
    def state_file(self) -> Path:
        return self.work / JOB / "state.json"

    def state(self) -> LocalState:
        state = read_local_state(self.state_file)
        assert state is not None
        return state

    def fail(self, failures: int) -> None:
        """The home is full from here on."""
        self.run.store.full = True
        while self.state().report.consecutive_failures < failures:
            self.run.query.batch()
            self.run.wait(1.25)

    def change(self, **fields: Any) -> None:
        write_local_state(self.state_file, msgspec.structs.replace(self.state(), **fields))

    def command(self, name: str, *more: str) -> int:
        return main([name, "--home", f"file://{self.home}", "--job", JOB, *more])

    def probe(self, *more: str) -> int:
        return self.command("status", "--live", "--work", str(self.work), *more)
