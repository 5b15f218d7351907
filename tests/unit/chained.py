"""Entries that follow each other, as the journal would write them."""

from collections.abc import Iterable

import msgspec

from holdfast.identifiers import Sequence
from holdfast.repository.entries import AnyEntry
from holdfast.repository.entry_bytes import StoredEntry, stored_entry


def chained(entries: Iterable[AnyEntry], before: StoredEntry | None = None) -> list[StoredEntry]:
    found: list[StoredEntry] = []
    for entry in entries:
        links = {
            "previous": before.sequence if before else Sequence(0),
            "previous_digest": before.digest if before else "",
        }
        before = stored_entry(msgspec.structs.replace(entry, **links))
        found.append(before)
    return found
