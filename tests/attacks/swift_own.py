"""As `swift`, with a writer of the user's own, whose sink is put back to older copies and versions, too.

python -m tests.attacks.swift_own --minutes 10 [--seed N]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from holdfast.errors import HoldfastError
from tests.attacks.engine import Row
from tests.attacks.mortal import Mortal
from tests.attacks.own_sinks import EMPTY, Kind, OwnQuery, OwnSink
from tests.attacks.swift import Swift, main
from tests.attacks.world import Broken, World
from tests.unit.churning_runs import JOB


class OwnWorld(World):
    own: OwnSink

    def rows(self) -> list[Row]:
        return self.own.rows()


class RefusedForGood(Exception):
    """Rightly: what is needed is not there any more, and was not promised."""


class SwiftOwn(Swift):
    def __init__(self, root: Path, seed: int) -> None:
        super().__init__(root, seed)
        self.kind: Kind = self.random.choice(get_args(Kind))
        self.plans = self.random.choice(["require", "require", "prefer"])
        self.skips_empty = self.random.random() < 0.5
        self.own = OwnSink(self.kind, self.world.place, skips_empty=self.skips_empty)
        self.world.own = self.own
        self.copies: list[bytes] = []
        """Of the sink, at some time."""
        self.before: tuple[bytes, bytes] | None = None
        """What the sink had before somebody put something older back, and that."""
        self.taken_back = False
        if self.kind not in ("blind", "upsert"):
            self.kinds += " sink" * 6
        if self.kind == "file":
            self.kinds = self.kinds.replace("rescale", "wipe")  # it needs an entry of each batch, and says so
        self.tell(f"own writer: {self.kind}, plans {self.plans}, skips empty batches: {self.skips_empty}")

    world: OwnWorld

    def _world(self, root: Path, seed: int) -> OwnWorld:
        return OwnWorld(root, seed, "own", job=JOB)

    def _options(self) -> dict[str, Any]:
        return {}

    def live(self, batches: int, *, mortal: Mortal, stops: bool, **options: Any) -> None:
        super().live(batches, mortal=mortal, stops=stops, plans=self.plans, **options)

    def _query(self, mortal: Mortal, options: Mapping[str, Any]) -> OwnQuery:
        own = OwnSink(self.kind, self.world.place, skips_empty=self.skips_empty, step=mortal)
        return OwnQuery(own, options, self.world.source, mortal, self.random.choice([1, 1, 2, 5]))

    # The sink

    def acts(self, mortal: Mortal) -> dict[str, Callable[[], None]]:
        return {**super().acts(mortal), "sink": self.sink}

    def sink(self) -> None:
        """Somebody copies it, puts a copy back, or restores an older version of the table."""
        if not self.own.file.exists():
            return
        now = self.own.file.read_bytes()
        if self._as_put_back() or self.random.random() < 0.3:
            self.copies.append(now)
            return
        if self.kind in ("delta", "iceberg") and self.random.random() < 0.7:
            self.tell("an older version of the table is restored")
            self.own.restore(self.random.choice([at for at, _ in self.own.shown()]))
        elif self.copies:
            self.tell("the sink is put back to an older copy")
            self.own.file.write_bytes(self.random.choice(self.copies))
        self.before = now, self.own.file.read_bytes()
        self.world.may_go_back = True

    def _as_put_back(self) -> bool:
        """No batch was written since."""
        return self.before is not None and self.own.file.exists() and self.own.file.read_bytes() == self.before[1]

    def _refused(self, error: HoldfastError) -> None:
        hint = error.hint or ""
        if found := re.search(r"TAKE BACK TO (\d+)|empty it", hint):
            self._take_back(None if found[1] is None else int(found[1]))
        elif self._as_put_back() and error.exit_code == 2:
            assert self.before is not None
            self.tell("the newest sink is put back")
            self.own.file.write_bytes(self.before[0])
            self.before = None
        elif self.kind == "upsert" and "--repeats accept" in hint and "repeats" not in self.follow:
            self.follow["repeats"] = "accept"
        else:
            try:
                super()._refused(error)
            except Broken:
                if self.plans == "require" and not self.copied and not self.taken_back:
                    raise
                raise RefusedForGood from None

    def _take_back(self, version: int | None) -> None:
        self.tell(f"the table is taken back to version {version}")
        self.taken_back = self.world.may_go_back = True
        before = self.before[0] if self.before is not None and self._as_put_back() else self.own.file.read_bytes()
        if version is None:
            self.own.file.write_bytes(EMPTY)
        else:
            self.own.restore(version)
        self.before = before, self.own.file.read_bytes()

    def heal(self) -> None:
        super().heal()
        self.hurt = []

    def play(self) -> None:
        try:
            super().play()
        except RefusedForGood:
            self.tell("refused for good")


if __name__ == "__main__":
    sys.exit(main(SwiftOwn))
