"""Hadoop's connector to S3 for the PySpark that the tests run: PySpark brings none. 690 MB, fetched once."""

from pathlib import Path

from tests.stores.processes import maven_artifact

_ARTIFACTS = (
    ("org.apache.hadoop:hadoop-aws:3.5.0", "hadoop-aws-3.5.0.jar"),
    ("software.amazon.awssdk:bundle:2.35.4", "bundle-2.35.4.jar"),
    ("software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1", "analyticsaccelerator-s3-1.3.1.jar"),
)


def hadoop_aws() -> list[Path]:
    return [maven_artifact(artifact, f"hadoop-aws/{name}") for artifact, name in _ARTIFACTS]


def submit_arguments() -> str:
    """For PYSPARK_SUBMIT_ARGS: on the class path as it is, where `spark.jars` would copy it for every session."""
    return f"--driver-class-path {':'.join(map(str, hadoop_aws()))} pyspark-shell"
