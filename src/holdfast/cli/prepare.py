"""`holdfast prepare`: what makes each later start of Spark on this machine, or in this image, quicker."""

import msgspec

from holdfast.cli.figures import size
from holdfast.cli.options import AsJson
from holdfast.cli.output import print_json, print_message
from holdfast.cli.progress import waiting
from holdfast.cli.requirements import require_java_and_packages


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    classes: str
    """The file of Spark's classes."""
    size: int


def prepare(as_json: AsJson = False) -> None:
    """Make later starts quicker, with a file of Spark's classes.

    Runs Spark once, for half a minute. Every start with the same Java and PySpark uses the file from then on; run it
    again after an update of either, and when an image is built.
    """
    require_java_and_packages("prepare starts", {"pyspark": "spark"})
    from holdfast.spark.class_archive import make_archive

    with waiting("running Spark once"):
        made = make_archive()
    document = Prepared(classes=str(made), size=made.stat().st_size)
    if as_json:
        print_json(document)
    else:
        print_message(f"{document.classes}, {size(document.size)}: starts use it from now on")
