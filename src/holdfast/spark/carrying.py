"""Selects what copies shards: the driver or the executors. Depends on where Spark runs, unless the user sets it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.errors import InvalidSettings
from holdfast.job_log import log
from holdfast.runtime.run.job_location import JobLocation
from holdfast.sinks.asking_executors import is_cluster
from holdfast.snapshot.carrier import Carrier, copy_shards
from holdfast.snapshot.remote_copier import HomeOfCopies, RemoteCopier
from holdfast.spark.executors import POOL, Executors
from holdfast.spark.failures import one_line
from holdfast.spark.visiting import Visit, require_seen, unable_to_copy, visit_executors

WORTH_A_TASK = 8 << 20
"""Below this size the driver copies faster than a task starts."""
SLOTS = 4
"""With fewer task slots than this in the cluster, a copy task would slow the batches down."""

_INSTALL = "install holdfast for the Python of the executors, in the version of the driver: docs/cluster.md"


def carrier_for(spark: SparkSession, place: JobLocation) -> Carrier:
    """Raises `InvalidSettings` when the executors do not see the work directory."""
    settings = place.settings
    on_cluster = is_cluster(str(spark.sparkContext.master))
    visits, unable = _visited(spark, place) if on_cluster else ((), None)
    require_seen(visits, place.work)
    if settings.carrier == "driver" or (settings.carrier == "auto" and not on_cluster):
        return copy_shards
    if unable is not None:
        if settings.carrier == "executors":
            raise InvalidSettings.of("carrier", settings.carrier, unable, hint=_INSTALL)
        log.warning("only the driver copies checkpoints: %s. Try: %s", unable, _INSTALL)
        return copy_shards
    if spark.conf.get("spark.scheduler.mode", "FIFO") != "FAIR":
        log.info("copy tasks share Spark's FIFO queue with batches; spark.scheduler.mode=FAIR gives them pool %r", POOL)
    home = HomeOfCopies(
        url=place.home,
        job=place.job,
        store=place.store,
        storage_deadline=settings.storage_deadline_s,
        bandwidth=settings.bytes_per_second,
        meter=place.meter,
    )
    asked = settings.carrier == "executors"
    executors = Executors(spark, place.job, most=settings.parallelism, slots=2 if asked else SLOTS)
    return RemoteCopier(executors, home, worthwhile=0 if asked else WORTH_A_TASK)


def _visited(spark: SparkSession, place: JobLocation) -> tuple[tuple[Visit, ...], str | None]:
    """What the executors report, and why they cannot copy."""
    try:
        visits = visit_executors(spark, place.work)
    except OSError as error:
        raise InvalidSettings.of("work", place.work.location, f"could not be written: {error.strerror}") from error
    except Exception as error:  # Spark's: the workers may have no Python, or another version
        log.warning("could not check whether executors see %s: %s", place.work.location, one_line(error))
        return (), f"the executors cannot run Python tasks: {one_line(error)}"
    return visits, unable_to_copy(visits)
