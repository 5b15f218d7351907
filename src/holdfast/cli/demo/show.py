"""The demo's loop: adds orders, polls the pipeline and prints events, until a condition holds."""

import textwrap
import time
from collections.abc import Callable, Iterable
from datetime import datetime

from holdfast.cli.demo.arrivals import Arrivals
from holdfast.cli.demo.batch_answer import read_table, recompute
from holdfast.cli.demo.driver import Driver
from holdfast.cli.demo.narrating import Narrator, Said
from holdfast.cli.demo.picture import Picture
from holdfast.cli.demo.places import Places
from holdfast.cli.demo.plain import Plain
from holdfast.cli.demo.score import Score, Side, score
from holdfast.cli.demo.screen import Screen
from holdfast.cli.demo.watching import TableChanged, Watch

_LOOK_EVERY_S = 0.2
_ARRIVE_EVERY_S = 1.0
_PATIENCE_S = 90.0
"""The time-out of one condition; on an idle machine with two cores the longest takes ten seconds."""


class ActFailed(Exception):
    """What an act waited for did not happen."""


class Show:
    def __init__(
        self, places: Places, screen: Screen, *, alone: bool = False, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.places = places
        self.plain = None if alone else Plain(places)
        self.score, self.plain_score = Score(), Score()
        self.answered = 0
        """Rows of the answer when a table changed last."""
        self.now = now
        self.picture = Picture()
        self.arrivals = Arrivals(places.input)
        self._screen = screen
        self._narrator = Narrator(places)
        self._driver: Driver | None = None
        self._batches_before = 0
        self._may_end = False
        self._input_open = True
        self._next_arrival = now()
        places.log.touch()
        self._watch = Watch(places)

    @property
    def driver(self) -> Driver:
        assert self._driver is not None, "the first act starts it"
        return self._driver

    def start_driver(self, *options: str) -> None:
        self._may_end = False
        self._batches_before = len(self.picture.batches)
        self._driver = Driver(self.places, *options, work=self.places.work, log=self.places.log)

    def stop_driver(self) -> None:
        """As an operator would, and wait for its end."""
        self.action(f"kill -TERM {self.driver.pid}")
        self._may_end = True
        self.driver.ask_to_stop()
        self.until(lambda: self.driver.exit_code is not None, "the driver to stop")
        self.look()

    def end_input(self) -> datetime:
        """No more orders but one, long after all others. Returns its time."""
        self._input_open = False
        return self.arrivals.end_of_day()

    def awhile(self, reached: Callable[[], bool]) -> bool:
        """Loop until `reached`, or until patience ends: for what plain Spark does, which nobody promised."""
        deadline = self.now() + _PATIENCE_S
        while not reached() and self.now() < deadline:
            self.look()
            time.sleep(_LOOK_EVERY_S)
        return reached()

    def until(self, reached: Callable[[], bool], what: str) -> None:
        """Loop until `reached`. Raises `NotReached` when that takes too long, or when the driver ends."""
        deadline = self.now() + _PATIENCE_S
        while not reached():
            self.look()
            if reached():
                return
            if self._driver is not None and self._driver.exit_code is not None and not self._may_end:
                code = self._driver.exit_code
                raise ActFailed(f"waited for {what}, but the driver ended with {code}: see {self.places.log}")
            if self.now() > deadline:
                raise ActFailed(f"waited {_PATIENCE_S:.0f} s for {what}: see {self.places.log}")
            time.sleep(_LOOK_EVERY_S)

    def look(self) -> None:
        """One turn of the loop."""
        if self._input_open and self.now() >= self._next_arrival:
            self._next_arrival += _ARRIVE_EVERY_S
            self.arrivals.arrive()
        sights = self._watch.poll()
        for sight in sights:
            self.picture.add(sight)
            self._print_events(self._narrator.narrate(sight))
        self._print_events(self._narrator.turn_ends())
        self._count(changed=any(isinstance(sight, TableChanged) for sight in sights))
        self._screen.draw(self.picture, self._sides())

    def begin_act(self, number: int, title: str, why: str) -> None:
        self._print_events(self._narrator.let_go())
        self._screen.act(number, title, why)

    def action(self, words: str) -> None:
        self._print_events(self._narrator.let_go())
        self._screen.print_event(Said(words, "action"))

    def tell_plain(self, words: str) -> None:
        """What became of plain Spark in this act, and what readers of its table see."""
        self._print_events(self._narrator.let_go())
        self._screen.print_event(Said(f"plain Spark: {words}: {self.plain_score}", "beside"))

    def find(self, words: str, *, held: bool) -> None:
        self._screen.print_event(Said(words, "good" if held else "bad"))

    def show_pipeline(self) -> None:
        """The part of the file with the computation."""
        _, _, chain = self.places.pipeline.read_text().partition("return (\n")
        self._screen.code(textwrap.dedent(chain.rpartition("\n    )")[0]).splitlines())

    def quote(self, words: str) -> None:
        """Output of another process, verbatim."""
        for line in words.splitlines():
            self._screen.print_event(Said(line, "bad"))

    def answer(self, words: str) -> None:
        """Of a command that did what it was asked."""
        for line in words.splitlines():
            self._screen.print_event(Said(line, "good"))

    def close(self) -> None:
        """End all processes, and move the home back."""
        self._print_events(self._narrator.let_go())
        if self._driver is not None:
            self._driver.kill()
        if self.plain is not None:
            self.plain.kill()
        if self.places.moved_home.exists():
            self.places.moved_home.rename(self.places.home)

    def _print_events(self, lines: Iterable[Said]) -> None:
        for line in lines:
            self._screen.print_event(line)

    def _count(self, *, changed: bool) -> None:
        plain_changed = self.plain is not None and self.plain.look()
        if not (changed or plain_changed):
            return
        answer = recompute(self.places.input)
        self.answered = len(answer)
        if changed:
            self.score = score(answer, read_table(self.places.table))
        if self.plain is not None and plain_changed:
            self.plain_score = score(answer, self.plain.rows)

    def _sides(self) -> tuple[Side, ...]:
        ours = Side("holdfast", self._driver_state(), self.picture.batch, self.score)
        if self.plain is None:
            return (ours,)
        state = " and ".join(f"pid {pid}" for pid in self.plain.pids) or "dead"
        return (Side("plain Spark", state, self.plain.batch, self.plain_score), ours)

    def _driver_state(self) -> str:
        if self._driver is None:
            return "not started"
        if self._driver.exit_code is not None:
            return "dead" if self._driver.exit_code else "stopped"
        return f"{self._driver_does()}, pid {self._driver.pid}"

    def _driver_does(self) -> str:
        run = self.picture.run
        if run is None or run.pid != self.driver.pid:
            return "starting Spark"
        return "running batches" if len(self.picture.batches) > self._batches_before else "starting the query"
