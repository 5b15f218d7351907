"""kill -9 again and again, the disk wiped each time: writers of one's own, by place, source and state.

    python -m tests.kills --minutes 60 [--seed N] [--only files-s3-kafka-stateful] [--plain] [--lives 6]

Each story is one job: lives that end at a random moment with `kill -9` and a wiped work directory, then one that reads
what is left and ends. Then the output is compared, row by row, with the answer of a batch query over the same input.
One line for each life, with the story's seed; in the end a table with the kills of each cell. Ends with exit code 1
when a story was not exact: `--only CELL --seed N --stories 1` repeats it, as far as time does.

The drivers of a version of Spark share a JVM, so a life takes seconds. What dies with SIGKILL is all of Python; Spark's
part is ended right after. That the JVM dies at that very moment: `tests/end_to_end/test_own_writer_kills.py`.

`--plain` is the same for plain Spark, whose checkpoint directory is copied every three seconds as `aws s3 sync` does
it, and is put back from there after each kill. It tells how many rows are lost or doubled, or that it cannot go on.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from tests import short_lived_jvm
from tests.compat.environments import OWN, interpreter_of
from tests.end_to_end.connectors import DELTA_SPARK, ICEBERG_SPARK, kafka_broker
from tests.end_to_end.kafka_jobs import Topic
from tests.end_to_end.own_writer_driver import jars_of_all
from tests.end_to_end.own_writer_story import OF_DELTA, SETTLED, Died, Feed, Story, into_files, python_for
from tests.end_to_end.postgres import postgres_server, sql
from tests.end_to_end.warm_jvm import WarmJvm
from tests.stores.s3 import BUCKET, S3Server, s3_server

WRITERS = ("files", "postgres", *OF_DELTA, "iceberg", "ours", "our_files")
PLACES = ("disk", "s3")
OF_KAFKA = ("kafka", "transactions")
SOURCES = ("rate", "files", *OF_KAFKA)
KINDS = ("stateful", "stateless")
COPIED_EVERY_S = 3.0


@dataclass(frozen=True)
class Cell:
    writer: str
    place: str
    """Of the home."""
    source: str
    kind: str

    def __str__(self) -> str:
        return f"{self.writer}-{self.place}-{self.source}-{self.kind}"


def cells(*, plain: bool) -> list[Cell]:
    """The connector to Kafka exists for Spark 4.2, works with 4.3, and not with the version that Iceberg is for."""
    return [
        Cell(writer, place, source, kind)
        for writer in WRITERS
        for place in PLACES
        for source in SOURCES
        for kind in KINDS
        if not (writer == "iceberg" and source in OF_KAFKA)
        if not (plain and (place == "s3" or writer in ("ours", "our_files")))
    ]


@dataclass
class Outcome:
    kills: Counter[Cell] = field(default_factory=Counter)
    stories: Counter[Cell] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lost: Counter[Cell] = field(default_factory=Counter)
    doubled: Counter[Cell] = field(default_factory=Counter)
    ended: Counter[Cell] = field(default_factory=Counter)
    """Stories in which the query could not go on."""
    rows: Counter[Cell] = field(default_factory=Counter)


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Servers:
    """Started when they are needed, ended with the campaign."""

    def __init__(self, root: Path, held: ExitStack) -> None:
        self._root = root
        self._held = held
        self._jvms: dict[str, WarmJvm] = {}

    @cache  # noqa: B019
    def s3(self) -> S3Server:
        place = self._root / "s3"
        place.mkdir()
        return self._held.enter_context(s3_server(place))

    @cache  # noqa: B019
    def kafka(self) -> str:
        return self._held.enter_context(kafka_broker(self._root / "kafka"))

    @cache  # noqa: B019
    def postgres(self) -> str:
        return self._held.enter_context(postgres_server(self._root / "postgres"))

    def jvm(self, writer: str) -> WarmJvm:
        python = python_for(writer)
        if python not in self._jvms:
            version, writers = OWN, ("files",)
            if writer in OF_DELTA:
                version, writers = DELTA_SPARK, OF_DELTA
            elif writer == "iceberg":
                version, writers = ICEBERG_SPARK, ("iceberg",)
            self._jvms[python] = WarmJvm({"spark.jars": jars_of_all(writers)}, _spark_home(version))
        return self._jvms[python]


def _spark_home(version: str) -> Path | None:
    if version == OWN:
        return None
    (found,) = Path(interpreter_of(version)).parents[1].glob("lib/python*/site-packages/pyspark")
    return found


class Campaign:
    def __init__(self, servers: Servers, root: Path, *, lives: int, plain: bool) -> None:
        self._servers = servers
        self._root = root
        self._lives = lives
        self._plain = plain
        self._told = 0
        self.outcome = Outcome()

    def play(self, cell: Cell, seed: int, over: Callable[[], bool]) -> None:
        chance = random.Random(f"{seed} {cell}")
        root = Path(tempfile.mkdtemp(dir=self._root, prefix=f"{cell}-{seed}-"))
        story = self._story(cell, root)
        feed = self._feed(cell, root)
        with feed.running(), self._copying(story):
            exact = self._live(cell, seed, story, chance, over) and self._is_exact(cell, seed, story, feed)
        self.outcome.stories[cell] += 1
        if exact or self._plain:
            shutil.rmtree(root)
        if not exact:
            self.outcome.wrong.append(f"--only {cell} --seed {seed}: {root}")

    def _story(self, cell: Cell, root: Path) -> Story:
        environment, home = {}, None
        if cell.place == "s3":
            server = self._servers.s3()
            environment = {**server.environment, "HOLDFAST_OWN_HOME": server.home(root.name)}
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
            plainly=self._plain,
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
        if not self._plain:
            yield
            return
        over = threading.Event()

        def copy() -> None:
            while not over.wait(COPIED_EVERY_S):
                sync(story.checkpoint, story.root / "copied")

        thread = threading.Thread(target=copy)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _live(self, cell: Cell, seed: int, story: Story, chance: random.Random, over: Callable[[], bool]) -> bool:
        """Whether the query always went on."""
        reached = -1
        for life in range(self._lives):
            if over():
                break
            try:
                moment, reached = self._one_life(story, chance, reached)
            except Died as error:
                return self._ended(cell, seed, story, f"life {life}", error)
            self.outcome.kills[cell] += 1
            rows = story.rows() if story.writer in SETTLED else None
            doubled = 0 if rows is None else len(rows) - len(set(rows))
            shown = "" if rows is None else f", {len(rows)} rows, {doubled} double"
            tell(f"{time.strftime('%H:%M:%S')} seed={seed} {cell} life {life}: killed {moment}{shown}")
        return True

    def _one_life(self, story: Story, chance: random.Random, reached: int) -> tuple[str, int]:
        """Ends at a random moment: while it starts, while it repeats, some batches behind a checkpoint, or whenever."""
        before = story.completed()
        driver = story.life()
        wanted = chance.choice(("start", "batches", "batches", "checkpoint", "checkpoint"))
        if wanted == "start" and reached >= 0:
            driver.wait_for(lambda: story.planned() >= 0)
            delay = chance.random() * 4
        else:
            if wanted == "checkpoint" and not self._plain:
                driver.wait_for(lambda: story.completed() > before)
            beyond = max(reached, story.planned()) + chance.randrange(1, 9)
            driver.wait_for(lambda: story.planned() >= beyond)
            delay = chance.random() * 0.4
        with suppress(Died):  # it is to die anyway, and may do so by itself
            ends = time.monotonic() + delay
            driver.wait_for(lambda: time.monotonic() >= ends)
        driver.end(signal.SIGKILL)
        planned = story.planned()
        moment = f"at batch {planned}, {story.completed()} checkpoints ({wanted})"
        if self._plain:
            shutil.rmtree(story.checkpoint, ignore_errors=True)
            sync(story.root / "copied", story.checkpoint)
        else:
            story.wipe()
        return moment, max(reached, planned)

    def _is_exact(self, cell: Cell, seed: int, story: Story, feed: Feed) -> bool:
        feed.stop()
        try:
            story.life("finish").finish()
        except Died as error:
            return self._ended(cell, seed, story, "the last life", error)
        found = story.rows()
        answer = list(range(found[-1] + 1)) if cell.source == "rate" and found else feed.answer
        lost, doubled = len(set(answer) - set(found)), len(found) - len(set(found))
        strange = len(set(found) - set(answer))
        self.outcome.lost[cell] += lost
        self.outcome.doubled[cell] += doubled
        self.outcome.rows[cell] += len(answer)
        back = story.taken_back()
        exact = found == answer and bool(found) and not back
        repeated = story.log.read_text(errors="replace").count(" planned batches, from")
        rows = f"{len(found)} of {len(answer)} rows, plans repeated in {repeated} lives"
        shown = (
            "exact"
            if exact
            else f"WRONG: {lost} lost, {doubled} double, {strange} that nobody sent, taken back: {back}"
        )
        tell(f"{time.strftime('%H:%M:%S')} seed={seed} {cell}: {rows}, {shown}")
        return exact

    def _ended(self, cell: Cell, seed: int, story: Story, where: str, error: Died) -> bool:
        self.outcome.ended[cell] += 1
        last = [line for line in str(error).splitlines() if line.strip()][-1:]
        tell(f"{time.strftime('%H:%M:%S')} seed={seed} {cell} {where}: WRONG: it cannot go on: {last}; {story.log}")
        return False


def sync(source: Path, target: Path) -> None:
    """File by file, as they are found, while they change: what is new is copied, what is gone stays."""
    for path in sorted(source.rglob("*")) if source.exists() else ():
        copy = target / path.relative_to(source)
        with suppress(OSError):
            if path.is_file() and (not copy.exists() or copy.stat().st_mtime != path.stat().st_mtime):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--stories", type=int, default=10**9)
    parser.add_argument("--lives", type=int, default=6, help="kills in a story")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", default="*", help="cells by name, with * and ?; several, with commas")
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    chosen = [
        cell for cell in cells(plain=given.plain) if any(fnmatch(str(cell), name) for name in given.only.split(","))
    ]
    random.Random(given.seed).shuffle(chosen)
    ends = time.monotonic() + given.minutes * 60
    os.environ["JDK_JAVA_OPTIONS"] = short_lived_jvm.options()
    root = Path(tempfile.mkdtemp(prefix="kills-"))
    with ExitStack() as held:
        campaign = Campaign(Servers(root, held), root, lives=given.lives, plain=given.plain)
        story = 0
        while time.monotonic() < ends and story < given.stories:
            campaign.play(chosen[story % len(chosen)], given.seed + story, lambda: time.monotonic() >= ends)
            story += 1
    return summed_up(campaign.outcome, plain=given.plain)


def summed_up(outcome: Outcome, *, plain: bool) -> int:
    for cell in sorted(outcome.stories, key=str):
        told = (
            f", {outcome.lost[cell]} lost, {outcome.doubled[cell]} double, {outcome.ended[cell]} ended" if plain else ""
        )
        tell(f"{cell}: {outcome.kills[cell]} kills in {outcome.stories[cell]} stories, {outcome.rows[cell]} rows{told}")
    tell(f"{outcome.kills.total()} kills, {outcome.stories.total()} stories, {len(outcome.wrong)} wrong")
    for wrong in outcome.wrong:
        tell(f"wrong: {wrong}")
    return 1 if outcome.wrong and not plain else 0


if __name__ == "__main__":
    sys.exit(main())
