"""The jobs of a home, by their names."""

from collections.abc import Iterator

from holdfast.errors import InvalidSettings
from holdfast.identifiers import JobName, job_name
from holdfast.repository.names import JOURNAL
from holdfast.storage.interface import ObjectStore


def job_names(root: ObjectStore) -> Iterator[JobName]:
    for name in root.children():
        if is_job(root, name):
            yield JobName(name)


def is_job(root: ObjectStore, name: str) -> bool:
    return _is_job_name(name) and _has_journal(root.scoped(name))


def _has_journal(store: ObjectStore) -> bool:
    return next(iter(store.list(JOURNAL)), None) is not None


def _is_job_name(name: str) -> bool:
    try:
        return bool(job_name(name))
    except InvalidSettings:
        return False
