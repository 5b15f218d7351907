"""What an outsider does to a job only while it runs."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from contextlib import suppress

from tests.attacks.acts_by_commands import sometimes
from tests.attacks.acts_on_places import places_of
from tests.attacks.acts_on_sink import append_foreign, delete_rows, optimize, tidy_log, vacuum
from tests.attacks.world import Broken, Life, World


def pause(world: World, life: Life) -> None:
    life.send(signal.SIGSTOP)
    if world.random.random() < 0.5:
        command_of_outsider(world, life)
    time.sleep(world.random.choice([0.05, 0.5, 2.0]))
    life.send(signal.SIGCONT)


def second_start(world: World, life: Life) -> None:
    """Cron starts it once more."""
    second = world.start(ends=True, options=world.random.choice([{}, {"on_conflict": "takeover"}]))
    time.sleep(world.random.random())
    if world.random.random() < 0.3:
        second.send(signal.SIGKILL)
    code, message = second.end()
    world.tell(f"the second start ended with {code}: {message}")
    if code not in {0, 5, -9, 1, 2, 6}.union(*(trouble.codes for trouble in world.troubles)):
        raise Broken(f"a second start ended with {code}: {message}")


def command_of_outsider(world: World, life: Life) -> None:
    chosen = world.random.choice(
        [
            ["status"],
            ["verify", "--all"],
            ["verify", "--all", "--repair"],
            ["verify", "--all", "--repair", "--on-conflict", "takeover"],
            ["collect", "--timeout", "5s"],
            ["collect", "--on-conflict", "takeover", "--timeout", "5s"],
            ["savepoint", "create", f"r{world.random.randrange(5)}", "--timeout", "5s"],
            ["savepoint", "delete", f"r{world.random.randrange(5)}", "--timeout", "5s"],
            ["savepoint", "create", f"r{world.random.randrange(5)}", "--stop", "--timeout", "5s"],
            ["doctor"],
        ]
    )
    world.asked_to_stop = world.asked_to_stop or "--stop" in chosen
    code, text = world.of_job(*chosen, kill_after=sometimes(world, 0.5))
    if code == 0 and chosen[:2] == ["savepoint", "create"]:
        _, listed = world.of_job("savepoint", "list", "--json")
        if chosen[2] not in listed:
            raise Broken(f"{chosen} ended with 0 and is not listed: {text}")


def maintain(world: World, life: Life) -> None:
    world.random.choice([optimize, vacuum, tidy_log, delete_rows, append_foreign])(world)


def copy_running(world: World, life: Life) -> None:
    target = world.new_home(f"copy-{world.number}")
    code, text = world.of_job("copy", "--to", target, "--all")
    if code == 0:
        code, text = world.command("verify", "--home", target, "--job", world.job, "--all", "--json")
        if code != 0 and code != 3:
            raise Broken(f"a copy does not verify: {text[-500:]}")


def place_away(world: World, life: Life) -> None:
    """A mount goes and comes back."""
    place = world.random.choice([p for p in places_of(world).values() if p.exists()])
    away = place.with_name(f"{place.name}.away")
    world.tell(f"away: {place.name}")
    place.rename(away)
    world.excused |= {2}  # it may be away just when it is looked at, by a start
    time.sleep(world.random.choice([0.05, 0.5, 1.5]))
    if place.exists():  # made anew by somebody: what is in there is lost when the mount is back
        world.tell(f"made anew: {sorted(str(p.relative_to(place)) for p in place.rglob('*'))[:5]}")
        place.rename(place.with_name(f"{place.name}.hidden-{world.number}-{time.monotonic_ns()}"))
    away.rename(place)


def limit(world: World, life: Life) -> None:
    """Descriptors, or the size of files, run out for a while."""
    which, low = world.random.choice(
        [(resource.RLIMIT_NOFILE, 3), (resource.RLIMIT_FSIZE, 100), (resource.RLIMIT_FSIZE, 0)]
    )
    world.tell(f"limit {which} to {low}")
    with suppress(ProcessLookupError):
        before = resource.prlimit(life.pid, which)
        resource.prlimit(life.pid, which, (low, before[1]))
        time.sleep(world.random.choice([0.05, 0.5, 1.5]))
        resource.prlimit(life.pid, which, before)


def fill_disk(world: World, life: Life) -> None:
    """Only where the places are on a small disk of their own."""
    if not os.path.ismount(world.places):
        return
    filler = world.places / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))
    time.sleep(world.random.choice([0.1, 0.6, 1.5]))
    if world.random.random() < 0.2:
        life.send(signal.SIGKILL)
    filler.unlink()


def read_only(world: World, life: Life) -> None:
    if not os.path.ismount(world.places):
        return
    mounted = subprocess.run(["mount", "-o", "remount,ro", str(world.places)], check=False, capture_output=True)
    world.tell(f"read-only: {mounted.returncode}")
    if mounted.returncode == 0:
        time.sleep(world.random.choice([0.1, 0.6, 1.5]))
        subprocess.run(["mount", "-o", "remount,rw", str(world.places)], check=True)


def forbid(world: World, life: Life) -> None:
    """Something belongs to somebody else for a while. Nobody notices who may do anything (`capsh --drop`)."""
    found = sorted(path for place in places_of(world).values() for path in [place, *place.rglob("*")])
    path = world.random.choice(found) if found else world.places
    with suppress(FileNotFoundError):
        before = path.stat().st_mode & 0o777
        path.chmod(world.random.choice([0, before & 0o555]))
        world.tell(f"forbid {path.relative_to(world.root)}")
        world.excused |= {2, 4, 6}
        time.sleep(world.random.choice([0.05, 0.5, 1.5]))
        path.chmod(before)
