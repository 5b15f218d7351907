"""What is deleted next: as if all keys were sorted anew each time, at the cost of the slice alone."""

import heapq
import math
import random
from collections.abc import Iterable

from holdfast.repository.deletion_queue import DeletionQueue, objects_first


class Plain:
    """The rule, without regard to its cost."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    def schedule(self, keys: Iterable[str], at: float) -> None:
        for key in keys:
            self.at[key] = max(at, self.at.get(key, at))

    def postpone(self, keys: Iterable[str], until: float) -> None:
        self.at |= dict.fromkeys(keys, until)

    def failed(self, key: str) -> None:
        self.failures[key] = self.failures.get(key, 0) + 1

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.at.pop(key, None)
            self.failures.pop(key, None)

    def next(self, now: float, count: int) -> list[str]:
        ready = [key for key, at in self.at.items() if at <= now]
        return heapq.nsmallest(count, ready, key=lambda key: (self.failures.get(key, 0), *objects_first(key)))


def test_it_chooses_as_if_everything_were_sorted_anew() -> None:
    for seed in range(300):
        draw = random.Random(seed)
        queue, plain, now = DeletionQueue(), Plain(), 0.0
        keys = [f"{draw.choice(['blobs', 'manifests'])}/{number}" for number in range(draw.randrange(1, 12))]
        for _ in range(60):
            some = draw.sample(keys, draw.randrange(len(keys)) + 1)
            match draw.randrange(5):
                case 0:
                    at = now + draw.choice([-1, 0, 0.5, 3])
                    queue.schedule(some, at)
                    plain.schedule(some, at)
                case 1:
                    present = [key for key in some if key in queue]
                    queue.postpone(present, now + 2)
                    plain.postpone(present, now + 2)
                case 2 if some[0] in queue:
                    queue.failed(some[0])
                    plain.failed(some[0])
                case 3:
                    queue.forget(some)
                    plain.forget(some)
                case _:
                    now += draw.random()
            assert queue.next(now, 3) == plain.next(now, 3), seed
            earliest, due = queue.earliest(), min(plain.at.values(), default=math.inf)
            assert (earliest == due) if due > now else earliest <= now, seed


def test_a_slice_of_many_waiting_keys_touches_few_of_them() -> None:
    class Counted(str):
        compared = 0

        def __lt__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__lt__(self, str(other))

    queue = DeletionQueue()
    queue.schedule((Counted(f"blobs/{number:06}") for number in range(20_000)), 0.0)
    queue.next(1.0, 20)
    Counted.compared = 0
    for _ in range(100):
        queue.forget(queue.next(1.0, 20))
        queue.earliest()
    assert Counted.compared < 100 * 20 * 60
