"""Stories, each a job of its own: killed, wiped, started again, and compared."""

import random
import re
import shutil
import signal
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.kafka_jobs import Topic
from tests.end_to_end.own_writer_story import SETTLED, Died, Feed, Story, into_files
from tests.end_to_end.postgres import sql
from tests.kills.cells import OF_KAFKA, Cell, Variant
from tests.kills.outcome import Tally, tell
from tests.kills.servers import Servers
from tests.stores.s3 import BUCKET

COPIED_EVERY_S = 3.0
INTERVALS = ("1s", "2s", "4s")
MOMENTS = ("early", "start", "batches", "batches", "checkpoint", "checkpoint")
_ERROR = re.compile(r"could not|Exception|Error\b")
REFUSED = 2
"""The exit code of a start that holdfast refuses."""


@dataclass
class Played:
    """A story, and what became of it so far."""

    name: str
    story: Story
    chance: random.Random
    tally: Tally
    reached: int = -1
    """The newest batch that any life has planned."""


class Campaign:
    def __init__(self, servers: Servers, root: Path, variant: Variant, *, lives: int) -> None:
        self._servers = servers
        self._root = root
        self._lives = lives
        self._variant = variant
        self.tallies: defaultdict[Cell, Tally] = defaultdict(Tally)
        self.wrong: list[str] = []

    @property
    def kills(self) -> int:
        return sum(tally.kills for tally in self.tallies.values())

    def play(self, cell: Cell, seed: int, over: Callable[[], bool]) -> None:
        began = time.monotonic()
        chance = random.Random(f"{seed} {cell}")
        root = Path(tempfile.mkdtemp(dir=self._root, prefix=f"{cell}-{seed}-"))
        story = self._story(cell, root, chance)
        played = Played(f"seed={seed} {self._variant} {cell}", story, chance, Tally(stories=1))
        feed = self._feed(cell, root)
        with feed.running(), self._copying(story):
            if self._went_on(played, over):
                feed.stop()
                self._compare(played, cell, feed)
        tally = played.tally
        if tally.ended:
            tally.wrong = 1
        tally.repeated = story.log.read_text(errors="replace").count(" planned batches, from")
        tally.seconds = time.monotonic() - began
        tell(f"{played.name}: {tally}")
        self.tallies[cell] += tally
        if not tally.wrong or self._variant != "holdfast":
            shutil.rmtree(root)
        else:
            self.wrong.append(f"--only {cell} --seed {seed} --stories 1: {root}")

    def _story(self, cell: Cell, root: Path, chance: random.Random) -> Story:
        environment, home = {"HOLDFAST_OWN_INTERVAL": chance.choice(INTERVALS)}, None
        if cell.place == "s3":
            server = self._servers.s3()
            environment |= {**server.environment, "HOLDFAST_OWN_HOME": server.home(root.name)}
            home = server.directory / BUCKET / root.name
        if cell.source in OF_KAFKA:
            environment["HOLDFAST_TOPIC"] = f"{root.name}@{self._servers.kafka()}"
        postgres = self._servers.postgres() if cell.writer == "postgres" else ""
        if postgres:
            sql(postgres, "DROP TABLE IF EXISTS numbers;")
        return Story(
            root,
            cell.writer,
            cell.kind,
            cell.source,
            postgres,
            jvm=self._servers.jvm(cell.writer),
            environment=environment,
            home=home,
            plainly=self._variant == "plain",
            forked=self._servers.forked(cell.writer),
        )

    def _feed(self, cell: Cell, root: Path) -> Feed:
        twice = cell.kind == "stateful"
        if cell.source not in OF_KAFKA:
            return Feed(into_files(root / "in"), twice=twice)
        topic = Topic(self._servers.kafka(), root.name)
        if cell.source == "transactions":
            return Feed(topic.send_committed, twice=twice)
        return Feed(lambda portion, numbers: topic.send(numbers), twice=twice)

    @contextmanager
    def _copying(self, story: Story) -> Iterator[None]:
        if self._variant != "plain":
            yield
            return
        over = threading.Event()

        def copy() -> None:
            while not over.wait(COPIED_EVERY_S):
                sync(story.checkpoint, copied(story))

        thread = threading.Thread(target=copy)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _went_on(self, played: Played, over: Callable[[], bool]) -> bool:
        """Through all of its lives."""
        for life in range(self._lives):
            if over():
                break
            moment = "first" if life == 0 else played.chance.choice(MOMENTS)
            try:
                self._started(played, lambda *how: self._killed(played, moment, how))  # noqa: B023
            except Died as error:
                return self._ended(played, f"life {life}", error)
            self._wipe(played.story)
            played.tally.kills += 1
            tell(f"{played.name} life {life}: killed at batch {played.reached} ({moment}){self._shown(played.story)}")
        return True

    def _started(self, played: Played, live: Callable[..., None]) -> None:
        """As a person would: a start that is refused is forced. Raises `Died` when the query cannot go on."""
        if self._variant != "off":
            live()
            return
        try:
            live("without_plans")
        except Died as error:
            if error.code != REFUSED:
                raise
            played.tally.refused += 1
            live("without_plans", "accepting")

    def _killed(self, played: Played, moment: str, how: tuple[str, ...]) -> None:
        """After some batches behind those that were planned before, or behind the next checkpoint; while it starts or
        repeats; or whenever."""
        story, chance = played.story, played.chance
        before = story.completed()
        driver = story.life(*how)
        if moment == "early":
            delay = chance.random() * 4
        elif moment == "start":
            driver.wait_for(lambda: story.planned() >= 0)
            delay = chance.random() * 2
        else:
            # Behind its first checkpoint, or copy: without one there is nothing to go on with, whatever is used.
            if moment == "checkpoint" or (moment == "first" and (self._variant != "holdfast" or chance.random() < 0.5)):
                driver.wait_for(lambda: self._is_kept(story, before))
            beyond = max(played.reached, story.planned()) + chance.randrange(1, 5)
            driver.wait_for(lambda: story.planned() >= beyond)
            delay = chance.random() * 0.4
        ends = time.monotonic() + delay
        try:
            driver.wait_for(lambda: time.monotonic() >= ends)
        finally:
            played.reached = max(played.reached, story.planned())
        driver.end(signal.SIGKILL)
        played.reached = max(played.reached, story.planned())

    def _is_kept(self, story: Story, before: int) -> bool:
        if self._variant == "plain":
            return any(copied(story).glob("commits/[0-9]*"))
        return story.completed() > before

    def _wipe(self, story: Story) -> None:
        if self._variant != "plain":
            story.wipe()
            return
        shutil.rmtree(story.checkpoint, ignore_errors=True)
        sync(copied(story), story.checkpoint)

    def _shown(self, story: Story) -> str:
        if story.writer not in SETTLED:
            return ""
        rows = story.rows()
        return f", {len(rows)} rows, {len(rows) - len(set(rows))} double"

    def _compare(self, played: Played, cell: Cell, feed: Feed) -> None:
        """Row by row, with the answer of a batch query over all of the input."""
        story, tally = played.story, played.tally
        try:
            self._started(played, lambda *how: story.life(*how, "finish").finish())
        except Died as error:
            self._ended(played, "the last life", error)
            return
        found = story.rows()
        answer = list(range(found[-1] + 1)) if cell.source == "rate" and found else feed.answer
        tally.rows = len(answer)
        tally.lost, tally.doubled = len(set(answer) - set(found)), len(found) - len(set(found))
        tally.strange = len(set(found) - set(answer))
        back = story.taken_back()
        if back:
            tell(f"{played.name}: taken back from readers: {back}")
        tally.wrong = int(found != answer or not found or bool(back))

    def _ended(self, played: Played, where: str, error: Died) -> bool:
        played.tally.ended = 1
        why = [line.strip() for line in str(error).splitlines() if _ERROR.search(line)][-1:]
        tell(f"{played.name} {where}: it cannot go on, exit code {error.code}: {why}")
        return False


def copied(story: Story) -> Path:
    return story.root / "copied"


def sync(source: Path, target: Path) -> None:
    """As `aws s3 sync` does it: file by file, as they are found, while they change. What is new is copied, what is gone
    stays."""
    for path in sorted(source.rglob("*")) if source.exists() else ():
        copy = target / path.relative_to(source)
        with suppress(OSError):
            if path.is_file() and (not copy.exists() or copy.stat().st_mtime != path.stat().st_mtime):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)
