"""Many short worlds in one process: the real runtime, sinks and directories on a clock of its own, and deaths at any
step or operation of the store. What needs real processes is in `play`.

    python -m tests.attacks.swift --minutes 10 [--seed N]
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.identifiers import AttemptId, Sequence
from holdfast.repository.damage import mark_repaired
from holdfast.repository.entries import Process
from holdfast.repository.going_back import Wanted, reachable, request_rollback
from holdfast.repository.journal import read_entries
from holdfast.repository.mailbox import Request, RequestKind, place_request
from holdfast.repository.state import JobState
from holdfast.repository.verification import verify
from holdfast.runtime.commands.copying import Copy, JobHome
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.commands.rescaling import examine, rescale
from holdfast.runtime.run.environment import Environment
from holdfast.sinks import Delta, Files
from holdfast.workdir.factory import work_directory
from tests.attacks.engine import Engine, use_instead_of_spark
from tests.attacks.mortal import Killed, Mortal, MortalStore, SwiftQuery
from tests.attacks.world import Broken, World
from tests.unit.churning_runs import JOB, ChurningRun, ManualClock, Watch, WatchedStore


class JumpingClock(ManualClock):
    """Its time of day jumps; what it measures does not."""

    jumped = timedelta()

    def wall(self) -> datetime:
        return super().wall() + self.jumped


class Flaky:
    """Refuses every create of such objects for a while, now and then."""

    def __init__(self, random: Random, prefix: str) -> None:
        self._random, self._prefix, self._left = random, prefix, 0

    def __call__(self, key: str, data: bytes) -> bool:
        if not self._prefix or not key.startswith(self._prefix):
            return False
        if not self._left and self._random.random() < 0.2:
            self._left = self._random.choice([1, 3, 10])
        self._left -= self._left > 0
        return self._left > 0


class Swift:
    """One world. Places, rows and what is right are those of `World`."""

    def __init__(self, root: Path, seed: int) -> None:
        self.world = self._world(root, seed)
        self.random, self.clock, self.number = Random(seed), JumpingClock(), 0
        self.unit: dict[str, Any] = {}
        """Options that a supervisor gives each time."""
        self.follow: dict[str, Any] = {}
        """Options of a hint."""
        self.hurt: list[tuple[Path, bytes]] = []
        self.backup: dict[str, Path] = {}
        self.backups = 0
        self.requests: list[Request] = []

    def _world(self, root: Path, seed: int) -> World:
        return World(root, seed, "delta" if seed % 2 else "files", job=JOB)

    def _query(self, mortal: Mortal, options: Mapping[str, Any]) -> SwiftQuery:
        sink = (Delta if self.world.sink == "delta" else Files)(self.world.place, step=mortal)
        return SwiftQuery(sink, self.world.source, mortal, self.random.choice([1, 1, 2, 5]))

    @property
    def home(self) -> Path:
        assert self.world.home_directory is not None
        return self.world.home_directory

    def tell(self, line: str) -> None:
        self.world.tell(line)

    def _around(self, mortal: Mortal) -> Environment:
        self.number += 1
        number, made = self.number, iter(range(100_000))
        return Environment(
            self.clock,
            Process("here", number),
            lambda: AttemptId(f"{number}-{next(made)}"),
            lambda: 0.5,
            mortal,
            1,
            sleep=self.clock.sleep,
        )

    def _mortal(self, most: int, share: float) -> Mortal:
        return Mortal(self.random.randrange(1, most) if self.random.random() < share else None)

    def state(self) -> JobState:
        return JobState.of(read_entries(MortalStore(self.home, Mortal(None)), readers=1))

    def usable(self) -> list[int]:
        return [entry.id for entry in self.state().restorable()]

    # Lives

    def live(self, batches: int, *, mortal: Mortal, stops: bool, **options: Any) -> None:
        """Raises `Killed` or `HoldfastError`."""
        self.number += 1
        chosen = {"retained": 3, "heartbeat": "10s", **self.unit, **options, **self.follow}
        self.tell(f"start {self.number}, {batches} batches, stops={stops} {chosen}")
        flaky = Flaky(self.random, self.random.choice(["", "", "plans/", "journal/", "packs/"]) if self.flaky else "")
        query = self._query(mortal, chosen)

        class Run(ChurningRun):
            @staticmethod
            def stores(home: Path, watch: Watch) -> WatchedStore:
                store = MortalStore(home, mortal)
                store.refuses = flaky
                return store

        run = Run(self.home, self.world.work, self.clock, self.number, step=mortal, query=query, **chosen)  # type: ignore[arg-type]
        for _ in range(batches):
            if run.over or not query.batch():
                break
            if self.random.random() < 0.1:
                self.jump()
            if self.random.random() < 0.1 and self.flaky:
                self.ask()
            run.wait(self.random.choice([0.25, 1.25, 3.0, 11.0]))
            self.world.check()
        run.wait(0.25)
        if stops and not run.over:
            run.runtime.stop(None, lambda answer: None)
            run.settle()
            while not run.over:
                run.wait(1.0)
        if run.failure is not None:
            raise run.failure

    def round(self) -> None:
        self.world.feed(self.random.randrange(1, 6))
        mortal, stops = self._mortal(120, 0.45), self.random.random() < 0.5
        options = {"interval": self.random.choice(["1s", "1s", "1h"]), **self._options()}
        self._started(self.random.choice([0, 1, 2, 4, 9]), mortal=mortal, stops=stops, **options)

    def _options(self) -> dict[str, Any]:
        """Of a round."""
        if self.random.random() < 0.5:
            return {}
        plans, target = self.random.choice(["prefer", "require"]), self.random.choice(["off", "5m", "1s"])
        return {"publish": "batch", "plans": plans, "recovery_target": target}

    def _started(self, batches: int, **how: Any) -> bool:
        """Whether it began and was not refused."""
        before = self.state() if self.home.joinpath(JOB).exists() else JobState()
        try:
            self.live(batches, **how)
        except Killed as killed:
            self.tell(f"dies at {killed}")
            # A file of a batch that is being published may be seen before the batch is; then it is taken back.
            self.world.may_go_back |= str(killed).startswith("publish:")
        except HoldfastError as error:
            self.tell(f"{type(error).__name__}: {error} | Try: {error.hint}")
            self._refused(error)
            self.world.check()
            return False
        self._require_none_given_up(before)
        self.world.check(clean=how["stops"] and not how["mortal"].dead)
        if how["stops"] and not how["mortal"].dead:
            self.follow = {}
        return True

    def _require_none_given_up(self, before: JobState) -> None:
        after = self.state()
        given_up = after.abandoned - before.abandoned
        done = after.went_back is not None and after.went_back != before.went_back
        if given_up and not done and not self.hurt:
            raise Broken(f"sound checkpoints were given up: {given_up}")
        if done and before.rollback is None and not self._asked(before):
            raise Broken(f"nobody asked to go back, and it did: {after.went_back}")

    def _asked(self, before: JobState) -> bool:
        return "from_checkpoint" in self.unit and self.new_in_unit

    new_in_unit = False
    copied = False
    flaky = True
    """Until all must come to its end."""

    def _refused(self, error: HoldfastError) -> None:
        hint = error.hint or ""
        if "start it with --publish batch" in hint:
            self.follow["publish"] = "batch"
        elif "--accept-older-home" in hint and self.copied:
            self.follow["accept_older_home"] = True
            self.world.may_go_back = True
        elif "rollback" in hint and "--cancel" in hint:
            self.rollback(None, Mortal(None))
        elif "from_checkpoint" in self.unit and self.new_in_unit:
            self.unit = {}
        elif self.hurt and error.exit_code in (2, 4):
            self.heal()
        elif error.exit_code in (1, 5, 6):
            return
        else:
            raise Broken(f"refused without a reason: {type(error).__name__}: {error} | Try: {error.hint}")

    # Acts

    def rollback(self, to: int | None, mortal: Mortal) -> None:
        self.tell(f"rollback {to}")
        store = MortalStore(self.home, mortal)
        with (
            suppress(Killed, HoldfastError),
            maintenance(JOB, self.world.home, store, "roll back", self._around(mortal), on_conflict="takeover") as own,
        ):
            target = None if to is None else reachable(own.state, Wanted(checkpoint=to))
            request_rollback(own, None if target is None else target.id)

    def rollback_to_any(self, mortal: Mortal) -> None:
        if ids := self.usable():
            self.world.may_go_back = True
            self.rollback(self.random.choice(ids), mortal)

    def rescale(self, mortal: Mortal) -> None:
        store = MortalStore(self.home, mortal)
        target = JobHome(JOB, self.world.home, store)
        scratch = self.world.root / f"scratch-{self.number}"
        engine = Engine(None, Path(), lambda _: None, ends=True, per_batch=1, pause=0)
        try:
            entry = rescale(
                target,
                examine(target, self.state()),
                7,
                work_directory(scratch),
                lambda directory, barrier: engine.repartitioned(scratch, barrier),
                lambda title, size: nullcontext(lambda count: None),
                self._around(mortal),
            )
            self.tell(f"rescaled as {entry.id} at batch {entry.barrier_batch_id}")
        except Killed as killed:
            self.tell(f"rescale dies at {killed}")
        except HoldfastError as error:
            self.tell(f"rescale: {error}")
            if error.exit_code == 4 and not self.hurt:
                raise Broken(f"rescale of a sound job: {error}") from error

    def copy(self, mortal: Mortal) -> None:
        """To another home, which goes on alone, over a work directory of its own or none."""
        if self.hurt:
            return
        to = self.world.root / "places" / f"home-{self.number}"
        to.mkdir()
        source = JobHome(JOB, self.world.home, MortalStore(self.home, Mortal(None)))
        target = JobHome(JOB, f"file://{to}", MortalStore(to, mortal))
        for attempt in (mortal, Mortal(None)):
            target = JobHome(JOB, f"file://{to}", MortalStore(to, attempt))
            try:
                entries = sorted(self.state().restorable(), key=lambda entry: entry.id)
                Copy(source, target, lambda load: nullcontext(lambda count: None), self._around(attempt)).run(
                    entries, whole=True
                )
            except Killed:
                self.clock.sleep(100)
                continue
            except HoldfastError as error:
                self.tell(f"copy: {error}")
                return
        if self.random.random() < 0.6 and entries:
            self.tell(f"goes on over {to}")
            self.world.home, self.copied = f"file://{to}", True
            shutil.rmtree(self.world.work, ignore_errors=True)
            self.world.work = self.world.root / "places" / f"work-{self.number}"
            self.hurt, self.backup = [], {}

    def damage(self) -> None:
        """One or all objects of the newest checkpoints."""
        if self.hurt:
            return
        job = self.home / JOB
        files = sorted(path for kind in ("blobs", "packs", "manifests") for path in (job / kind).rglob("*"))
        files = sorted((p for p in files if p.is_file()), key=lambda path: path.stat().st_mtime_ns)
        for path in files[-self.random.choice([1, 2, 6]) :]:
            self.hurt.append((path, path.read_bytes()))
            self.tell(f"damages {path.name}")
            path.unlink()
            if self.random.random() < 0.5:
                path.write_bytes(b"damaged")
        self.world.may_go_back = True
        if self.random.random() < 0.7:
            self.wipe()

    def heal(self) -> None:
        self.tell("the objects are put back")
        for path, data in self.hurt:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        store = MortalStore(self.home, Mortal(None))
        around = self._around(Mortal(None))
        with maintenance(JOB, self.world.home, store, "verify", around, on_conflict="takeover") as own:
            # As `verify --all --mark`, with the same clock as the runs.
            for id in sorted(own.state.corrupt.keys() - own.state.abandoned):
                entry = own.state.completed[id]
                if id not in own.state.retired and verify(store, id, entry.manifest, parallelism=1).sound:
                    mark_repaired(own, id, "intact again")

    def wipe(self) -> None:
        self.tell("the work directory is gone")
        shutil.rmtree(self.world.work, ignore_errors=True)
        self.world.work.mkdir(parents=True)

    def plant(self) -> None:
        """Copies of entries: of an earlier day, cut, empty."""
        path = self.home / JOB / "recent.json.gz"
        kept = self.world.small_objects.setdefault("recent", [])
        if path.exists():
            kept.append(path.read_bytes())
        if kept:
            data = self.random.choice(kept)
            path.write_bytes(data[: self.random.choice([len(data), len(data), len(data) // 2, 0])])

    def jump(self) -> None:
        """Somebody sets the clock, or a zone with summer time was taken for UTC."""
        self.clock.jumped = timedelta(hours=self.random.choice([-9000, -2, -1, 0, 1, 2, 9000]))

    def ask(self) -> None:
        """A request of a command: a new one, one that was answered, or one of another life of the job."""
        store, now = MortalStore(self.home, Mortal(None)), self.clock.wall()
        if not self.requests or self.random.random() < 0.6:
            kinds: list[RequestKind] = ["checkpoint", "savepoint", "delete-savepoint", "stop", "collect"]
            kind, name = self.random.choice(kinds), f"s{self.random.randrange(3)}"
            request = Request(
                id=f"request-{len(self.requests)}",
                kind=kind,
                name=name if "savepoint" in kind else None,
                head=Sequence(self.random.choice([0, 5, 1 << 40]) if self.random.random() < 0.3 else self.state().head),
                asked_at=now,
                expires_at=now + timedelta(minutes=10),
                asker=Process("here", self.number),
            )
            self.requests.append(request)
        request = self.random.choice(self.requests)
        self.tell(f"asks for {request.kind} {request.name} as {request.id}, head {request.head}")
        place_request(store, request)

    def unit_file(self) -> None:
        """An option that stays in a unit file, or is taken out of it."""
        ids = self.usable()
        if self.unit or not ids:
            self.unit, self.new_in_unit = {}, False
        else:
            self.unit, self.new_in_unit = {"from_checkpoint": self.random.choice(ids)}, True
            self.world.may_go_back = True
        self.tell(f"unit {self.unit}")

    def whole_machine(self) -> None:
        """All places become what they were."""
        places = {"home": self.home, "work": self.world.work, "sink": self.world.place}
        if self.backup and self.random.random() < 0.5 and not self.hurt:
            self.tell("the whole machine is put back")
            for name, place in places.items():
                shutil.rmtree(place, ignore_errors=True)
                if self.backup[name].exists():
                    shutil.copytree(self.backup[name], place, symlinks=True)
            self.world.may_go_back = True
            self.unit = {}
        elif not self.hurt:
            self.backups += 1
            for name, place in places.items():
                to = self.world.root / "clones" / f"{name}-{self.backups}"
                self.backup[name] = to
                if place.exists():
                    shutil.copytree(place, to, symlinks=True)

    kinds = "rollback rollback cancel rescale rescale copy damage wipe wipe plant unit machine jump ask"

    def act(self) -> None:
        if not (self.home / JOB / "journal").exists():
            return
        kind = self.random.choice(self.kinds.split())
        self.acts(self._mortal(30, 0.3))[kind]()
        self.clock.sleep(self.random.choice([0, 1, 100]))

    def acts(self, mortal: Mortal) -> dict[str, Callable[[], None]]:
        return {
            "rollback": lambda: self.rollback_to_any(mortal),
            "cancel": lambda: self.rollback(None, mortal),
            "rescale": lambda: self.rescale(mortal),
            "copy": lambda: self.copy(mortal),
            "damage": self.damage,
            "wipe": self.wipe,
            "plant": self.plant,
            "jump": self.jump,
            "ask": self.ask,
            "unit": self.unit_file,
            "machine": self.whole_machine,
        }

    def play(self) -> None:
        for _ in range(self.random.choice([4, 8, 14])):
            self.round()
            for _ in range(self.random.choice([0, 1, 1, 2, 3])):
                self.act()
        self.world.feed(3)
        self.flaky = False
        (self.home / JOB / "requests" / "next.json").unlink(missing_ok=True)
        for _ in range(12):
            if self._started(10_000, mortal=Mortal(None), stops=True, interval="1s"):
                self.world.check(clean=True, whole=True)
                return
        raise Broken("no start goes on")


@contextmanager
def _swiftly() -> Iterator[None]:
    fsync, os.fsync = os.fsync, lambda handle: None  # a kill loses nothing that was written
    try:
        yield
    finally:
        os.fsync = fsync


def played(seed: int, root: Path, kind: type[Swift] = Swift) -> str | None:
    """None when it held."""
    root.mkdir(parents=True)
    (root / "places").mkdir()
    swift = kind(root, seed)
    with _swiftly():
        try:
            swift.play()
        except Exception as broken:
            found = str(broken) if isinstance(broken, Broken) else traceback.format_exc()
            swift.tell(f"BROKE: {found}")
            return found
    shutil.rmtree(root, ignore_errors=True)
    return None


def main(kind: type[Swift] = Swift) -> int:
    parser = argparse.ArgumentParser(description=sys.modules[kind.__module__].__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--directory", type=Path)
    chosen = parser.parse_args()
    directory = chosen.directory or Path(tempfile.mkdtemp(prefix="holdfast-swift-"))
    use_instead_of_spark()
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    end, seed, broken = time.monotonic() + 60 * chosen.minutes, chosen.seed or chosen.first, []
    worlds = 0
    while time.monotonic() < end:
        worlds += 1
        if found := played(seed, directory / str(seed), kind):
            broken.append(seed)
            sys.stdout.write(f"seed {seed} BROKE: {found}\n   see {directory / str(seed)}/log\n")
            sys.stdout.flush()
        if chosen.seed is not None:
            break
        seed += 1
    sys.stdout.write(f"{worlds} worlds, {len(broken)} broken: {broken}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
