"""How a query ended."""

from dataclasses import dataclass
from enum import Enum


class EndedBy(Enum):
    REQUEST = "request"
    """It was stopped by the job, or its trigger has run all there is."""
    OUTSIDE = "outside"
    """It was stopped, but not by the job: a query with an endless trigger does not end by itself."""
    SPARK_GONE = "spark gone"
    """No restart within this process can repair that."""
    SINK = "sink"
    """The sink's `stage` raised."""
    ERROR = "error"


@dataclass(frozen=True)
class QueryEnd:
    by: EndedBy
    text: str = ""
    """What was raised: a chain of exceptions as Java prints it, innermost last."""


AS_ASKED = QueryEnd(EndedBy.REQUEST)
