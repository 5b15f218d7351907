"""Whether the query reads Kafka as fast as its cores could."""

from msgspec import structs

from holdfast.finding import Evidence, Finding, Severity
from holdfast.history.numbers import Numbers
from holdfast.repository.self_report import ReportedReading

_HOT = 3.0
_LEAST_RECORDS = 1_000
_BUSY = 0.5
_FULL = 0.9
_FLOOD = 20
_USE = 0.7


def idle_cores(numbers: Numbers) -> Finding | None:
    """One task reads one partition, so further cores have nothing to read."""
    seen = _reading(numbers)
    if seen is None or seen.cores is None or seen.tasks >= seen.cores or not _busy(seen):
        return None
    return _finding(
        numbers,
        "kafka-idle-cores",
        _growing(numbers),
        "cores of the query read nothing",
        f"{seen.tasks} tasks read {seen.partitions} partitions, and the query has {seen.cores} cores: the others wait "
        "until the data is shuffled",
        (f'.option("minPartitions", "{seen.cores}")', "# or more partitions in the topic, for keys that allow it"),
    )


def hot_partition(numbers: Numbers) -> Finding | None:
    seen = _reading(numbers)
    if seen is None or seen.partitions < 2 or seen.records < _LEAST_RECORDS:
        return None
    others = (seen.records - seen.hottest_records) / (seen.partitions - 1)
    if seen.hottest_records < _HOT * max(1.0, others):
        return None
    share = 100 * seen.hottest_records / seen.records
    return _finding(
        numbers,
        "kafka-hot-partition",
        _growing(numbers),
        "one partition gives much more than the others",
        f"{seen.hottest} gave {share:.0f} % of {seen.records:,} records, and each of the other {seen.partitions - 1} "
        f"gave {others:,.0f} on average: one task reads while the others wait",
        (
            "# several tasks read a partition with many records:",
            f'.option("minPartitions", "{2 * seen.partitions}")',
            "# let the producer choose keys that spread, or add a salt to the key",
        ),
    )


def idle_partitions(numbers: Numbers) -> Finding | None:
    seen = _reading(numbers)
    if seen is None or not seen.idle or seen.records < _LEAST_RECORDS:
        return None
    return _finding(
        numbers,
        "kafka-idle-partitions",
        "info",
        "partitions of the topic give nothing",
        f"{seen.idle} of {seen.partitions} partitions gave no record in the last {seen.batches} batches: no key of the "
        "producer leads to them, or it has stopped writing to them",
        ("# look at the producer's keys and partitioner: kafka-get-offsets.sh shows which partitions grow",),
    )


def limited_batches(numbers: Numbers) -> Finding | None:
    """The limit is reached, and the query waits for its trigger most of the time."""
    seen, lag = _reading(numbers), numbers.seen.report.kafka_lag if numbers.seen.report else None
    if seen is None or seen.max_offsets is None or lag is None or not lag.processed or _busy(seen):
        return None
    if seen.records / seen.batches < _FULL * seen.max_offsets:
        return None
    wanted = int(seen.max_offsets * _USE * seen.every_s / max(seen.batch_s, 0.001))
    return _finding(
        numbers,
        "kafka-batches-limited",
        _growing(numbers),
        "maxOffsetsPerTrigger holds the query back",
        f"batches reach the limit of {seen.max_offsets:,} records, and one takes {seen.batch_s:.1f}s and begins every "
        f"{seen.every_s:.1f}s, while {lag.processed:,} records wait",
        (f'.option("maxOffsetsPerTrigger", "{wanted}")', "# or a shorter trigger interval"),
    )


def unlimited_batches(numbers: Numbers) -> Finding | None:
    """Without a limit the next batch takes all that waits."""
    seen, lag = _reading(numbers), numbers.seen.report.kafka_lag if numbers.seen.report else None
    if seen is None or seen.max_offsets is not None or lag is None:
        return None
    usual = seen.records / seen.batches
    if lag.processed < max(_LEAST_RECORDS, _FLOOD * usual):
        return None
    wanted = max(_LEAST_RECORDS, int(usual * _FLOOD / 4))
    return _finding(
        numbers,
        "kafka-batch-unlimited",
        "warning",
        "one batch reads everything that waits",
        f"{lag.processed:,} records wait, a batch had {usual:,.0f} until now, and the reader has no "
        "maxOffsetsPerTrigger: the next batch takes them all, commits late, and is repeated whole when it fails",
        (f'.option("maxOffsetsPerTrigger", "{wanted}")',),
    )


def _reading(numbers: Numbers) -> ReportedReading | None:
    report = numbers.seen.report
    return report.kafka_reading if report is not None and numbers.seen.running else None


def _busy(seen: ReportedReading) -> bool:
    return seen.batch_s >= _BUSY * seen.every_s


def _growing(numbers: Numbers) -> Severity:
    lag = numbers.seen.report.kafka_lag if numbers.seen.report else None
    return "warning" if lag is not None and lag.trend == "growing" else "info"


def _finding(
    numbers: Numbers, code: str, severity: Severity, symptom: str, cause: str, fix: tuple[str, ...]
) -> Finding:
    """The evidence is the report of the run, which has no lines."""
    finding = numbers.finding(code, severity, symptom, cause, fix, (), count=1)
    place = f"{numbers.seen.home.rstrip('/')}/{numbers.seen.job}"
    return structs.replace(finding, evidence=(Evidence(source=place, line=0, text=cause),))
