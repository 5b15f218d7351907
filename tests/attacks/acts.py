"""What an outsider does to a job. An act is drawn as often as it is listed."""

from __future__ import annotations

from collections.abc import Callable

from tests.attacks import acts_by_commands as commands
from tests.attacks import acts_on_places as places
from tests.attacks import acts_on_sink as sink
from tests.attacks import acts_while_running as running
from tests.attacks.world import Life, World

DOWN: list[Callable[[World], None]] = [
    places.wipe_work,
    places.damage_work,
    places.remove_marker,
    places.damage_home,
    places.damage_journal,
    places.empty_home,
    places.note_backup,
    places.note_backup,
    places.put_backup_back,
    places.put_backup_back,
    places.move_place,
    commands.copy_home,
    commands.rename_job,
    commands.roll_back,
    commands.roll_back,
    commands.rescale,
    commands.rescale,
    places.harm_copies_of_entries,
    places.harm_copies_of_entries,
    commands.go_back,
    commands.verify,
    commands.collect,
    commands.savepoint,
    commands.restore,
    sink.optimize,
    sink.vacuum,
    sink.tidy_log,
    sink.delete_rows,
    sink.append_foreign,
    sink.harm_sink,
    sink.damage_ledger_of_sink,
    commands.only_look,
]
"""While the job does not run."""

RUNNING: list[Callable[[World, Life], None]] = [
    running.pause,
    running.second_start,
    running.command_of_outsider,
    running.command_of_outsider,
    running.maintain,
    running.maintain,
    running.copy_running,
    running.place_away,
    running.forbid,
    running.limit,
    running.fill_disk,
    running.read_only,
]
"""While it does."""
