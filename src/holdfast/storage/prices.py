"""What requests cost, roughly: list prices of the providers' standard classes, without discounts and transfer costs.

As of January 2025 for us-east-1, a US multi-region, and East US with local redundancy. Accurate enough to tell cents
from hundreds of dollars a month, which is how an interval that is too short shows.
"""

from dataclasses import dataclass

from holdfast.storage.metered import Usage

SECONDS_A_MONTH = 30.4 * 86400


@dataclass(frozen=True)
class Prices:
    """US dollars per 1,000 requests."""

    put: float
    get: float
    list: float
    delete: float = 0.0

    def of(self, usage: Usage) -> float:
        return (
            usage.put * self.put + usage.get * self.get + usage.list * self.list + usage.delete * self.delete
        ) / 1000


PRICES = {
    "s3": Prices(put=0.005, get=0.0004, list=0.005),
    "gs": Prices(put=0.005, get=0.0004, list=0.005),
    "az": Prices(put=0.0065, get=0.0005, list=0.0065),
}


def dollars_for(url: str, *, put: int, get: int, list: int, delete: int) -> float | None:
    """What these requests cost; None where requests cost nothing."""
    prices = PRICES.get(url.partition("://")[0])
    return None if prices is None else prices.of(Usage(put=put, get=get, list=list, delete=delete))


def dollars_a_month(url: str, usage: Usage) -> float | None:
    """The cost at this rate; None where requests cost nothing or the time is too short for an estimate."""
    prices = PRICES.get(url.partition("://")[0])
    if prices is None or usage.seconds < 1:
        return None
    return prices.of(usage) * SECONDS_A_MONTH / usage.seconds
