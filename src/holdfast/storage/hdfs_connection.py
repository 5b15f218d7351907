"""A connection to HDFS on which every call times out.

hdfs-native itself waits for an answer of the NameNode or a DataNode as long as the TCP connection is open, which is
hours when the host is gone. So each call runs on its own thread and is dropped when it times out. From then on a new
client with new connections is used, because the old one would wait on the same dead connection.

The raw client inside hdfs-native's client is used: the writer of the outer one closes its file when it is dropped, and
blocks on that.

A call that returns during the shutdown of the interpreter aborts the process. So the exit of the process first waits
for calls in progress, and refuses new ones.
"""

import atexit
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

from hdfs_native import Client

from holdfast.errors import InvalidSettings
from holdfast.storage.hdfs_errors import reason

if TYPE_CHECKING:
    from hdfs_native import FileStatus
    from hdfs_native._internal import RawClient, RawFileReader

T = TypeVar("T")

METADATA_REQUESTS = 2
DATA_REQUESTS = 6
"""One step may take as long as this many small requests. Data takes longer: several busy disks acknowledge it."""
SMALL = 64 << 10
SMALL_PATIENCE = 10.0
"""A step with at most this many bytes times out after this many seconds. A heartbeat is such a step and is stale after
30 s by default: a DataNode that hangs must not delay it too long."""
LAST_PATIENCE = 5.0
_NOT_CONNECTED = re.compile(r"Connection refused|Network is unreachable|No route to host")
_CONFIGURATION = {
    # storage/retrying.py retries. This is enough to find the active one of a few NameNodes.
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "1000",
}


class NoAnswer(OSError):
    """The connection broke, or the call timed out. It may have taken effect, or may do so later."""


class TimedOut(NoAnswer):
    """There was no answer in time."""


class NotReached(NoAnswer):
    """There was no connection: the call had no effect."""


class HdfsConnection:
    def __init__(
        self,
        address: str,
        *,
        metadata_patience: float = 20.0,
        data_patience: float = 60.0,
        small_patience: float | None = None,
    ) -> None:
        """`address` is hdfs://host:port or hdfs://nameservice. Nothing is connected before the first call.

        `small_patience` is the time-out of small steps of data; None: the same as for others.
        """
        self.address = address
        self.metadata_patience = metadata_patience
        self._data_patience = data_patience
        self._small_patience = data_patience if small_patience is None else small_patience
        self._client = _client(address)

    def ask(self, call: Callable[["RawClient"], T]) -> T:
        """A call to the NameNode."""
        client = self._client
        return self._within("the NameNode", self.metadata_patience, lambda: call(client))

    def transfer(self, call: Callable[[], T], size: int) -> T:
        """One step of reading or writing `size` bytes of data."""
        patience = self._small_patience if size <= SMALL else self._data_patience
        return self._within("a DataNode", patience, call)

    def _within(self, party: str, patience: float, call: Callable[[], T]) -> T:
        answer: Future[T] = Future()
        _calls.begin(answer)
        threading.Thread(target=_answer, args=(answer, call), name="holdfast-hdfs", daemon=True).start()
        try:
            return answer.result(patience)
        except (FileNotFoundError, FileExistsError, IsADirectoryError):
            raise
        except OSError as error:
            if answer.done():
                kind = NotReached if _NOT_CONNECTED.search(str(error)) else NoAnswer
                raise kind(f"{party} did not answer: {error}") from error
            self._client = _client(self.address)
            raise TimedOut(f"{party} did not answer within {patience:g} s") from None


def open_reader(client: "RawClient", path: str) -> "tuple[RawFileReader, FileStatus]":
    """A reader, and the status of the file as a listing returns it.

    The reader only has blocks that DataNodes have reported. The last one of a file that was just closed may be missing,
    and the reader then silently takes the file for shorter, or empty. So the length comes from the status.
    """
    reader, status = client.read(path), client.get_file_info(path)
    if reader.file_length() > status.length:
        raise NoAnswer("another file took the name while it was opened")
    return reader, status


class _Calls:
    """The calls in progress in this process."""

    def __init__(self) -> None:
        self._under_way: set[Future[Any]] = set()
        self._ending = False
        atexit.register(self._end)

    def begin(self, answer: Future[T]) -> None:
        self._under_way.add(answer)
        answer.add_done_callback(self._under_way.discard)
        if self._ending:
            answer.cancel()
            raise NotReached("this process is exiting, HDFS was not called")

    def _end(self) -> None:
        self._ending = True
        wait(set(self._under_way), LAST_PATIENCE)


_calls = _Calls()


def _answer(answer: Future[T], call: Callable[[], T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # hdfs-native can panic, which is no Exception
        answer.set_exception(error if isinstance(error, Exception) else RuntimeError(str(error)))


def _client(address: str) -> "RawClient":
    try:
        return Client(address, dict(_CONFIGURATION)).inner
    except (RuntimeError, OSError) as error:
        raise InvalidSettings(
            f"could not use {address}: {reason(error)}",
            hint="give a port (hdfs://namenode:8020/path), or let HADOOP_CONF_DIR name the folder of hdfs-site.xml",
        ) from error
