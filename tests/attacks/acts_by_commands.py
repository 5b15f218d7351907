"""Commands of holdfast, given while the job does not run: perhaps killed, twice, or at a bad moment."""

from __future__ import annotations

import shutil
from typing import Any

from tests.attacks.acts_on_places import use_home
from tests.attacks.world import Broken, Trouble, World


def copy_home(world: World) -> None:
    """holdfast copy to another home, which takes over."""
    if world.troubles:
        return
    target = world.new_home(f"home-{world.number}")
    code, _ = world.of_job("copy", "--to", target, "--all", kill_after=sometimes(world, 0.3))
    if world.random.random() < 0.5:
        code, _ = world.of_job("copy", "--to", target, "--all")
    if code == 3:
        return
    if code == 4 and world.may_lack_checkpoints:
        return
    if code not in (0, -9):
        raise Broken(f"copy of a sound job ends with {code}")
    if code == 0 and world.random.random() < 0.5:
        if world.home_directory is not None:
            world.clones["home"] = world.clone(world.home_directory, "home")
        use_home(world, target)


def rename_job(world: World) -> None:
    """A copy under another name goes on at the same sink: refused, unless it is said and nothing is lost by it."""
    if world.troubles or world.next_options:
        return
    old, new = world.job, f"orders-{world.number}"
    code, _ = world.of_job("copy", "--to", world.home, "--all", "--as", new)
    if code != 0 or not world.rows():
        return
    world.job = new
    if _one_start(world) == 0:
        raise Broken(f"job {old} goes on as {new} without a word")
    if _one_start(world, accept_sink=True) != 0:
        world.job = old
        return
    world.job = old
    if _one_start(world) == 0:
        raise Broken(f"job {old} goes on beside {new} without a word")
    world.job = new


def _one_start(world: World, **options: Any) -> int:
    code, message = world.start(ends=True, options=options).end()
    world.tell(f"ended with {code}: {message}")
    world.check(clean=code == 0, whole=code == 0)
    return code


def go_back(world: World) -> None:
    usable = [c for c in world.checkpoints() if c.get("usable")]
    if not usable or world.next_options:
        return
    chosen = world.random.choice(usable)
    if chosen["name"] and world.random.random() < 0.5:
        world.next_options = {"from_savepoint": chosen["name"]}
    else:
        world.next_options = {"from_checkpoint": chosen["id"]}
    world.may_go_back = world.may_lack_checkpoints = True


def roll_back(world: World) -> None:
    """`holdfast rollback`, perhaps killed, twice, taken back, with a copy, a collection or a start beside it."""
    usable = [c for c in world.checkpoints() if c.get("usable")]
    if not usable or world.next_options:
        return
    before, raced = (world.may_go_back, world.may_lack_checkpoints), False
    for _ in range(world.random.choice([1, 1, 2])):
        chosen = world.random.choice(usable)
        racing = world.start(ends=True) if world.random.random() < 0.15 else None
        world.may_go_back = world.may_lack_checkpoints = True
        world.of_job("rollback", "--to", str(chosen["id"]), "--json", kill_after=sometimes(world, 0.2))
        if racing is not None:
            raced = True
            code, message = racing.end()
            world.tell(f"a start beside it ended with {code}: {message}")
            world.check(clean=code == 0, whole=code == 0)
            world.may_go_back = True
    if world.random.random() < 0.3:
        world.random.choice([copy_home, collect, verify, savepoint, rescale])(world)
    if world.random.random() < 0.4:
        code, _ = world.of_job("rollback", "--cancel", kill_after=sometimes(world, 0.2))
        if code == 0 and not raced:
            world.may_go_back, world.may_lack_checkpoints = before
            return
    world.troubles.append(Trouble("a rollback", frozenset({2, 3, 4}), lambda: _required(world, "rollback", "--cancel")))


def _required(world: World, *arguments: str) -> None:
    for _ in range(3):
        code, text = world.of_job(*arguments, "--on-conflict", "takeover")
        if code == 0:
            return
    raise Broken(f"holdfast {' '.join(arguments)} ends with {code}: {text[-500:]}")


def rescale(world: World) -> None:
    """Another number of state partitions, perhaps killed at any step, or twice at once."""
    for _ in range(world.random.choice([1, 1, 2])):
        dies_at = world.random.randrange(1, 8) if world.random.random() < 0.4 else None
        codes = world.rescaled(dies_at, times=world.random.choice([1, 1, 1, 2]))
        if not set(codes) <= {0, 2, 3, 4, 5, 6, -9}:
            raise Broken(f"rescale ends with {codes}")


def verify(world: World) -> None:
    how = world.random.choice([[], ["--all"], ["--all", "--repair"], ["--all", "--mark"], ["--sample", "30%"]])
    code, text = world.of_job("verify", *how, "--json", kill_after=sometimes(world, 0.2))
    if code not in (0, 3, -9) and not world.troubles and not world.may_lack_checkpoints:
        raise Broken(f"verify of a sound home ends with {code}: {text[-500:]}")


def collect(world: World) -> None:
    how = world.random.choice([[], ["--retained", "1"], ["--retained", "3"], ["--dry-run"]])
    code, text = world.of_job("collect", *how, "--json", kill_after=sometimes(world, 0.2))
    if code not in (0, 2, 3, 5, -9) and not world.troubles:
        raise Broken(f"collect ends with {code}: {text[-500:]}")


def savepoint(world: World) -> None:
    completed = [c for c in world.checkpoints() if c["status"] == "completed"]
    name = f"s{world.random.randrange(4)}"
    if world.random.random() < 0.4:
        world.of_job("savepoint", "delete", name, kill_after=sometimes(world, 0.2))
    elif completed:
        chosen = world.random.choice(completed)
        world.of_job("savepoint", "create", name, "--from", str(chosen["id"]), kill_after=sometimes(world, 0.2))


def restore(world: World) -> None:
    """What is restored is what the checkpoint's batches made."""
    usable = [c for c in world.checkpoints() if c["status"] == "completed" and not c["corrupt"]]
    if not usable:
        return
    chosen = world.random.choice(usable)
    to = world.root / f"restored-{world.number}"
    code, text = world.of_job("restore", "--to", str(to), "--checkpoint", str(chosen["id"]), "--json")
    if code != 0:
        if not world.troubles and not world.may_lack_checkpoints and code != 3:
            raise Broken(f"restore of a sound checkpoint ends with {code}: {text[-500:]}")
        return
    from tests.attacks.engine import Engine

    engine = Engine(None, world.source, lambda _: None, ends=True, per_batch=1, pause=0)
    engine._directory = to
    barrier = chosen["barrier_batch_id"]
    count, total = engine._state(barrier + 1)
    expected = world.answer[count - 1]["total"] if count else 0
    read = len(engine._read_before(barrier + 1))
    if total != expected or read < 1:
        raise Broken(f"restore gives a state that never was: {count} rows, sum {total}, of {read} files")
    shutil.rmtree(to)


def only_look(world: World) -> None:
    for arguments in (["status"], ["checkpoints"], ["doctor"], ["savepoint", "list"]):
        if world.random.random() < 0.5:
            world.of_job(*arguments, "--json")
    world.command("jobs", "--home", world.home, "--json")


def sometimes(world: World, seconds: float) -> float | None:
    return world.random.random() * seconds if world.random.random() < 0.3 else None
