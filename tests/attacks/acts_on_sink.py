"""Other writers of the output, and who harms it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from tests.attacks.acts_on_places import DAMAGED, REFUSED, damage
from tests.attacks.engine import SCHEMA
from tests.attacks.world import Trouble, World

_ARROW = pa.schema([(field.name, pa.int64()) for field in SCHEMA.fields])


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
        damage(world, path)

    def undo() -> None:
        for path, data in kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    world.troubles.append(Trouble("damaged ledger of the sink", DAMAGED, undo))
