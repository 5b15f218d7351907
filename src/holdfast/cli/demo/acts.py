"""What is done to the pipeline, in order, and what must hold afterwards. Each act ends in one outcome."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from holdfast.cli.demo import beside
from holdfast.cli.demo.batch_answer import compare, read_table, recompute
from holdfast.cli.demo.deployments import rolled_back, swap_sums
from holdfast.cli.demo.driver import Driver, shown_command
from holdfast.cli.demo.picture import Picture
from holdfast.cli.demo.places import JOB
from holdfast.cli.demo.show import ActFailed, Show
from holdfast.errors import Incompatible, OwnedByAnotherRun
from holdfast.repository.entries import CheckpointCompleted

_FIRST_CHECKPOINTS = 3
_LEAST_OUTAGE_S = 6.0
_FAILURES = 2
_DIFFERENCES_SHOWN = 5
_WATERMARK_DELAY = timedelta(minutes=1)


@dataclass(frozen=True)
class Outcome:
    what: str
    held: bool
    result: str


@dataclass(frozen=True)
class Act:
    title: str
    why: str
    play: Callable[[Show], Outcome]


def run_pipeline(show: Show) -> Outcome:
    seen = show.picture
    show.show_pipeline()
    show.action(shown_command(show.places))
    show.start_driver()
    if show.plain is not None:
        show.plain.start()
    show.until(lambda: bool(seen.batches), "a first batch")
    show.until(lambda: len(seen.completed) >= _FIRST_CHECKPOINTS and seen.rows > 0, "checkpoints and rows in the table")
    beside.ran(show)
    return Outcome("the pipeline ran", True, f"{len(seen.completed)} checkpoints while {len(seen.batches)} batches ran")


def lose_driver_and_disk(show: Show) -> Outcome:
    seen = show.picture
    completed = len(seen.completed)
    # Not right after a checkpoint: some batches must be lost with the disk and run again.
    show.until(lambda: len(seen.completed) > completed, "one more checkpoint")
    show.until(lambda: _beyond(seen) >= 1, "batches beyond the checkpoint")
    show.action(f"kill -9 {show.driver.pid} && rm -r work")
    show.driver.kill()
    crashed = beside.crash(show)
    show.look()
    newest, lost, epoch, completed = _newest(seen), seen.batch, seen.epoch, len(seen.completed)
    shutil.rmtree(show.places.work)
    show.action(shown_command(show.places))
    show.start_driver()
    began = show.now()
    show.until(lambda: seen.epoch > epoch, "a new run")
    resumed = f"resuming at batch {newest.barrier_batch_id} from checkpoint {newest.id}"
    show.until(lambda: any(line.text == resumed for line in seen.log_lines), f"{resumed!r} in the log")
    first = len(seen.batches)
    show.until(lambda: len(seen.batches) > first, "a batch after recovery")
    took, again = show.now() - began, seen.batches[first].id
    show.until(lambda: len(seen.completed) > completed, "a checkpoint of the new run")
    beside.came_back(show, crashed)
    held = again == newest.barrier_batch_id + 1 and _newest(seen).id > newest.id
    return Outcome(
        f"driver killed at batch {lost}, disk wiped",
        held,
        f"back from checkpoint {newest.id} in {took:.0f} s, continued at batch {again}",
    )


def make_home_unreachable(show: Show) -> Outcome:
    seen, places = show.picture, show.places
    completed, logged, recorded, epoch = len(seen.completed), seen.failures_logged, len(seen.failed), seen.epoch
    show.action("mv home home.away")
    places.home.rename(places.moved_home)
    died = beside.store_away(show)
    began, before = show.now(), len(seen.batches)
    show.until(
        lambda: seen.failures_logged >= logged + _FAILURES and show.now() - began >= _LEAST_OUTAGE_S,
        "failed checkpoints",
    )
    show.until(lambda: len(seen.batches) >= before + 2, "batches while the home was unreachable")
    none_completed = len(seen.completed) == completed
    show.action("mv home.away home")
    places.moved_home.rename(places.home)
    beside.store_back(show, died)
    away, ran = show.now() - began, len(seen.batches) - before
    show.until(lambda: len(seen.completed) > completed, "a checkpoint after the home came back")
    healed = seen.completed[completed]
    show.until(lambda: len(seen.failed) >= recorded + _FAILURES, "the failures in the history")
    held = none_completed and seen.epoch == epoch and seen.restarts == 0
    return Outcome(
        f"home unreachable for {away:.0f} s",
        held,
        f"{ran} more batches ran, {len(seen.failed) - recorded} checkpoints failed, then {healed.id} completed",
    )


def start_a_second_deployment(show: Show) -> Outcome:
    seen, places = show.picture, show.places
    log = places.root / "second.log"
    show.action(shown_command(places))
    second = Driver(places, work=places.root / "work-2", log=log)
    try:
        show.until(lambda: second.exit_code is not None, "the second deployment to end")
    finally:
        second.kill()
    message = log.read_text().strip()
    show.quote(message)
    completed = len(seen.completed)
    show.until(lambda: len(seen.completed) > completed, "a checkpoint of the first deployment afterwards")
    beside.second_deployment(show)
    owner = f"pid {show.driver.pid}"
    held = (
        second.exit_code == OwnedByAnotherRun.exit_code
        and owner in message
        and _newest(seen).fencing_epoch == seen.epoch
        and show.driver.exit_code is None
    )
    return Outcome(
        "second deployment of the same job", held, f"refused with exit code {second.exit_code}, naming {owner}"
    )


def deploy_swapped_sums(show: Show) -> Outcome:
    """Spark's state has the columns of the output, in its order. Both are whole numbers: it adds money to counts."""
    seen, places = show.picture, show.places
    show.stop_driver()
    epoch, rows = seen.epoch, seen.rows
    swap_sums(places.pipeline)
    beside.redeploy(show)
    show.show_pipeline()
    show.action(shown_command(places))
    log = places.root / "swapped.log"
    swapped = Driver(places, work=places.work, log=log)
    try:
        show.until(lambda: swapped.exit_code is not None, "the changed deployment to end")
    finally:
        swapped.kill()
    show.quote("\n".join(_refusal(log.read_text())))
    show.look()
    beside.computed_wrongly(show)
    held = swapped.exit_code == Incompatible.exit_code and (seen.epoch, seen.rows) == (epoch, rows)
    result = f"refused with exit code {swapped.exit_code}, table unchanged"
    return Outcome("a deployment reordered two sums", held, result)


def roll_back(show: Show) -> Outcome:
    """Somebody forces it through all the same, and an hour later the numbers look odd."""
    seen, places = show.picture, show.places
    good = _newest(seen)
    show.action(shown_command(places, "--force"))
    show.start_driver("--force")
    show.until(lambda: _wrong_rows(show) > 0, "wrong rows in the table")
    wrong = _wrong_rows(show)
    show.find(f"{wrong} rows of the table are wrong", held=False)
    show.stop_driver()
    swap_sums(places.pipeline)
    beside.redeploy(show)
    show.action(f"holdfast rollback {JOB}@{good.id} --home home")
    show.answer(rolled_back(places, good.id))
    show.action(shown_command(places))
    before = seen.epoch
    show.start_driver()
    show.until(lambda: seen.epoch > before and _wrong_rows(show) == 0, "a table without wrong rows")
    completed = len(seen.completed)
    show.until(lambda: len(seen.completed) > completed, "a checkpoint of the new run")
    left = _wrong_rows(show)
    show.find(f"{left} rows of the table are wrong", held=left == 0)
    beside.stayed_wrong(show)
    return Outcome(
        f"forced through: {wrong} wrong rows", left == 0, f"rolled back to checkpoint {good.id}, {left} wrong rows"
    )


def stop(show: Show) -> Outcome:
    seen = show.picture
    closed = show.end_input() - _WATERMARK_DELAY
    closed_ms = int(closed.timestamp() * 1000)
    show.until(lambda: bool(seen.batches) and seen.batches[-1].watermark_ms >= closed_ms, "the last window to close")
    beside.finished(show)
    show.stop_driver()
    driver, last = show.driver, _newest(seen)
    held = driver.exit_code == 0 and seen.ended is not None and last.barrier_batch_id == seen.batch
    result = f"checkpoint {last.id} holds batch {last.barrier_batch_id} of {seen.batch}, exit code {driver.exit_code}"
    return Outcome("stopped with SIGTERM", held, result)


def compare_with_batch(show: Show) -> Outcome:
    answer, table = recompute(show.places.input), read_table(show.places.table)
    found = compare(answer, table)
    orders = f"{show.arrivals.orders} orders in {show.arrivals.files} files"
    show.find(f"{orders} give {len(answer)} rows, the table has {len(table)}", held=found.exact)
    for row in (*found.missing, *found.unexpected)[:_DIFFERENCES_SHOWN]:
        kind = "missing" if row in found.missing else "wrong or duplicate"
        show.find(f"{kind}: {', '.join(map(str, row))}", held=False)
    result = f"{len(found.missing)} rows missing, {len(found.unexpected)} wrong or duplicate"
    if found.exact:
        result = f"{found.rows} rows, all equal, none missing, none duplicate"
    return Outcome("table recomputed in batch", found.exact, result)


ACTS = (
    Act("A pipeline", "orders per shop and minute, by event time, into a Delta table", run_pipeline),
    Act("The driver crashes and its disk is lost", "state and output must be restored together", lose_driver_and_disk),
    Act(
        "The home is unreachable for a while", "checkpoints fail, the pipeline must keep running", make_home_unreachable
    ),
    Act("The job is started a second time", "two writers would corrupt the table", start_a_second_deployment),
    Act("A deployment reorders two sums", "Spark would silently add money to counts", deploy_swapped_sums),
    Act("Forced through, and rolled back", "wrong rows must leave the table, right ones must stay", roll_back),
    Act("A clean stop", "the last batches must not be lost", stop),
    Act("Was it exact?", "the same answer without Spark, from the input files", compare_with_batch),
)


def play(show: Show) -> list[Outcome]:
    """All acts, until one fails."""
    outcomes: list[Outcome] = []
    for number, act in enumerate(ACTS, start=1):
        show.begin_act(number, act.title, act.why)
        try:
            outcomes.append(act.play(show))
        except ActFailed as error:
            outcomes.append(Outcome(act.title, False, str(error)))
            break
    return outcomes


def all_held(outcomes: list[Outcome]) -> bool:
    return len(outcomes) == len(ACTS) and all(outcome.held for outcome in outcomes)


def _newest(seen: Picture) -> CheckpointCompleted:
    newest = seen.newest
    if newest is None:
        raise ActFailed("there is no checkpoint")
    return newest


def _wrong_rows(show: Show) -> int:
    """Rows that the input does not give; what is not written yet is no mistake."""
    return len(compare(recompute(show.places.input), read_table(show.places.table)).unexpected)


def _refusal(log: str) -> list[str]:
    """What the user is told, without the lines of the start before it."""
    lines = log.strip().splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("holdfast: ")), 0)
    return lines[first:]


def _beyond(seen: Picture) -> int:
    """Batches that were committed after the newest checkpoint's barrier."""
    return seen.batch - _newest(seen).barrier_batch_id
