"""Determines whether a run on another host is alive by watching its heartbeat, on this process's own clock.

A run is alive when its heartbeat changes. Times written by others decide nothing, so their clocks do not matter.
Silence is counted in steps, from the end of one check to the beginning of the next, and a step counts for at most two:
time in which the watcher itself was suspended, or could not reach the home, is not silence of the other run.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.repository.entries import Process
from holdfast.repository.journal import PREFIX, Journal, entry_key
from holdfast.repository.ownership import (
    MISSED_BEATS,
    Claimable,
    Held,
    Silence,
    Unseen,
    decoded,
    heartbeat_bytes,
    standing,
)
from holdfast.runtime.clock import Clock
from holdfast.storage.interface import ObjectStore

_LOOKS_PER_BEAT = 2


@dataclass(frozen=True)
class Watcher:
    """The watching process and its dependencies."""

    store: ObjectStore
    """The job's part of the home."""
    process: Process
    clock: Clock
    sleep: Callable[[float], None]
    notify: Callable[[str], None]
    """Called with what the watcher waits for."""

    def answer(self, journal: Journal, watched: Silence | None = None) -> Claimable | Held:
        """Whether the job may be claimed. Loads the journal, and watches the owner when nothing else shows its state.

        `watched` is the silence that an earlier call observed: if it still lasts, it is not watched again.
        """
        beat = heartbeat_bytes(self.store)
        state = journal.load()
        answer = standing(state, decoded(beat), self.process)
        if not isinstance(answer, Unseen):
            return answer
        now = Silence(state.head, beat)
        if watched is not None:
            return _silent(answer, now) if now == watched else Held(answer.heartbeat, answer.purpose)
        if self._is_silent(answer, now):
            return _silent(answer, now)
        after = standing(journal.load(), decoded(heartbeat_bytes(self.store)), self.process)
        return Held(after.heartbeat, after.purpose) if isinstance(after, Unseen) else after

    def _is_silent(self, owner: Unseen, before: Silence) -> bool:
        life = owner.heartbeat.life
        step = life / MISSED_BEATS / _LOOKS_PER_BEAT
        silent, looked = 0.0, self.clock.monotonic()
        while silent < life:
            self.notify(f"watching the heartbeat of {_run(owner)}: {silent:.0f} of {life:.0f} s")
            self.sleep(step)
            begun = self.clock.monotonic()
            if self._moved(before):
                return False
            silent += min(begun - looked, 2 * step)
            looked = self.clock.monotonic()
        return True

    def _moved(self, before: Silence) -> bool:
        if heartbeat_bytes(self.store) != before.beat:
            return True
        return any(True for _ in self.store.list(PREFIX, after=entry_key(before.head)))


def _silent(owner: Unseen, silence: Silence) -> Claimable:
    life = owner.heartbeat.life
    return Claimable(f"{_run(owner)} showed no sign of life while it was watched for {life:.0f} s", silence)


def _run(owner: Unseen) -> str:
    what = "run" if owner.purpose == "pipeline" else "maintenance"
    return f"{what} {owner.heartbeat.fencing_epoch} on host {owner.heartbeat.process.host}"
