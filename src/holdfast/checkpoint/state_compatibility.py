"""The stateful operators of a query and their state, against those in a checkpoint. Pure.

Spark checks the operators' names and the types of the columns when it plans the first batch. It checks neither the
columns' names nor what is computed: with equal types it continues, and adds to the old state as if nothing had changed.
"""

from collections import Counter
from collections.abc import Iterator

from holdfast.checkpoint.difference import Difference, refuse, warn
from holdfast.checkpoint.query_facts import (
    DEDUPLICATION_ORDER,
    ENCODING,
    Column,
    Operator,
    QueryFacts,
    StateStore,
    operator_title,
)

_NEW_JOB = (
    "restore the operator as it was, or give the changed query a new job name and a sink of its own: it starts "
    "without state"
)
_RENAMED = "restore it as it was; if only names changed and the meaning did not, --force"


def operator_differences(held: QueryFacts, coming: QueryFacts) -> Iterator[Difference]:
    if held.operators is None or coming.operators is None:
        return
    before, after = ({operator.id: operator for operator in facts.operators or ()} for facts in (held, coming))
    titles = [{id: operator_title(operator.name) for id, operator in side.items()} for side in (before, after)]
    if titles[0] != titles[1]:
        yield refuse(
            "stateful operators",
            _chain(held.operators),
            _chain(coming.operators),
            "Spark finds state by an operator's number and refuses another operator there",
            "keep the stateful operators as they were, or give the changed query a new job name and a sink of its own",
        )
    same_spark = held.spark == coming.spark
    for id in sorted(before.keys() & after.keys()):
        old, new = before[id], after[id]
        if operator_title(old.name) == operator_title(new.name):
            yield from _Comparison(old, new, held, same_spark).differences()


def _chain(operators: tuple[Operator, ...]) -> str:
    shown = [f"{operator.id} {operator_title(operator.name)}" for operator in operators]
    return ", ".join(shown) or "none (stateless)"


class _Comparison:
    """Of one operator. Spark chooses some names of columns, so names are only compared within one Spark version."""

    def __init__(self, old: Operator, new: Operator, held: QueryFacts, same_spark: bool) -> None:
        self._old = old
        self._new = new
        self._same_spark = same_spark
        self._title = f"{operator_title(new.name)} (operator {new.id})"
        self._evolves = "transformWithState" in new.name and held.conf.get(ENCODING) == "avro"
        ordered = held.conf.get(DEDUPLICATION_ORDER, "false").lower() == "true"
        self._sorts_keys = new.name.startswith("dedupe") and not ordered
        """Spark puts the keys in the checkpoint's order, which is not in this query's plan."""

    def differences(self) -> Iterator[Difference]:
        if self._old.stores is None or self._new.stores is None:
            return
        before, after = ({store.name: store for store in stores} for stores in (self._old.stores, self._new.stores))
        found = [
            difference
            for name in sorted(before.keys() & after.keys())
            for difference in self._store(before[name], after[name])
        ]
        found += self._families(before.keys() - after.keys(), after.keys() - before.keys())
        yield from found
        if not found:
            yield from self._computation()

    def _store(self, old: StateStore, new: StateStore) -> Iterator[Difference]:
        where = "" if old.name == "default" else f" of {old.name}"
        keys = self._columns(f"key{where}", self._keys(old), self._keys(new), evolves=False)
        yield from keys
        yield from self._columns(f"value{where}", old.value, new.value, evolves=self._evolves)

    def _keys(self, store: StateStore) -> tuple[Column, ...]:
        return tuple(sorted(store.key, key=lambda column: column.name)) if self._sorts_keys else store.key

    def _columns(
        self, part: str, old: tuple[Column, ...], new: tuple[Column, ...], *, evolves: bool
    ) -> list[Difference]:
        subject = f"{self._title}: {part}"
        if [column.type for column in old] != [column.type for column in new]:
            shown = _changed(old, new)
            if evolves:
                return [warn(subject, *shown, "Spark checks whether state of the old form can be read as the new one")]
            return [refuse(subject, *shown, "Spark refuses state whose columns have other types", _NEW_JOB)]
        if [column.name for column in old] != [column.name for column in new]:
            why = "equal types, other names: Spark would silently use one column's state for another"
            return [self._unless_upgraded(subject, _changed(old, new), why)]
        return []

    def _computation(self) -> Iterator[Difference]:
        old, new = self._old.computes, self._new.computes
        if old is not None and new is not None and old != new:
            why = "the state has the same types: Spark would silently add newly computed values to the old ones"
            shown = _left_over(old, new) or ", ".join(old), _left_over(new, old) or ", ".join(new)
            yield self._unless_upgraded(f"{self._title}: computes", shown, why)

    def _unless_upgraded(self, subject: str, shown: tuple[str, str], why: str) -> Difference:
        return refuse(subject, *shown, why, _RENAMED) if self._same_spark else warn(subject, *shown, why)

    def _families(self, gone: set[str], added: set[str]) -> Iterator[Difference]:
        if not gone and not added:
            return
        subject, shown = f"{self._title}: stores", (", ".join(sorted(gone)), ", ".join(sorted(added)))
        if "transformWithState" in self._new.name:
            yield warn(
                subject, *shown, "state variables may be added and removed; the values of a removed one are dropped"
            )
        else:
            yield refuse(subject, *shown, "the operator keeps its state in other stores", _NEW_JOB)


def _changed(old: tuple[Column, ...], new: tuple[Column, ...]) -> tuple[str, str]:
    """Only the columns that differ, if the columns can be paired."""
    before, after = ([str(column) for column in side] for side in (old, new))
    if len(before) == len(after):
        pairs = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        return ", ".join(a for a, _ in pairs), ", ".join(b for _, b in pairs)
    return _left_over(before, after), _left_over(after, before)


def _left_over(some: tuple[str, ...] | list[str], others: tuple[str, ...] | list[str]) -> str:
    rest = Counter(some)
    rest.subtract(Counter(others))
    return ", ".join(rest.elements())
