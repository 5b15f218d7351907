"""Bytes on their way from one place to another, proved before the last of them is handed on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from blake3 import blake3

from holdfast.errors import Corrupt
from holdfast.identifiers import Digest


@dataclass(frozen=True)
class ProvenPieces:
    """What `pieces` gives, which must have `digest`. May be iterated again.

    The last piece comes only after all of them have proved right, so that a store never sees a whole wrong object.
    Raises `Corrupt` instead of it; also when a local file cannot be read, which is not the store's fault.
    """

    where: str
    digest: Digest
    pieces: Callable[[], Iterator[bytes]]

    def __iter__(self) -> Iterator[bytes]:
        hasher = blake3()
        held = b""
        for piece in self._read():
            hasher.update(piece)
            if held:
                yield held
            held = piece
        if (found := hasher.hexdigest()) != self.digest:
            raise Corrupt(f"could not use {self.where}: its bytes should have digest {self.digest}, found {found}")
        yield held

    def _read(self) -> Iterator[bytes]:
        try:
            yield from self.pieces()
        except OSError as error:
            raise Corrupt(f"could not read {self.where}: {error.strerror or error}") from error
