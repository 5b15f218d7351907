"""What is killed: writers, places of the home, sources and state; and with what the query is run."""

from dataclasses import dataclass
from typing import Literal

from tests.end_to_end.own_writer_story import OF_DELTA

Variant = Literal["holdfast", "off", "plain"]
"""`off`: holdfast without plans of batches. `plain`: Spark alone, its checkpoint directory copied now and then."""
VARIANTS: tuple[Variant, ...] = ("holdfast", "off", "plain")
OURS = ("ours", "our_files")
WRITERS = ("files", "postgres", *OF_DELTA, "iceberg", *OURS)
PLACES = ("disk", "s3")
OF_KAFKA = ("kafka", "transactions")
SOURCES = ("rate", "files", *OF_KAFKA)
KINDS = ("stateful", "stateless")


@dataclass(frozen=True)
class Cell:
    writer: str
    place: str
    """Of the home."""
    source: str
    kind: str

    def __str__(self) -> str:
        return f"{self.writer}-{self.place}-{self.source}-{self.kind}"


def cells(variant: Variant) -> list[Cell]:
    """The connector to Kafka exists for Spark 4.2, works with 4.3, and not with the version that Iceberg is for.
    Without plans, sinks of holdfast show nothing before a checkpoint: that is another test's."""
    return [
        Cell(writer, place, source, kind)
        for writer in WRITERS
        for place in PLACES
        for source in SOURCES
        for kind in KINDS
        if not (writer == "iceberg" and source in OF_KAFKA)
        if variant == "holdfast" or writer not in OURS
        if variant != "plain" or place == "disk"
    ]
