"""The bytes of an upload as they pass through a decorator."""

from collections.abc import Callable, Iterable, Iterator

Through = Callable[[Iterator[bytes]], Iterator[bytes]]


def passed_through(chunks: Iterable[bytes], through: Through) -> Iterable[bytes]:
    """`chunks` as `through` yields them; can be iterated again if, and only if, `chunks` can."""
    iterator = iter(chunks)
    return through(iterator) if iterator is chunks else _Again(chunks, through)


class _Again:
    def __init__(self, chunks: Iterable[bytes], through: Through) -> None:
        self._chunks = chunks
        self._through = through

    def __iter__(self) -> Iterator[bytes]:
        return self._through(iter(self._chunks))


class ChunkSource:
    """An upload's chunks, and the exception that they raised, if they did."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self.exhausted = False
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except StopIteration:
            self.exhausted = True
            raise
        except BaseException as error:
            self.failure = error
            raise

    def beginning(self, size: int) -> list[bytes]:
        """More than `size` bytes, or all if there are fewer."""
        pieces: list[bytes] = []
        gathered = 0
        for piece in self:
            pieces.append(piece)
            gathered += len(piece)
            if gathered > size:
                break
        return pieces
