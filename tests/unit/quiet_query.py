"""The answers of a query of which there is little to say."""

from holdfast.identifiers import BatchId
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.ports import RunDirectory


class QuietQuery:
    """It reads no Kafka, has no executors and no writer of its own, and Spark reports nothing of it."""

    application_id = None

    def look_ahead(self, ahead: Ahead) -> None:
        return

    def preflight(self, directory: RunDirectory, barrier: BatchId | None) -> bool:
        return False

    def batch_reports(self) -> None:
        return None

    def describe(self) -> dict[str, str]:
        return {}

    def kafka_inputs(self) -> tuple[()]:
        return ()

    def kept_sources(self) -> tuple[()]:
        return ()

    def batches_read(self, since: object) -> tuple[()]:
        return ()

    def cores(self) -> None:
        return None

    def skipped_input(self) -> tuple[()]:
        return ()

    def commits_told(self) -> int | None:
        return None

    def own_writer(self, directory: RunDirectory, *, new_line: bool = False) -> None:
        return None
