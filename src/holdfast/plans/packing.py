"""Plans of many batches in one file of the work directory, from where they become part of the next checkpoint.

A recovery that has to begin with an older checkpoint repeats the batches behind it. It finds their plans in a file of a
newer one, whatever else of that one is damaged, and the objects with one plan each need not be kept.

What a file holds is the history of its directory. So it stays right whether or not the checkpoint completes for which
it was written, and is never written over.
"""

from collections.abc import Callable, Iterable

import msgspec

from holdfast.checkpoint.manifest import digest_of
from holdfast.checkpoint.packed_plans import FOLDER, packed_path, packed_range
from holdfast.errors import Corrupt, NewerFormat
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch
from holdfast.plans.afterwards import batches_in, plans_of
from holdfast.plans.plan import Plan, format_of
from holdfast.plans.spark_logs import Directory
from holdfast.repository.sealing import opened, sealed

FORMAT = 1


class PackedPlans(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    plans: tuple[Plan, ...]


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(PackedPlans)


def pack_plans(
    directory: Directory,
    barrier: BatchId,
    needed_after: BatchId | None,
    epoch: FencingEpoch,
    new_attempt: Callable[[], AttemptId],
) -> None:
    """Write the plans up to the barrier that no file has yet: of those behind `needed_after` that the directory still
    tells, without a gap."""
    reached = _newest_packed(directory, barrier)
    if reached == barrier:
        return
    batches = batches_in(directory, needed_after if reached is None else reached, barrier)
    plans = _unbroken(list(plans_of(directory, batches, epoch, new_attempt)), barrier)
    if plans:
        directory.write_atomic(packed_path(plans[0].batch_id, barrier), encode_packed(plans))


def drop_packed(directory: Directory, upto: BatchId) -> None:
    """Remove the files that no recovery needs: with plans up to this batch only."""
    for path in _files(directory):
        if (found := packed_range(path)) is not None and found[1] <= upto:
            directory.remove(path)


def encode_packed(plans: Iterable[Plan]) -> bytes:
    return sealed(msgspec.json.encode(PackedPlans(plans=tuple(plans))))


def decode_packed(shown: str, data: bytes) -> tuple[Plan, ...]:
    """Raises `Corrupt` when it is not what was written, `NewerFormat` when a newer version wrote it."""
    proof = opened(data)
    if proof is None or digest_of(proof[0]) != proof[1]:
        raise Corrupt(f"could not read the plans in {shown}: their bytes do not match their checksum")
    try:
        if (version := format_of(data)) > FORMAT:
            raise NewerFormat.of_format(f"the plans in {shown}", version, FORMAT)
        return _DECODER.decode(data).plans
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"could not read the plans in {shown}: {error}") from error


def _files(directory: Directory) -> list[str]:
    return [f"{FOLDER}/{name}" for name in directory.names(FOLDER)]


def _newest_packed(directory: Directory, barrier: BatchId) -> BatchId | None:
    ranges = (packed_range(path) for path in _files(directory))
    return max((found[1] for found in ranges if found is not None and found[1] <= barrier), default=None)


def _unbroken(plans: list[Plan], barrier: BatchId) -> list[Plan]:
    """The last of them that follow one another up to the barrier; none when the barrier's is missing."""
    kept: list[Plan] = []
    for plan in reversed(plans):
        if plan.batch_id != barrier - len(kept):
            break
        kept.insert(0, plan)
    return kept
