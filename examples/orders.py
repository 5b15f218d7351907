"""A generated stream into a Delta table, exactly once.

    python examples/orders.py

or with the command line, where the home is a directory of your own:

    holdfast run examples/orders.py --home file:///var/lib/holdfast --sink delta:/data/orders --interval 10s

Kill it with kill -9 as often as you like and start it again: no order is missing from the table, none is duplicated.
Ctrl-C stops it with a final checkpoint.
"""

import logging
import tempfile
from pathlib import Path

import holdfast
from holdfast.sinks import Delta

PLACE = Path(tempfile.gettempdir()) / "holdfast-examples"


def orders(spark):
    events = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
    return events.selectExpr("value % 10 AS customer", "value", "timestamp")


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("holdfast").setLevel(logging.INFO)  # one line per checkpoint
    home = PLACE / "home"
    home.mkdir(parents=True, exist_ok=True)  # holdfast never creates a home: a missing one may be an unmounted disk
    holdfast.run(orders, job="orders", home=f"file://{home}", sink=Delta(PLACE / "orders"), interval="10s")
