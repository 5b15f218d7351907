"""A TCP proxy that treats some requests badly: they never arrive, or they arrive and their answer is dropped."""

import asyncio
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from enum import Enum

from tests.patience import PATIENCE


class Fate(Enum):
    PASSES = "passes"
    NEVER_ARRIVES = "never arrives"
    ANSWER_DROPPED = "answer dropped"


class CuttingProxy:
    """Requests in which `marker` is found meet the fate that `judge` says; all other bytes pass."""

    def __init__(self, upstream: int, marker: bytes, judge: Callable[[], Fate]) -> None:
        self._upstream = upstream
        self._marker = re.compile(marker, re.IGNORECASE)
        self._judge = judge
        self.fates: Counter[Fate] = Counter()
        self.port = 0
        self._stopped = asyncio.Event()
        self._open: set[asyncio.Task[object]] = set()

    async def serve(self, ready: Future[Callable[[], object]]) -> None:
        """Until somebody calls what `ready` then holds."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        ready.set_result(lambda: loop.call_soon_threadsafe(self._stopped.set))
        await self._stopped.wait()
        server.close()
        await asyncio.gather(*self._open)
        await asyncio.sleep(0.01)  # what was aborted is closed in the next turn of the loop

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._open.add(connection)
        connection.add_done_callback(self._open.discard)
        with suppress(OSError):
            answers, requests = await asyncio.open_connection("127.0.0.1", self._upstream)
            dropping = asyncio.Event()
            pumps: list[asyncio.Task[object]] = [
                asyncio.create_task(self._stopped.wait()),
                asyncio.create_task(self._forward_requests(reader, requests, dropping)),
                asyncio.create_task(_forward_answers(answers, writer, dropping)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            requests.transport.abort()
        writer.transport.abort()

    async def _forward_requests(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, dropping: asyncio.Event
    ) -> None:
        while data := await source.read(1 << 16):
            if self._marker.search(data):
                fate = self._judge()
                self.fates[fate] += 1
                if fate is Fate.NEVER_ARRIVES:
                    return
                if fate is Fate.ANSWER_DROPPED:
                    dropping.set()
            sink.write(data)
            await sink.drain()


async def _forward_answers(source: asyncio.StreamReader, sink: asyncio.StreamWriter, dropping: asyncio.Event) -> None:
    while data := await source.read(1 << 16):
        if dropping.is_set():
            return  # the server has done what was asked, and nobody hears of it
        sink.write(data)
        await sink.drain()


def by_chance(seed: int) -> Callable[[], Fate]:
    chance = random.Random(seed)
    return lambda: chance.choices(list(Fate), weights=(5, 1, 2))[0]


@contextmanager
def cutting_proxy(upstream: int, marker: bytes, judge: Callable[[], Fate]) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(upstream, marker, judge)
    ready: Future[Callable[[], object]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(proxy.serve(ready)), daemon=True)
    thread.start()
    stop = ready.result(PATIENCE)
    try:
        yield proxy
    finally:
        stop()
        thread.join(PATIENCE)
