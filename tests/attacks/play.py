"""One world from its seed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.attacks.acts import DOWN, RUNNING
from tests.attacks.world import KILLED, Broken, Life, World

SMALL_DISK = "6m"


def play(seed: int, root: Path, homes: Callable[[str], str] | None = None) -> str | None:
    """None when it held, else what broke. What held is removed."""
    root.mkdir(parents=True)
    with _places(seed, root):
        world = World(root, seed, "delta" if seed % 2 else "files", homes)
        world.tell(f"seed {seed} sink={world.sink} home={world.home}")
        try:
            for _ in range(world.random.choice([3, 6, 10])):
                _round(world)
            _settle(world)
        except Exception as broken:
            found = str(broken) if isinstance(broken, Broken) else traceback.format_exc()
            world.tell(f"BROKE: {found}")
            return found
    shutil.rmtree(root, ignore_errors=True)
    return None


@contextmanager
def _places(seed: int, root: Path) -> Iterator[None]:
    """Every fourth world is on a small disk of its own."""
    places = root / "places"
    places.mkdir()
    if seed % 4 != 3 or subprocess.run(["id", "-u"], capture_output=True, check=True).stdout != b"0\n":
        yield
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(places)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(places)], check=True)


def _round(world: World) -> None:
    world.feed(world.random.randrange(1, 12))
    ending = world.random.choice(["ends", "ends", "killed", "killed", "dies", "dies", "stopped"])
    other: dict[str, Any] = {}
    if ending == "dies":
        other["dies_at"] = world.random.randrange(1, 60)
    if world.random.random() < 0.2:
        other["hours"] = world.random.choice([-9000.0, -1.0, 1.0, 9000.0])
    if world.random.random() < 0.1:
        other["host"] = world.random.choice(["elsewhere", "other"])
    options = {"retained": world.random.choice([1, 2, 5])}
    if world.random.random() < 0.4:
        options |= {"publish": "batch", "plans": world.random.choice(["prefer", "require"])}
        options |= world.random.choice([{}, {}, {"recovery_target": "1s"}, {"recovery_target": "off"}])
    if "host" in other or world.random.random() < 0.1:
        options |= {"on_conflict": "takeover"}
    world.excused, world.asked_to_stop = set(), False
    life = world.start(ends=ending in ("ends", "dies"), options=options, **other)
    for _ in range(world.random.choice([0, 1, 2, 3])):
        life.wait_for_steps(world.random.choice([0, 1, 3, 10, 30]))
        if life.alive:
            act = world.random.choice(RUNNING)
            world.tell(f"while it runs: {act.__name__}")
            act(world, life)
            world.check()
    if ending in ("killed", "stopped"):
        life.wait_for_steps(world.random.choice([1, 3, 10, 30, 60]))
        time.sleep(world.random.random() * 0.05)
        life.send(signal.SIGKILL if ending == "killed" else signal.SIGTERM)
    _ended(world, life)
    for _ in range(world.random.choice([0, 1, 1, 2, 3])):
        act = world.random.choice(DOWN)
        world.tell(f"while it is down: {act.__name__}")
        act(world)


def _ended(world: World, life: Life) -> None:
    code, message = life.end()
    world.tell(f"ended with {code}: {message}")
    if code in (0, KILLED):
        _went_on(world, life, clean=code == 0)
        return
    if _followed(world, code, message):
        world.check()
    elif world.troubles and code in frozenset().union(*(trouble.codes for trouble in world.troubles)):
        _refused(world, message)
    elif code in {1, 5, 6} | world.excused:
        world.counts[f"exit {code}"] += 1  # it ran, something was in its way: the next start must do
        world.check()
    elif "from_" in str(world.next_options):
        world.next_options = {}  # nobody can always go back; a start without must do
    else:
        raise Broken(f"a start was refused without a reason: {code}: {message}")


def _followed(world: World, code: int, message: str) -> bool:
    """Whether the hint is one that needs no decision."""
    if code == 2 and "start it with --publish batch" in message:
        world.next_options = world.next_options | {"publish": "batch"}
        return True
    if code == 2 and "job.json is damaged" in message:
        world.tell("move the work directory elsewhere")
        (world.work / world.job).rename(world.root / f"elsewhere-{world.number}")
        return True
    return False


def _went_on(world: World, life: Life, *, clean: bool) -> None:
    if clean:
        world.troubles.clear()
        world.next_options = {}
    world.check(clean=clean, whole=clean and life.given["ends"] and not world.asked_to_stop)
    world.check_checkpoints()


def _refused(world: World, message: str) -> None:
    """Follow a way out, or put things back."""
    world.check()
    trouble = world.troubles.pop()
    if trouble.ways and world.random.random() < 0.5:
        world.next_options = world.next_options | world.random.choice(trouble.ways)
        world.troubles.append(trouble)
        trouble.ways = ()
        return
    world.tell(f"undo: {trouble.name}")
    trouble.undo()
    if not world.troubles:
        world.next_options = {key: value for key, value in world.next_options.items() if "accept" not in key}


def _settle(world: World) -> None:
    """Whatever was done is put right; then a run must go on to the end, exactly."""
    world.feed(2)
    world.excused, world.asked_to_stop = set(), False
    for _ in range(12):
        life = world.start(ends=True, options={"retained": 3})
        code, message = life.end()
        world.tell(f"ended with {code}: {message}")
        if code == 0:
            world.check(clean=True, whole=True)
            return
        if _followed(world, code, message):
            continue
        if world.troubles:
            _refused(world, message)
        elif "from_" in str(world.next_options) or world.next_options:
            world.next_options = {}
        elif code not in (1, 5, 6):
            raise Broken(f"nothing is in its way, and a start is refused: {code}: {message}")
    raise Broken(f"no start goes on: {code}: {message}")
