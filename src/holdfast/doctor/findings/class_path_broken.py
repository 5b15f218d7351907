"""A class, a method, a connector or a file system is missing, or exists in another version than it was built for."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "class-path-broken"
_FILE_SYSTEM = re.compile(
    r"UnsupportedFileSystemScheme|No FileSystem for scheme|[Nn]o file system found with scheme"
    r"|file system implementation for scheme|Hadoop is not in the classpath"
)
_CONNECTOR = re.compile(
    r"Failed to find data source|DATA_SOURCE_NOT_FOUND|any factory for identifier|NoMatchingTableFactory"
    r"|suitable table factory"
)
_VERSION = re.compile(
    r"NoSuchMethodError|NoSuchFieldError|AbstractMethodError|IncompatibleClassChange|UnsupportedClassVersion"
    r"|NoClassDefFoundError: (?:org/apache/(?:spark|flink)|scala)/|LinkageError|VerifyError"
)
_CLASS = re.compile(r"ClassNotFoundException|NoClassDefFoundError|[Cc]lass \S+ could not be found")
_VARIANTS = (
    ("file-system", _FILE_SYSTEM),
    ("connector", _CONNECTOR),
    ("version", _VERSION),
    ("missing", _CLASS),
)


def _recognise(event: LogEvent) -> Clue | None:
    """Not while state is restored: then the class belongs to the state."""
    text = whole(event)
    if "Could not restore" in text or not (event.exceptions or event.level in ("ERROR", "FATAL", None)):
        return None
    for name, pattern in _VARIANTS:
        if pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name)
    return None


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="the program could not load a class, a connector or a file system that it needs",
    rules=(
        Rule(
            CODE,
            (
                "ClassNotFoundException",
                "NoClassDefFoundError",
                "NoSuchMethodError",
                "NoSuchFieldError",
                "AbstractMethodError",
                "IncompatibleClassChangeError",
                "UnsupportedClassVersionError",
                "could not be found",
                "UnsupportedFileSystemScheme",
                "No FileSystem for scheme",
                "o file system found with scheme",
                "file system implementation for scheme",
                "Hadoop is not in the classpath",
                "Failed to find data source",
                "NoMatchingTableFactory",
                "find a suitable table factory",
                "DATA_SOURCE_NOT_FOUND",
                "any factory for identifier",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "file-system",
            "no jar on the class path can read this kind of URL: the file system's plugin or Hadoop's jars are missing",
            Fix(
                flink=(
                    "# each file system has its own folder: plugins/s3-fs-hadoop/flink-s3-fs-hadoop-<version>.jar",
                    "# for hdfs: export HADOOP_CLASSPATH=`hadoop classpath` before Flink starts, also for a session",
                ),
                spark=("spark.jars.packages=org.apache.hadoop:hadoop-aws:<version of Spark's Hadoop>",),
                holdfast=("pip install 'holdfast-spark[hdfs]'", "# s3, gs and abfs need no extra"),
            ),
            for_variant("file-system", weight=60),
        ),
        Cause(
            "connector",
            "the connector's jar was not given to the program",
            Fix(
                flink=("# put flink-sql-connector-<name>-<version of Flink>.jar into lib/, and restart the cluster",),
                spark=("spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:<version of Spark>",),
                holdfast=("# the same package of Spark",),
            ),
            for_variant("connector", weight=60),
        ),
        Cause(
            "version",
            "a jar was built for another version of Spark, Flink, Scala, Hadoop or Java than the one that runs",
            Fix(
                flink=(
                    "# all flink-* jars must have the cluster's version; in the job's jar they are `provided`",
                    "classloader.resolve-order: parent-first",
                ),
                spark=("# connector, Scala suffix (_2.12, _2.13) and Spark must be of one version",),
                holdfast=("# the same packages of Spark",),
            ),
            for_variant("version", weight=58),
        ),
        Cause(
            "missing",
            "the jar with this class is not on the class path of the process that needs it",
            Fix(
                flink=("# put the jar into lib/ or into the job's own jar; after that, restart the cluster",),
                spark=(
                    "spark.jars=<the jar>",
                    "# --jars reaches driver and executors; a jar that only the driver has does not",
                ),
                holdfast=("# the same jars of Spark",),
            ),
            always(50),
        ),
    ),
    references=("Flink docs: Debugging Classloading", "Spark docs: Submitting Applications"),
)
