"""Streams bytes from one place to another and proves them before it passes the last of them on."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from blake3 import blake3

from holdfast.errors import Corrupt
from holdfast.identifiers import Digest


@dataclass(frozen=True)
class ProvenPieces:
    """The bytes of `pieces`, which must have `digest`. Can be iterated again.

    Yields the last piece only after all pieces are proved, so that a store never receives a complete wrong object.
    Raises `Corrupt` instead; also when a local file cannot be read, which is not an error of the store.
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
