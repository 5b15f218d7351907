"""What an outsider does to a job. Those in `DOWN` are done while it does not run, those in `RUNNING` while it does."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from tests.attacks.engine import SCHEMA
from tests.attacks.world import Broken, Life, Trouble, World

REFUSED = frozenset({2})
DAMAGED = frozenset({2, 4, 6})
_ARROW = pa.schema([(field.name, pa.int64()) for field in SCHEMA.fields])


# While the job does not run


def wipe_work(world: World) -> None:
    shutil.rmtree(world.work.resolve(), ignore_errors=True)
    if world.random.random() < 0.7 or world.work.is_symlink():
        world.work.resolve().mkdir(parents=True)


def damage_work(world: World) -> None:
    files = sorted(path for path in world.work.rglob("*") if path.is_file() and path.name != "state.json")
    for path in world.random.sample(files, min(len(files), world.random.choice([1, 1, 3]))):
        _damage(world, path)


def remove_marker(world: World) -> None:
    (world.work / world.job / "job.json").unlink(missing_ok=True)


def _damage(world: World, path: Path) -> None:
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
        _damage(world, path)

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
    _damage(world, path)
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
            _damage(world, path)
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
    for name, place in _places(world).items():
        world.clones[name] = world.clone(place, name)


def _places(world: World) -> dict[str, Path]:
    found = {"work": world.work, "sink": world.place}
    if world.home_directory is not None:
        found["home"] = world.home_directory
    return {name: place.resolve() for name, place in found.items()}


def put_backup_back(world: World) -> None:
    """Some of the places become what they were."""
    places = {name: place for name, place in _places(world).items() if name in world.clones}
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
        _use_home(world, f"file://{new}")
    else:
        setattr(world, name, new)


def copy_home(world: World) -> None:
    """holdfast copy to another home, which takes over."""
    if world.troubles:
        return
    target = world.new_home(f"home-{world.number}")
    code, _ = world.of_job("copy", "--to", target, "--all", kill_after=_sometimes(world, 0.3))
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
        _use_home(world, target)


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


def _use_home(world: World, home: str) -> None:
    """A work directory belongs to one home; the other one gets its own, or a start asks for it."""
    world.tell(f"goes on over {home}")
    world.home = home
    other = world.places / f"work-{world.number}"
    if world.random.random() < 0.5:
        world.work = other
    else:
        world.troubles.append(Trouble("work of another home", REFUSED, lambda: setattr(world, "work", other)))


def _sometimes(world: World, seconds: float) -> float | None:
    return world.random.random() * seconds if world.random.random() < 0.3 else None


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
        world.of_job("rollback", "--to", str(chosen["id"]), "--json", kill_after=_sometimes(world, 0.2))
        if racing is not None:
            raced = True
            code, message = racing.end()
            world.tell(f"a start beside it ended with {code}: {message}")
            world.check(clean=code == 0, whole=code == 0)
            world.may_go_back = True
    if world.random.random() < 0.3:
        world.random.choice([copy_home, collect, verify, savepoint, rescale])(world)
    if world.random.random() < 0.4:
        code, _ = world.of_job("rollback", "--cancel", kill_after=_sometimes(world, 0.2))
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
    code, text = world.of_job("verify", *how, "--json", kill_after=_sometimes(world, 0.2))
    if code not in (0, 3, -9) and not world.troubles and not world.may_lack_checkpoints:
        raise Broken(f"verify of a sound home ends with {code}: {text[-500:]}")


def collect(world: World) -> None:
    how = world.random.choice([[], ["--retained", "1"], ["--retained", "3"], ["--dry-run"]])
    code, text = world.of_job("collect", *how, "--json", kill_after=_sometimes(world, 0.2))
    if code not in (0, 2, 3, 5, -9) and not world.troubles:
        raise Broken(f"collect ends with {code}: {text[-500:]}")


def savepoint(world: World) -> None:
    completed = [c for c in world.checkpoints() if c["status"] == "completed"]
    name = f"s{world.random.randrange(4)}"
    if world.random.random() < 0.4:
        world.of_job("savepoint", "delete", name, kill_after=_sometimes(world, 0.2))
    elif completed:
        chosen = world.random.choice(completed)
        world.of_job("savepoint", "create", name, "--from", str(chosen["id"]), kill_after=_sometimes(world, 0.2))


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


def optimize(world: World) -> None:
    if world.sink == "delta":
        _on_table(world, lambda table: table.optimize.compact())


def vacuum(world: World) -> None:
    if world.sink == "delta":
        full = world.random.random() < 0.4
        world.tell(f"VACUUM full={full}")
        _on_table(
            world,
            lambda table: table.vacuum(
                retention_hours=0 if world.random.random() < 0.3 else 1,
                dry_run=False,
                enforce_retention_duration=False,
                full=full,
            ),
        )


def tidy_log(world: World) -> None:
    if world.sink == "delta":
        _on_table(world, lambda table: table.create_checkpoint())
        if world.random.random() < 0.5:
            _on_table(world, lambda table: table.cleanup_metadata())


def delete_rows(world: World) -> None:
    if world.sink != "delta":
        return
    rows = world.rows()
    if len(rows) < 3:
        return
    chosen = [row["id"] for row in world.random.sample(rows, 2)]
    world.wiped |= set(chosen)
    world.may_lack_checkpoints = True
    _on_table(world, lambda table: table.delete(f"id IN ({chosen[0]}, {chosen[1]})"))


def append_foreign(world: World) -> None:
    rows = pa.Table.from_pylist([{"id": -1 - world.random.randrange(9), "before": 0, "total": 0}], _ARROW)
    if not world.place.exists():
        return
    if world.sink == "delta":
        with suppress(DeltaError):
            if DeltaTable.is_deltatable(str(world.place)):
                write_deltalake(
                    str(world.place),
                    rows,
                    mode="append",
                    commit_properties=CommitProperties(custom_metadata={"who": "somebody"}),
                )
    elif any(world.place.glob("*.parquet")):
        pq.write_table(rows, world.place / f"foreign-{world.number}-{len(world.story)}.parquet")


def _on_table(world: World, act: Callable[[DeltaTable], object]) -> None:
    with suppress(DeltaError, OSError):
        if DeltaTable.is_deltatable(str(world.place)):
            act(DeltaTable(str(world.place)))


def harm_sink(world: World) -> None:
    """RESTORE, TRUNCATE, a published file that vanishes, a compaction of plain files."""
    if not world.place.exists() or not world.rows():
        return
    kept = world.clone(world.place, "sink")
    if world.sink == "delta":
        table = DeltaTable(str(world.place))
        how = world.random.choice(["restore", "truncate", "overwrite"])
        if how == "restore":
            table.restore(max(0, table.version() - world.random.choice([1, 2, 5])))
        elif how == "truncate":
            table.delete()
        else:
            write_deltalake(str(world.place), table.to_pyarrow_table().slice(0, 1), mode="overwrite")
    else:
        files = sorted(path for path in world.place.glob("*.parquet") if not path.name.startswith("foreign"))
        if not files:
            return
        how = world.random.choice(["delete", "compact"])
        chosen = world.random.sample(files, min(len(files), 2))
        if how == "compact":
            merged = pa.concat_tables([pq.read_table(path) for path in chosen])
            pq.write_table(merged, world.place / "compacted.parquet")
        for path in chosen:
            path.unlink()
    world.tell(f"harm the sink: {how}")

    place = world.place.resolve()

    def undo() -> None:
        shutil.rmtree(place)
        shutil.move(kept, place)

    world.may_go_back = world.may_lack_checkpoints = True
    world.troubles.append(Trouble(f"sink {how}", REFUSED, undo))


def damage_ledger_of_sink(world: World) -> None:
    """What the sink keeps beside the output."""
    files = sorted(path for path in world.place.glob("_holdfast/**/*") if path.is_file())
    if not files:
        return
    kept = {path: path.read_bytes() for path in world.random.sample(files, 1)}
    for path in kept:
        _damage(world, path)

    def undo() -> None:
        for path, data in kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    world.troubles.append(Trouble("damaged ledger of the sink", DAMAGED, undo))


def only_look(world: World) -> None:
    for arguments in (["status"], ["checkpoints"], ["doctor"], ["savepoint", "list"]):
        if world.random.random() < 0.5:
            world.of_job(*arguments, "--json")
    world.command("jobs", "--home", world.home, "--json")


DOWN: list[Callable[[World], None]] = [
    wipe_work,
    damage_work,
    remove_marker,
    damage_home,
    damage_journal,
    empty_home,
    note_backup,
    note_backup,
    put_backup_back,
    put_backup_back,
    move_place,
    copy_home,
    rename_job,
    roll_back,
    roll_back,
    rescale,
    rescale,
    harm_copies_of_entries,
    harm_copies_of_entries,
    go_back,
    verify,
    collect,
    savepoint,
    restore,
    optimize,
    vacuum,
    tidy_log,
    delete_rows,
    append_foreign,
    harm_sink,
    damage_ledger_of_sink,
    only_look,
]


# While the job runs


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
    code, text = world.of_job(*chosen, kill_after=_sometimes(world, 0.5))
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
    place = world.random.choice([p for p in _places(world).values() if p.exists()])
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
    found = sorted(path for place in _places(world).values() for path in [place, *place.rglob("*")])
    path = world.random.choice(found) if found else world.places
    with suppress(FileNotFoundError):
        before = path.stat().st_mode & 0o777
        path.chmod(world.random.choice([0, before & 0o555]))
        world.tell(f"forbid {path.relative_to(world.root)}")
        world.excused |= {2, 4, 6}
        time.sleep(world.random.choice([0.05, 0.5, 1.5]))
        path.chmod(before)


RUNNING: list[Callable[[World, Life], None]] = [
    pause,
    second_start,
    command_of_outsider,
    command_of_outsider,
    maintain,
    maintain,
    copy_running,
    place_away,
    forbid,
    limit,
    fill_disk,
    read_only,
]
