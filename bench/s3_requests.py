"""How many requests a checkpoint is: plain Spark whose checkpoint directory is on S3, holdfast with its home there, and
holdfast with its work directory there, too.

All run the same windowed aggregation on the same rows, write their output to the local disk, and start a batch every
few seconds. Requests are counted by a proxy in front of the server, after the warm-up. Plain Spark makes a checkpoint
with each batch. `python -m bench.s3_requests` is the process that runs Spark, since its JVM needs Hadoop's S3 client.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from pyspark.sql import DataFrame, SparkSession

from bench.pipeline import JOB, SPARK, Load, aggregation, session, wait_for
from bench.ratio import Ratio
from tests.stores.processes import maven_artifact
from tests.stores.proxy import Proxy, Seen, proxy_to
from tests.stores.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, s3_server

Variant = Literal["plain", "holdfast", "inside"]
Kind = Literal["put", "copy", "post", "list", "get", "head", "delete"]
KINDS: tuple[Kind, ...] = ("put", "copy", "post", "list", "get", "head", "delete")

EXPECTED_FEWER_PUTS = 1 / 20
EXPECTED_FEWER_INSIDE = 1 / 8
_PLAIN, _HOME, _INSIDE = "of-plain-spark", "of-holdfast", "inside-the-store"
_HADOOP = "3.5.0"
"""Must be the version that this Spark is built with."""
_JARS = (
    f"org.apache.hadoop:hadoop-aws:{_HADOOP}",
    "software.amazon.awssdk:bundle:2.35.4",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)


class Plan(msgspec.Struct, frozen=True):
    partitions: int
    warm_up: int
    batches: int
    trigger_s: int
    interval_s: int
    """Between two checkpoints of holdfast."""


FULL = Plan(partitions=16, warm_up=2, batches=12, trigger_s=5, interval_s=60)
"""holdfast's interval is its default."""
QUICK = Plan(partitions=2, warm_up=1, batches=4, trigger_s=2, interval_s=5)


class Counted(msgspec.Struct, frozen=True):
    variant: Variant
    batches: int
    checkpoints: int
    requests: dict[str, int]
    heartbeats: int = 0
    """Of the writes: they come with time, not with checkpoints."""

    def writes(self) -> int:
        """What S3 charges as a write: PUT, COPY and POST; LIST costs the same and is counted apart."""
        return sum(self.requests.get(kind, 0) for kind in ("put", "copy", "post"))

    def all(self) -> int:
        return sum(self.requests.values())


def measure(place: Path, plan: Plan) -> tuple[Counted, Counted, Counted]:
    """Plain Spark, holdfast, holdfast with its work directory there."""
    place.mkdir(parents=True)
    _jars()
    result = place / "requests.json"
    command = [sys.executable, "-m", "bench.s3_requests", str(place), str(result), msgspec.json.encode(plan).decode()]
    log = place / "log.txt"
    with log.open("wb") as output:
        done = subprocess.run(command, stdout=output, stderr=output, check=False)
    if done.returncode != 0:
        tail = log.read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"the pipeline ended with exit code {done.returncode}:", *tail]))
    plain, holdfast, inside = msgspec.json.decode(result.read_bytes(), type=list[Counted])
    return plain, holdfast, inside


def ratios(plain: Counted, holdfast: Counted, inside: Counted, *, promised: bool = True) -> Iterator[Ratio]:
    """The promise is for a usual number of partitions and the default interval."""
    same = holdfast.writes() / holdfast.batches / (plain.writes() / plain.batches)
    yield Ratio("PUTs, same batches: Spark on S3", same, False, EXPECTED_FEWER_PUTS if promised else None)
    each = (holdfast.writes() - holdfast.heartbeats) / holdfast.checkpoints / (plain.writes() / plain.checkpoints)
    yield Ratio("PUTs per checkpoint, without heartbeats: Spark on S3", each, False)
    lists = holdfast.requests.get("list", 0) / holdfast.batches / (plain.requests["list"] / plain.batches)
    yield Ratio("LISTs, same batches: Spark on S3", lists, False)
    every = inside.all() / inside.batches / (plain.all() / plain.batches)
    expected = EXPECTED_FEWER_INSIDE if promised else None
    yield Ratio("work on S3, all requests, same batches: Spark on S3", every, False, expected)
    each = inside.all() / inside.checkpoints / (plain.all() / plain.checkpoints)
    yield Ratio("work on S3, all requests per checkpoint: Spark on S3", each, False)


def kind_of(seen: Seen) -> Kind:
    method = seen.method.lower()
    if method == "put":
        return "copy" if any(name.lower() == "x-amz-copy-source" for name in seen.headers) else "put"
    if method == "get":
        parts = urlsplit(seen.path)
        asked = parse_qs(parts.query, keep_blank_values=True)
        of_bucket = "/" not in parts.path.strip("/")
        return "list" if of_bucket and ("list-type" in asked or "prefix" in asked) else "get"
    known: dict[str, Kind] = {"post": "post", "head": "head", "delete": "delete"}
    return known[method]


# --- the process that runs Spark ---


def _live(spark: SparkSession, variant: Variant, plan: Plan, proxy: Proxy, place: Path) -> Counted:
    frame = aggregation(spark, Load(keys=500, windows=10, warm_up=plan.warm_up, batches=plan.batches))
    if variant == "plain":
        return _plain(frame, spark, plan, proxy, place)
    return _holdfast(frame, spark, plan, proxy, place, inside=variant == "inside")


def _plain(frame: DataFrame, spark: SparkSession, plan: Plan, proxy: Proxy, place: Path) -> Counted:
    def write(batch: DataFrame, _: int) -> None:
        batch.write.mode("append").parquet(f"file://{place}/plain-output")

    writer = frame.writeStream.option("checkpointLocation", f"s3a://{BUCKET}/{_PLAIN}").foreachBatch(write)
    query = writer.trigger(processingTime=f"{plan.trigger_s} seconds").start()
    wait_for(plan.warm_up, lambda: query)
    begun = len(proxy.seen)
    wait_for(plan.warm_up + plan.batches, lambda: query)
    seen = proxy.seen[begun:]
    query.stop()
    return Counted("plain", plan.batches, plan.batches, _counts(seen, _PLAIN))


def _holdfast(frame: DataFrame, spark: SparkSession, plan: Plan, proxy: Proxy, place: Path, *, inside: bool) -> Counted:
    import holdfast
    from holdfast.sinks import Files

    name = _INSIDE if inside else _HOME
    options = f"endpoint={proxy.endpoint}&region=us-east-1"
    running = holdfast.start(
        lambda _: frame,
        job=JOB,
        home=f"s3://{BUCKET}/{name}/home?{options}",
        sink=Files(place / f"output-{name}"),
        interval=f"{plan.interval_s}s",
        trigger=f"{plan.trigger_s}s",
        work=f"s3a://{BUCKET}/{name}/work?{options}" if inside else place / "work",
        spark=spark,
    )
    wait_for(plan.warm_up, lambda: running.query)
    begun, completed = len(proxy.seen), running.status().statistics.completed
    wait_for(plan.warm_up + plan.batches, lambda: running.query)
    seen, taken = proxy.seen[begun:], running.status().statistics.completed - completed
    running.stop(timeout="60s")
    beats = sum(request.method == "PUT" and request.path.endswith("/owner.json") for request in seen)
    variant: Variant = "inside" if inside else "holdfast"
    return Counted(variant, plan.batches, max(1, taken), _counts(seen, name), beats)


def _counts(seen: list[Seen], below: str) -> dict[str, int]:
    """Of requests for what is below that path: what another query has left running does not count."""
    return dict(Counter(kind_of(request) for request in seen if below in unquote(request.path)))


def _jars() -> list[Path]:
    return [maven_artifact(artifact, f"s3a/{'-'.join(artifact.split(':')[1:])}.jar") for artifact in _JARS]


def _spark_on(plan: Plan, endpoint: str) -> SparkSession:
    options = {
        "spark.sql.shuffle.partitions": str(plan.partitions),
        "spark.jars": ",".join(str(jar) for jar in _jars()),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
    }
    return session(SPARK | options)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("place", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("plan", help="JSON")
    arguments = parser.parse_args()
    plan = msgspec.json.decode(arguments.plan, type=Plan)
    with s3_server(arguments.place) as server, proxy_to(server.endpoint) as proxy:
        os.environ.update(server.environment)
        spark = _spark_on(plan, proxy.endpoint)
        # The last one leaves the session with settings of its own.
        variants: tuple[Variant, ...] = ("plain", "holdfast", "inside")
        counted = [_live(spark, variant, plan, proxy, arguments.place) for variant in variants]
        spark.stop()
    arguments.result.write_bytes(msgspec.json.encode(counted))


if __name__ == "__main__":
    main()
