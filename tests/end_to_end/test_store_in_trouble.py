"""A pipeline whose home is an S3 server in every kind of trouble, one after the other, in one life of its driver.

Each trouble begins in the middle of a checkpoint, when its files are uploaded and the rest is not. HOLDFAST_OUTAGE
says for how many seconds the store stays away, HOLDFAST_SLOW how many seconds each request of the second life takes.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.coordination.coordinator import FAILING
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.journal import read_entries
from holdfast.repository.retention import keys_of
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore
from holdfast.storage.urls import open_store
from tests.end_to_end.harness import Driver, Pipeline
from tests.stores.proxy import Fate, Proxy, Seen, Status, proxy_to
from tests.stores.s3 import SECRET_KEY, S3Server, s3_server

OUTAGE = float(os.environ.get("HOLDFAST_OUTAGE", "0"))
SLOW = float(os.environ.get("HOLDFAST_SLOW", "0.2"))
SESSION_TOKEN = "FwoGZXIvYXdzEXAMPLE-session-token-of-the-test"
UNREACHABLE, DENIED = FailureReason.STORAGE_UNREACHABLE, FailureReason.STORAGE_DENIED
SLOW_MACHINE = "no answer in time"
"""May come in between: all there is to answer is on this machine, and has three seconds."""
FULL, IN_DOUBT = FailureReason.STORAGE_FULL, FailureReason.OUTCOME_UNKNOWN


def is_put(seen: Seen, folder: str) -> bool:
    return seen.method == "PUT" and f"/{folder}/" in seen.path


@dataclass(frozen=True)
class Trouble:
    name: str
    reasons: frozenset[FailureReason]
    said: str
    """What the messages of its failures hold."""
    fate: Callable[[Seen], Fate | Status]
    begins_at: str = "manifests"
    """With the first request that creates an object below this folder, once a file has been uploaded."""
    refuses: bool = False
    """Connections are broken and refused, besides."""


def refused(code: int, error: str, *, writes_only: bool = False) -> Callable[[Seen], Fate | Status]:
    status = Status(code, f"<Error><Code>{error}</Code></Error>".encode())
    return lambda seen: Fate.PASS if writes_only and seen.method in ("GET", "HEAD") else status


TROUBLES = (
    Trouble(
        "refusing connections", frozenset({UNREACHABLE}), "connection", lambda seen: Fate.LOSE_REQUEST, refuses=True
    ),
    # The entry that completes the checkpoint is the first that gets no answer.
    Trouble("hanging", frozenset({IN_DOUBT, UNREACHABLE}), "no answer in time", lambda seen: Fate.HOLD, "journal"),
    Trouble("full", frozenset({FULL}), "507 XMinioStorageFull", refused(507, "XMinioStorageFull", writes_only=True)),
    Trouble("read-only", frozenset({DENIED}), "403 AccessDenied", refused(403, "AccessDenied", writes_only=True)),
    Trouble(
        "without valid credentials", frozenset({DENIED}), "403 InvalidAccessKeyId", refused(403, "InvalidAccessKeyId")
    ),
    Trouble("with an expired token", frozenset({DENIED}), "400 ExpiredToken", refused(400, "ExpiredToken")),
)


class Armed:
    """Lets everything pass until a checkpoint under way comes to the point where the trouble begins."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._begun = self._has_manifest = False
        self.uploaded: set[str] = set()
        """Objects of the checkpoint under way: no entry of the journal was written since."""

    def __call__(self, seen: Seen) -> Fate | Status:
        ready = self._has_manifest if self._trouble.begins_at == "journal" else self.uploaded
        if self._begun or (ready and is_put(seen, self._trouble.begins_at)):
            self._begun = True
            return self._trouble.fate(seen)
        if is_put(seen, "journal"):
            self._has_manifest, self.uploaded = False, set()
        elif is_put(seen, "packs"):
            self.uploaded.add(seen.path.partition("/counts/")[2])
        elif is_put(seen, "manifests"):
            self._has_manifest = True
        return Fate.PASS


@dataclass
class Story:
    """What happened, for the tests to look at."""

    pipeline: Pipeline
    proxy: Proxy
    server: S3Server
    uploaded: dict[str, frozenset[str]] = field(default_factory=dict)
    """Trouble → objects that the checkpoint had uploaded when it began."""
    completed_before: dict[str, frozenset[int]] = field(default_factory=dict)
    failed_before: dict[str, int] = field(default_factory=dict)
    stopped: tuple[int, str] = (0, "")
    """How a stop ended while the store was down."""
    quiet: list[Seen] = field(default_factory=list)
    """All requests while the first checkpoints were made."""
    command_lines: str = ""
    told: list[str] = field(default_factory=list)
    """Output of commands."""

    @property
    def store(self) -> ObjectStore:
        return open_store(self.server.home("homes")).scoped("counts")

    def state(self) -> JobState:
        return JobState.of(read_entries(self.store))


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    root = tmp_path_factory.mktemp("trouble")
    with (
        s3_server(tmp_path_factory.mktemp("s3")) as server,
        proxy_to(server.endpoint) as proxy,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in {**server.environment, "AWS_SESSION_TOKEN": SESSION_TOKEN}.items():
            environment.setenv(name, value)
        home = server.home("homes", proxy.endpoint)
        pipeline = Pipeline(root, files=60 + int(OUTAGE), state_format="hdfs-unmerged", home_url=home)
        pipeline.hold_back(58 + int(OUTAGE))
        story = Story(pipeline, proxy, server)
        first_life(story)
        second_life(story)
        yield story


def first_life(story: Story) -> None:
    pipeline, proxy = story.pipeline, story.proxy
    proxy.delay = 0.2
    driver = pipeline.start(log_level="DEBUG", tolerable_failures=0, storage_deadline="3s")
    try:
        first_life_of(driver, story)
    finally:
        driver.process.kill()


def first_life_of(driver: Driver, story: Story) -> None:
    pipeline, proxy = story.pipeline, story.proxy
    driver.wait_for("step publish.done")
    for _ in range(3):
        pipeline.feed(1)
        driver.wait_for("step publish.done")
    proxy.delay = 0.0
    story.quiet = list(proxy.seen)
    for trouble in TROUBLES:
        suffer(story, driver, trouble)
    story.command_lines = command_lines(driver.process.pid)
    proxy.refuse()
    pipeline.feed(1)
    driver.wait_for(f"alarm {FAILING} on")
    driver.send(signal.SIGTERM)
    story.stopped = driver.end()
    proxy.judge = lambda seen: Fate.PASS
    proxy.accept()


def suffer(story: Story, driver: Driver, trouble: Trouble) -> None:
    pipeline, proxy = story.pipeline, story.proxy
    proxy.judge = armed = Armed(trouble)
    pipeline.feed(1)
    driver.wait_for(f"alarm {FAILING} on")
    if trouble.refuses:
        proxy.refuse()
    before = story.state()
    story.completed_before[trouble.name] = frozenset(before.completed)
    story.failed_before[trouble.name] = len(before.failed)
    for _ in range(2):
        pipeline.feed(1)
        driver.wait_for("step written")
    over = time.monotonic() + (OUTAGE if trouble.reasons & {UNREACHABLE} else 0)
    driver.wait_for(f"alarm {FAILING} on", times=2)
    while time.monotonic() < over:
        pipeline.feed(1)
        driver.wait_for(f"alarm {FAILING} on")
    story.uploaded[trouble.name] = frozenset(armed.uploaded)
    if trouble.refuses:
        proxy.accept()
    proxy.judge = lambda seen: Fate.PASS
    proxy.release()
    driver.wait_for(f"alarm {FAILING} over")
    driver.wait_for("step publish.done")


def second_life(story: Story) -> None:
    story.pipeline.feed(100)
    story.proxy.delay = SLOW
    story.pipeline.finish(log_level="DEBUG")
    story.proxy.delay = 0.0
    for arguments in (["status"], ["checkpoints", "--json"], ["verify"]):
        story.told.append(command(story, *arguments))
    story.proxy.judge = refused(403, "SignatureDoesNotMatch")
    story.told.append(command(story, "status"))


def command(story: Story, *arguments: str) -> str:
    home = ["--home", story.pipeline.home_url, "--job", "counts"]
    call = [sys.executable, "-m", "holdfast.cli", arguments[0], *home, *arguments[1:]]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return f"{arguments[0]} ended with {done.returncode}\n{done.stdout}{done.stderr}"


def command_lines(pid: int) -> str:
    """Of the process and everything below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return "\n".join([own, *(command_lines(int(child)) for child in children)])


def test_the_pipeline_never_stops_and_its_output_is_exact(story: Story) -> None:
    assert not story.state().restarts, "the query was not touched"
    story.pipeline.require_exact()


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
def test_failures_are_named_after_their_cause(story: Story, trouble: Trouble) -> None:
    names = [each.name for each in TROUBLES]
    following = names[names.index(trouble.name) + 1 :]
    failed = story.state().failed[story.failed_before[trouble.name] :]
    if following:
        failed = failed[: story.failed_before[following[0]] - story.failed_before[trouble.name]]
    counted = [entry.failure for entry in failed if entry.failure.counted]
    assert len(counted) >= 3, "it lasted for several checkpoints"
    by_it = [failure for failure in counted if trouble.said in failure.message]
    assert {FailureReason(failure.reason) for failure in by_it} == trouble.reasons
    others = [failure.message for failure in counted if failure not in by_it]
    assert all(SLOW_MACHINE in message for message in others), others


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
def test_the_first_checkpoint_after_healing_reuses_what_was_uploaded(story: Story, trouble: Trouble) -> None:
    completed = [entry for entry in read_entries(story.store) if isinstance(entry, CheckpointCompleted)]
    healed = next(entry for entry in completed if entry.id not in story.completed_before[trouble.name])
    uploaded = story.uploaded[trouble.name]
    assert uploaded, "the trouble began in the middle of a checkpoint"
    assert uploaded <= keys_of(healed, load_manifest(story.store, healed))


def test_nothing_is_uploaded_twice(story: Story) -> None:
    written = Counter(seen.path for seen in story.proxy.done if is_put(seen, "packs") or is_put(seen, "blobs"))
    assert written
    assert set(written.values()) == {1}


def test_a_checkpoint_is_few_requests(story: Story) -> None:
    """One entry when it begins and one when it is complete, its manifest, a pack per group of shards, and the plans."""
    read = Counter(seen.path for seen in story.quiet if seen.method == "GET" and "/packs/" in seen.path)
    assert max(read.values(), default=0) <= 1, (
        "its offsets, once, when the source is asked how long it keeps their files"
    )
    puts = [seen for seen in story.quiet if seen.method == "PUT" and "owner.json" not in seen.path]
    packs = [seen for seen in puts if is_put(seen, "packs")]
    manifests = [seen for seen in puts if is_put(seen, "manifests")]
    entries = [seen for seen in puts if is_put(seen, "journal")]
    assert len(packs) <= 3 * len(manifests), "the control shard and two partitions"
    assert len(entries) <= 2 + 2 * len(manifests), "the claim, two each, and one that has just begun"
    besides = 4
    """The probe, twice; the home's identity; the reserve."""
    plans = [seen for seen in puts if is_put(seen, "blobs")]
    assert len(plans) <= 3 * len(manifests), "of its batches, and before that of each quarter of what Spark keeps"
    assert len(puts) <= besides + len(packs) + len(manifests) + len(entries) + len(plans)


def test_a_stop_while_the_store_is_down_ends_and_says_so(story: Story) -> None:
    code, last = story.stopped
    assert code == 6
    assert last.startswith("error 6 job 'counts' stopped: the last checkpoint could not be completed")
    assert "storage_unreachable" in last
    assert "no connection to the server" in last


def test_secrets_appear_nowhere(story: Story) -> None:
    written = [path for root in (story.pipeline.root, story.server.directory) for path in root.rglob("*")]
    places = {str(path): path.read_bytes() for path in written if path.is_file()}
    places["process list"] = story.command_lines.encode()
    places["commands"] = "\n".join(story.told).encode()
    assert len(places["process list"]) > 100
    assert b"SignatureDoesNotMatch" in places["commands"], "an error was shown, too"
    assert any("journal" in name for name in places)
    for name, content in places.items():
        for secret in (SECRET_KEY, SESSION_TOKEN):
            assert secret.encode() not in content, f"in {name}"
