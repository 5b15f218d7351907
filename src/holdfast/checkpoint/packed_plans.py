"""Names of the files in which a checkpoint holds the plans of the batches before its barrier. Pure.

plans/<first>-<last>.json    in a work directory, and so among the files of a checkpoint
"""

import re
from collections.abc import Iterable

from holdfast.identifiers import BatchId

FOLDER = "plans"
_NAME = re.compile(rf"{FOLDER}/(\d+)-(\d+)\.json", re.ASCII)


def packed_path(first: BatchId, last: BatchId) -> str:
    return f"{FOLDER}/{first}-{last}.json"


def packed_range(path: str) -> tuple[BatchId, BatchId] | None:
    """The first and the last batch whose plans the file holds; None when it is no such file."""
    match = _NAME.fullmatch(path)
    return (BatchId(int(match[1])), BatchId(int(match[2]))) if match else None


def is_packed_plans(path: str) -> bool:
    """Such a file matters only when other files of its checkpoint are lost. So it lies apart from them in the home, and
    the checkpoint can be restored without it."""
    return packed_range(path) is not None


def packed_after(paths: Iterable[str], barrier: BatchId) -> BatchId | None:
    """The batch behind which these files hold every plan up to the barrier, -1 for all of them; None when they hold
    not even that of the barrier."""
    ranges = [found for path in paths if (found := packed_range(path)) is not None]
    after = barrier
    for first, last in sorted(ranges, key=lambda found: found[1], reverse=True):
        if first <= after <= last:
            after = BatchId(first - 1)
    return after if after < barrier else None
