"""An outsider damages, empties, moves and puts back the home, the work directory and the sink as a whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.attacks.world import Broken, Trouble, World

REFUSED = frozenset({2})
DAMAGED = frozenset({2, 4, 6})


def wipe_work(world: World) -> None:
    shutil.rmtree(world.work.resolve(), ignore_errors=True)
    if world.random.random() < 0.7 or world.work.is_symlink():
        world.work.resolve().mkdir(parents=True)


def damage_work(world: World) -> None:
    files = sorted(path for path in world.work.rglob("*") if path.is_file() and path.name != "state.json")
    for path in world.random.sample(files, min(len(files), world.random.choice([1, 1, 3]))):
        damage(world, path)


def remove_marker(world: World) -> None:
    (world.work / world.job / "job.json").unlink(missing_ok=True)


def damage(world: World, path: Path) -> None:
    how = world.random.choice(["flip", "truncate", "delete", "empty"])
    world.tell(f"{how} {path.relative_to(world.root)}")
    data = bytearray(path.read_bytes())
    path.unlink()  # links are other names of the same bytes
    if how == "delete":
        return
    if how == "flip" and data:
        data[world.random.randrange(len(data))] ^= 1 << world.random.randrange(8)
    path.write_bytes(b"" if how == "empty" else data[: len(data) // 2] if how == "truncate" else data)


def damage_home(world: World) -> None:
    if world.home_directory is None:
        return
    job = world.home_directory / world.job
    kinds = world.random.choice([("blobs", "packs"), ("manifests",), ("blobs", "packs", "manifests")])
    files = sorted(path for kind in kinds for path in (job / kind).rglob("*") if path.is_file())
    if not files:
        return
    chosen = world.random.sample(files, min(len(files), world.random.choice([1, 1, 2, len(files)])))
    kept = {path: path.read_bytes() for path in chosen}
    for path in chosen:
        damage(world, path)

    def undo() -> None:
        for path, data in kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        world.of_job("verify", "--all", "--repair", "--json", "--on-conflict", "takeover")

    world.may_lack_checkpoints = True
    world.troubles.append(Trouble("damaged objects", DAMAGED, undo))
    code, _ = world.of_job("verify", "--all", "--json")
    named = _named_by_retained(world)
    if code == 0 and named is not None and any(path.name.split(".")[0] in named for path in kept):
        raise Broken("verify --all says that damaged objects are right")


def _named_by_retained(world: World) -> set[str] | None:
    """Digests of manifests that retained checkpoints name; None when unknown."""
    found = set()
    for checkpoint in world.checkpoints():
        if checkpoint["status"] == "completed":
            code, text = world.of_job("show", str(checkpoint["id"]), "--json")
            if code != 0:
                return None
            found.add(json.loads(text).get("manifest") or "")
    return found


def damage_journal(world: World) -> None:
    if world.home_directory is None:
        return
    files = sorted((world.home_directory / world.job).glob("journal/*.json"))
    if not files:
        return
    path = world.random.choice(files)
    data = path.read_bytes()
    damage(world, path)
    world.troubles.append(Trouble("damaged journal", DAMAGED, lambda: _write(path, data)))


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def harm_copies_of_entries(world: World) -> None:
    """What needs no proof of its own is lost, cut, flipped, of an earlier day, or of another job."""
    if world.home_directory is None:
        return
    for name in ("recent.json.gz", "verified.json"):
        path = world.home_directory / world.job / name
        found = path.read_bytes() if path.exists() else b""
        kept = world.small_objects.setdefault(name, [])
        how = world.random.choice(["keep", "put", "put", "flip", "cut", "remove", "directory"])
        world.tell(f"{how} {name}, of {len(kept)}")
        if found:
            kept.append(found)
        if how == "put" and kept:
            path.write_bytes(world.random.choice(kept))
        elif how == "flip" and found:
            damage(world, path)
        elif how == "cut":
            path.write_bytes(found[: len(found) // 2])
        elif how == "remove":
            path.unlink(missing_ok=True)


def empty_home(world: World) -> None:
    home = world.home_directory
    if home is None or home.is_symlink():
        return
    away = home.with_name("home.away")
    home.rename(away)
    if world.random.random() < 0.6:
        home.mkdir()

    def undo() -> None:
        if home.exists():
            shutil.rmtree(home)
        away.rename(home)

    world.troubles.append(Trouble("home away", frozenset({2, 6}), undo))


def note_backup(world: World) -> None:
    """A backup of all places at one moment, or of some of them."""
    for name, place in places_of(world).items():
        world.clones[name] = world.clone(place, name)


def places_of(world: World) -> dict[str, Path]:
    found = {"work": world.work, "sink": world.place}
    if world.home_directory is not None:
        found["home"] = world.home_directory
    return {name: place.resolve() for name, place in found.items()}


def put_backup_back(world: World) -> None:
    """Some of the places become what they were."""
    places = {name: place for name, place in places_of(world).items() if name in world.clones}
    if not places:
        return
    chosen = [name for name in sorted(places) if world.random.random() < 0.5] or sorted(places)
    world.tell(f"put back: {chosen}")
    kept = {name: world.put(world.clones[name], places[name]) for name in chosen}

    def undo() -> None:
        for name, old in kept.items():
            place = places[name]
            if place.exists():
                shutil.rmtree(place)
            if old.exists():
                shutil.move(old, place)

    if chosen == ["work"]:
        return
    world.may_go_back = world.may_lack_checkpoints = True
    ways: tuple[dict[str, Any], ...] = ()
    if "sink" not in chosen:
        ways = ({"accept_older_home": True},)
    if set(chosen) == set(places) and "home" in chosen:
        return  # the whole machine is as it was: nothing to refuse
    world.troubles.append(Trouble(f"put back {chosen}", REFUSED, undo, ways))


def move_place(world: World) -> None:
    """Somebody tidies up: a place gets another path, or a link."""
    name = world.random.choice(["work", "home", "place"])
    old = world.home_directory if name == "home" else getattr(world, name)
    if old is None or not old.exists() or old.is_symlink():
        return
    new = old.with_name(f"{name}-moved-{world.number}")
    if world.random.random() < 0.5:
        old.rename(new)
    else:  # to another disk
        shutil.copytree(old, new, symlinks=True)
        shutil.rmtree(old)
    linked = world.random.random() < 0.4
    world.tell(f"move {name}, linked={linked}")
    if linked:
        old.symlink_to(new)
    elif name == "home":
        use_home(world, f"file://{new}")
    else:
        setattr(world, name, new)


def use_home(world: World, home: str) -> None:
    """A work directory belongs to one home; the other one gets its own, or a start asks for it."""
    world.tell(f"goes on over {home}")
    world.home = home
    other = world.places / f"work-{world.number}"
    if world.random.random() < 0.5:
        world.work = other
    else:
        world.troubles.append(Trouble("work of another home", REFUSED, lambda: setattr(world, "work", other)))
