"""Sources that Spark does not bring: a real Kafka broker, and the connectors to Kafka and Delta.

No connector has been published for Spark 4.3 yet. That to Kafka for the version before works with it; that to Delta
does not, and is tested under the version that it is for.
"""

import base64
import contextlib
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.stores.processes import free_port, installed, maven_artifact, required, running

BROKER = {"org.apache.kafka:kafka_2.13": "3.9.2"}
KAFKA = {
    "org.apache.spark:spark-sql-kafka-0-10_2.13": "4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": "4.0.0",
    "org.apache.kafka:kafka-clients": "3.9.2",
    "org.apache.commons:commons-pool2": "2.13.1",
}
DELTA = {
    "io.delta:delta-spark_4.2_2.13": "4.4.0",
    "io.delta:delta-storage": "4.4.0",
}
DELTA_SPARK = "4.2.1"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
ICEBERG_SPARK = "4.1.4"
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
SMALL_JVM = ("-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

# What connectors need besides these, PySpark brings; and their own files name places to look for it that are not there.
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>holdfast</groupId><artifactId>connectors</artifactId><version>1</version>
<dependencies>{}</dependencies>
</project>
"""


def kafka_jars() -> list[Path]:
    """For Spark's setting `spark.jars`."""
    return _files(KAFKA)


def delta_jars() -> list[Path]:
    return _files(DELTA)


def iceberg_jars() -> list[Path]:
    _, name, version = ICEBERG.split(":")
    return [maven_artifact(ICEBERG, f"iceberg/{name}-{version}.jar")]


def _files(artifacts: Mapping[str, str]) -> list[Path]:
    return [_jars() / f"{artifact.partition(':')[2]}-{version}.jar" for artifact, version in artifacts.items()]


def _jars() -> Path:
    """The connectors, the broker and all that they need, fetched once. Skips the test where they cannot be had."""
    return installed("connectors-" + "-".join([*BROKER.values(), *KAFKA.values(), *DELTA.values()]), _fetch)


def _fetch(folder: Path) -> Sequence[str]:
    dependencies = [_dependency(artifact, version) for artifact, version in BROKER.items()]
    dependencies += [_dependency(artifact, version, _ALONE) for artifact, version in (KAFKA | DELTA).items()]
    pom = folder / "pom.xml"
    pom.write_text(_POM.format("".join(dependencies)))
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
    options = ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    return [required("mvn"), "-q", "-B", "-f", str(pom), goal, *options]


def _dependency(artifact: str, version: str, more: str = "") -> str:
    group, name = artifact.split(":")
    inner = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>{more}"
    return f"<dependency>{inner}</dependency>"


class KafkaBroker:
    """A broker of its own, with nothing in it; topics come into being with two partitions each. It can be started
    again after its end, with what it had.

    A connection of its port is no proof that it can make topics yet; who sends waits for that.
    """

    def __init__(self, directory: Path, users: Mapping[str, str] = MappingProxyType({})) -> None:
        """With `users` it has a second address for those who log in with a password; the first user may do anything,
        the others only what they are allowed to."""
        self._directory = directory
        self._jars = _jars()
        self._port, login_port, controller = free_port(), free_port(), free_port()
        self.servers = f"127.0.0.1:{self._port}"
        self.servers_with_login = f"127.0.0.1:{login_port}"
        logs = directory / "logs"
        logs.mkdir(parents=True)
        (logs / "meta.properties").write_text(
            f"version=1\nnode.id=1\ncluster.id={_kafka_id()}\ndirectory.id={_kafka_id()}\n"
        )
        login = f",SASL_PLAINTEXT://{self.servers_with_login}" if users else ""
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.servers}{login},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}{login}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(logs),
            "num.partitions": "2",
            "log.cleaner.enable": "false",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **_login_settings(users),
        }
        self._configuration = directory / "server.properties"
        self._configuration.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        command = [
            required("java"),
            *SMALL_JVM,
            "-cp",
            f"{self._jars}{os.sep}*",
            "kafka.Kafka",
            str(self._configuration),
        ]
        # What other tests set for Spark's JVMs is not meant for this one.
        log = self._directory / "kafka.log"
        with running(command, log, lambda: _listens(self._port), {"JDK_JAVA_OPTIONS": ""}):
            yield


def _login_settings(users: Mapping[str, str]) -> dict[str, str]:
    if not users:
        return {}
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{module} required {known};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{next(iter(users))}",
    }


@contextlib.contextmanager
def kafka_broker(directory: Path) -> Iterator[str]:
    """The address of a broker that runs meanwhile."""
    broker = KafkaBroker(directory)
    with broker.running():
        yield broker.servers


def _kafka_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
