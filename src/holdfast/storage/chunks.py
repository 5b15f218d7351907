"""The bytes of an upload on their way through a decorator."""

from collections.abc import Callable, Iterable, Iterator

Through = Callable[[Iterator[bytes]], Iterator[bytes]]


def passed_through(chunks: Iterable[bytes], through: Through) -> Iterable[bytes]:
    """`chunks` as `through` gives them on; can be iterated again exactly if `chunks` can."""
    iterator = iter(chunks)
    return through(iterator) if iterator is chunks else _Again(chunks, through)


class _Again:
    def __init__(self, chunks: Iterable[bytes], through: Through) -> None:
        self._chunks = chunks
        self._through = through

    def __iter__(self) -> Iterator[bytes]:
        return self._through(iter(self._chunks))
