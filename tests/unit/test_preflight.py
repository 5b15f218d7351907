"""What a query may differ in from its checkpoint: pure, with facts made up."""

import logging

import msgspec
import pytest

from holdfast.checkpoint import query_facts
from holdfast.checkpoint.compatibility import as_it_will_run, differences
from holdfast.checkpoint.difference import Difference, as_text
from holdfast.checkpoint.query_facts import (
    CHANGELOG,
    DEDUPLICATION_ORDER,
    ENCODING,
    FORMAT,
    PROVIDER,
    SHUFFLE_PARTITIONS,
    Column,
    Operator,
    QueryFacts,
    Source,
    StateStore,
)
from holdfast.errors import Incompatible
from holdfast.identifiers import BatchId, JobName
from holdfast.runtime.query.causes import FailureCause, QueryFailure, failure_of_text
from holdfast.runtime.query.supervision import PermanentFailure, Restart, Supervision
from holdfast.runtime.recovery.query_fit import require_compatible

FILES, KAFKA = Source("files", "/data/in"), Source("kafka", "orders", servers="a:9092")
STORE = StateStore("default", (Column("key", "integer"),), (Column("sum", "long"), Column("count", "long")))
AGGREGATION = Operator(0, "stateStoreSave", (STORE,), ("key", "sum(value)", "count(1)"))
CONF = {SHUFFLE_PARTITIONS: "200", PROVIDER: "org.x.HDFS", FORMAT: "1", CHANGELOG: "false", ENCODING: "unsaferow"}
RAN = QueryFacts("4.3.0", "append", CONF, (FILES, KAFKA), (AGGREGATION,))


def compare(held: QueryFacts = RAN, **changes: object) -> dict[str, Difference]:
    coming = msgspec.structs.replace(held, **changes)
    return {difference.subject: difference for difference in differences(held, coming)}


def verdicts(held: QueryFacts = RAN, **changes: object) -> dict[str, bool]:
    """Subject → refused."""
    return {subject: difference.refused for subject, difference in compare(held, **changes).items()}


def with_store(operator: Operator = AGGREGATION, **changes: object) -> tuple[Operator, ...]:
    assert operator.stores
    stores = (msgspec.structs.replace(operator.stores[0], **changes),)
    return (msgspec.structs.replace(operator, stores=stores),)


def test_the_same_query_has_no_difference() -> None:
    assert compare() == {}


@pytest.mark.parametrize(
    ("held", "coming", "expected"),
    [
        ("4.3.0", "4.3.1", {}),
        ("4.3.1", "4.3.0", {}),
        ("4.2.3", "4.3.0", {"Spark version": False}),
        ("3.5.8", "4.3.0", {"Spark version": False}),
        ("4.3.0", "4.2.3", {"Spark version": True}),
        ("4.10.0", "4.9.0", {"Spark version": True}),
        (None, "4.3.0", {}),
        ("4.3.0.dev1", "odd", {}),
    ],
)
def test_an_older_spark_is_refused_a_newer_one_told(held: str | None, coming: str, expected: dict[str, bool]) -> None:
    assert verdicts(msgspec.structs.replace(RAN, spark=held), spark=coming) == expected


@pytest.mark.parametrize(
    ("coming", "expected"),
    [
        ((FILES,), {"sources": True}),
        ((FILES, KAFKA, KAFKA), {"sources": True}),
        ((), {"sources": True}),
        ((KAFKA, FILES), {"sources": True}),
        ((FILES, Source("rate")), {"source 1": True}),
        ((Source("files", "/data/elsewhere"), KAFKA), {"source 0": True}),
        ((FILES, Source("kafka", "orders,returns", servers="a:9092")), {"source 1": True}),
        ((FILES, Source("kafka", "orders", servers="b:9092")), {"source 1": False}),
        ((FILES, Source("kafka")), {}),
        ((FILES, Source()), {}),
        (None, {}),
    ],
)
def test_sources_are_found_by_position(coming: tuple[Source, ...] | None, expected: dict[str, bool]) -> None:
    assert verdicts(sources=coming) == expected


def test_sources_with_names_are_found_by_name() -> None:
    orders, returns = Source("kafka", "orders", name="orders"), Source("kafka", "returns", name="returns")
    held = msgspec.structs.replace(RAN, sources=(orders, returns))
    assert verdicts(held, sources=(returns, orders)) == {}
    assert verdicts(held, sources=(orders,)) == {"source returns": False}
    assert verdicts(held, sources=(orders, returns, Source("rate", name="ticks"))) == {"source ticks": False}
    assert verdicts(held, sources=(orders, Source("files", "/x", name="returns"))) == {"source returns": True}


DEDUPLICATION = Operator(1, "dedupe", (StateStore("default", (Column("a", "long"), Column("b", "long")), ()),))


@pytest.mark.parametrize(
    "coming",
    [
        (),
        (AGGREGATION, DEDUPLICATION),
        (msgspec.structs.replace(DEDUPLICATION, id=0),),
        (msgspec.structs.replace(AGGREGATION, id=1),),
    ],
)
def test_another_operator_is_refused(coming: tuple[Operator, ...]) -> None:
    assert verdicts(operators=coming) == {"stateful operators": True}


def test_a_query_without_state_that_gets_some_is_refused() -> None:
    held = msgspec.structs.replace(RAN, operators=())
    assert compare(held, operators=(AGGREGATION,))["stateful operators"].checkpoint == "none (stateless)"


def test_the_two_forms_of_an_aggregation_are_the_same() -> None:
    assert verdicts(operators=(msgspec.structs.replace(AGGREGATION, name="StatefulStreamlineAggregate"),)) == {}


KEY, VALUE = "aggregation (operator 0): key", "aggregation (operator 0): value"


@pytest.mark.parametrize(
    ("change", "subject", "shown"),
    [
        ({"key": (Column("key", "long"),)}, KEY, ("key integer", "key long")),
        ({"key": (Column("customer", "integer"),)}, KEY, ("key integer", "customer integer")),
        ({"value": (*STORE.value, Column("max", "long"))}, VALUE, ("-", "max long")),
        ({"value": STORE.value[:1]}, VALUE, ("count long", "-")),
        ({"value": STORE.value[::-1]}, VALUE, ("sum long, count long", "count long, sum long")),
        ({"value": (STORE.value[0], Column("count", "double"))}, VALUE, ("count long", "count double")),
    ],
)
def test_changed_state_names_the_column(change: dict[str, object], subject: str, shown: tuple[str, str]) -> None:
    found = compare(operators=with_store(**change))
    assert {name: difference.refused for name, difference in found.items()} == {subject: True}
    assert (found[subject].checkpoint, found[subject].query) == shown


def test_another_computation_into_state_of_the_same_form_is_refused() -> None:
    changed = msgspec.structs.replace(AGGREGATION, computes=("key", "max(value)", "count(1)"))
    found = compare(operators=(changed,))["aggregation (operator 0): computes"]
    assert (found.refused, found.checkpoint, found.query) == (True, "sum(value)", "max(value)")
    swapped = msgspec.structs.replace(AGGREGATION, computes=("key", "count(1)", "sum(value)"))
    assert compare(operators=(swapped,))["aggregation (operator 0): computes"].refused
    unknown = msgspec.structs.replace(AGGREGATION, computes=None)
    assert compare(operators=(unknown,)) == {}


def test_state_that_only_the_operator_knows_is_left_to_spark() -> None:
    assert compare(operators=(Operator(0, "stateStoreSave"),)) == {}
    assert verdicts(operators=(Operator(0, "dedupe"),)) == {"stateful operators": True}


def test_after_an_upgrade_names_and_texts_are_only_told() -> None:
    """Spark chooses them in part, and may choose otherwise in another version. Types stay types."""
    renamed = with_store(value=(Column("total", "long"), Column("count", "long")))
    assert verdicts(spark="4.4.0", operators=renamed)[VALUE] is False
    recomputed = (msgspec.structs.replace(AGGREGATION, computes=("key", "try_sum(value)", "count(1)")),)
    assert verdicts(spark="4.4.0", operators=recomputed)["aggregation (operator 0): computes"] is False
    assert verdicts(spark="4.4.0", operators=with_store(key=(Column("key", "long"),)))[KEY] is True


def test_keys_of_dropped_duplicates_in_an_order_that_spark_keeps() -> None:
    """Checkpoints from before Spark fixed the order are read in theirs."""
    assert DEDUPLICATION.stores
    reordered = with_store(DEDUPLICATION, key=DEDUPLICATION.stores[0].key[::-1])
    held = msgspec.structs.replace(RAN, operators=(DEDUPLICATION,))
    assert verdicts(held, operators=reordered) == {}
    fixed = msgspec.structs.replace(held, conf={**CONF, DEDUPLICATION_ORDER: "true"})
    assert verdicts(fixed, operators=reordered) == {"dropDuplicates (operator 1): key": True}


def test_state_that_may_evolve() -> None:
    store = StateStore("default.total", (Column("key", "long"),), (Column("value", "long"),))
    operator = Operator(0, "transformWithStateExec", (store,))
    wider = with_store(operator, value=(Column("value", "long"), Column("more", "long")))
    avro = msgspec.structs.replace(RAN, operators=(operator,), conf={**CONF, ENCODING: "avro"})
    rows = msgspec.structs.replace(avro, conf=CONF)
    value = "transformWithStateExec (operator 0): value of default.total"
    assert verdicts(avro, operators=wider) == {value: False}
    assert verdicts(rows, operators=wider) == {value: True}
    another = with_store(operator, name="default.count")
    assert verdicts(rows, operators=another) == {"transformWithStateExec (operator 0): stores": False}


def test_an_operator_with_other_stores_is_refused() -> None:
    assert verdicts(operators=with_store(name="left")) == {"aggregation (operator 0): stores": True}


@pytest.mark.parametrize(
    ("key", "value", "subject"),
    [
        (SHUFFLE_PARTITIONS, "400", "shuffle partitions"),
        (PROVIDER, "org.x.RocksDB", "state store provider"),
        (ENCODING, "avro", "state encoding"),
        (CHANGELOG, "true", "changelog"),
        (FORMAT, "2", "state checkpoint format"),
    ],
)
def test_settings_that_spark_keeps_or_can_change_are_told(key: str, value: str, subject: str) -> None:
    assert verdicts(conf={**CONF, key: value}) == {subject: False}
    stateless = msgspec.structs.replace(RAN, operators=())
    assert verdicts(stateless, conf={**CONF, key: value}) == {}


def test_another_state_format_is_refused_where_spark_does_not_keep_it() -> None:
    older = msgspec.structs.replace(RAN, spark="4.1.0")
    assert verdicts(older, conf={**CONF, FORMAT: "2"}) == {"state checkpoint format": True}


def test_the_output_mode_is_told() -> None:
    assert verdicts(output_mode="update") == {"output mode": False}
    assert verdicts(output_mode="Append") == {}


def test_what_is_not_known_is_not_compared() -> None:
    assert differences(QueryFacts(), RAN) == ()
    assert differences(RAN, QueryFacts()) == ()


def test_settings_as_spark_will_have_them() -> None:
    changed = {**CONF, SHUFFLE_PARTITIONS: "400", CHANGELOG: "true"}
    facts = as_it_will_run(RAN, msgspec.structs.replace(RAN, conf=changed))
    assert facts.conf == {**CONF, CHANGELOG: "true"}


def test_facts_survive_being_written_and_what_is_no_record_is_nothing() -> None:
    assert query_facts.decode(query_facts.encode(RAN)) == RAN
    assert query_facts.decode(b"{") is None


JOB, BARRIER = JobName("orders"), BatchId(7)


@pytest.fixture(autouse=True)
def _heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line, when another test has used it, takes the logger for itself."""
    monkeypatch.setattr(logging.getLogger("holdfast"), "propagate", True)


def test_a_refusal_says_what_and_what_to_do_and_shows_everything(caplog: pytest.LogCaptureFixture) -> None:
    coming = msgspec.structs.replace(RAN, sources=(KAFKA, FILES), conf={**CONF, SHUFFLE_PARTITIONS: "400"})
    with pytest.raises(Incompatible) as refusal:
        require_compatible(JOB, BARRIER, RAN, coming, force=False)
    error = refusal.value
    assert error.exit_code == 2
    for words in ("orders", "batch 7", "sources", "files /data/in; kafka orders"):
        assert words in error.message
    assert "--force" in str(error.hint)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert [subject for subject in ("sources", "shuffle partitions") if subject not in record.getMessage()] == []
    assert [difference.refused for difference in error.differences] == [True, False]  # type: ignore[attr-defined]


def test_a_forced_start_is_told_and_remembered(caplog: pytest.LogCaptureFixture) -> None:
    swapped = msgspec.structs.replace(RAN, sources=(KAFKA, FILES))
    assert require_compatible(JOB, BARRIER, RAN, swapped, force=True) is True
    assert caplog.records[0].levelno == logging.WARNING
    noted = msgspec.structs.replace(RAN, output_mode="update")
    assert require_compatible(JOB, BARRIER, RAN, noted, force=False) is False
    assert require_compatible(JOB, BARRIER, RAN, RAN, force=True) is False
    assert len(caplog.records) == 2


def test_the_table_is_aligned() -> None:
    text = as_text(tuple(compare(sources=(KAFKA, FILES), output_mode="update").values()))
    lines = text.splitlines()
    assert [line.split()[0] for line in lines] == ["what", "refused", "note"]
    assert len({line.index(word) for line, word in zip(lines, ("query", "kafka orders;", "update"), strict=True)}) == 1


NOT_MATCHING = (
    "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match"
)
UNREADABLE = QueryFailure(FailureCause.STATE_UNREADABLE, "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE")


def test_a_query_that_does_not_fit_is_not_restarted_and_its_state_not_blamed() -> None:
    supervision = Supervision(delay=1.0, attempts=3, same_error=3)
    verdict = supervision.died(failure_of_text(NOT_MATCHING), now=0.0)
    assert isinstance(verdict, PermanentFailure)
    assert isinstance(verdict.error(JOB), Incompatible)
    assert isinstance(supervision.died(UNREADABLE, now=0.0), Restart)


def test_after_a_forced_start_state_that_cannot_be_read_is_the_querys_fault() -> None:
    """Else every checkpoint would be marked as damaged, one after the other, because of one changed query."""
    supervision = Supervision(delay=1.0, attempts=3, same_error=3)
    supervision.started(overridden=True)
    verdict = supervision.died(UNREADABLE, now=0.0)
    assert isinstance(verdict, PermanentFailure)
    assert isinstance(verdict.error(JOB), Incompatible)
    supervision.progressed()
    assert isinstance(supervision.died(UNREADABLE, now=0.0), Restart)
