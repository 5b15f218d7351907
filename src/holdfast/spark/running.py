"""A running job: the run of a Spark query, as the user holds it."""

from __future__ import annotations

from pyspark.sql.streaming import StreamingQuery

from holdfast.alarm import Receiver
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.launching import launch
from holdfast.runtime.run.running import Running
from holdfast.snapshot.carrier import Carrier
from holdfast.spark.query import SparkQuery, as_holdfast_error


class RunningJob(Running):
    """A supervised query and its checkpoints. Created by `holdfast.start`."""

    def __init__(
        self, location: JobLocation, query: SparkQuery, carry: Carrier, receivers: tuple[Receiver, ...] = ()
    ) -> None:
        self._query = query
        try:
            super().__init__(
                location,
                query,
                lambda threads, finished: launch(
                    location,
                    query,
                    threads,
                    finished,
                    receivers,
                    lambda marker, new_life: JobFolder(location.work, marker, carry, new_life=new_life),
                ),
            )
        except Exception as error:
            raise as_holdfast_error(error) from error

    @property
    def query(self) -> StreamingQuery | None:
        """Spark's query. A restart replaces the object."""
        return self._query.query
