"""An S3 server: S3Proxy over a directory. It decides `If-None-Match: *` by link(2), so exactly one writer wins."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.stores.processes import answers, free_port, maven_artifact, required, running

VERSION = "4.1.0"
ARTIFACT = f"org.gaul:s3proxy:{VERSION}:jar:jar-with-dependencies"
BUCKET = "holdfast"
ACCESS_KEY = "AKIDHOLDFASTTEST"
SECRET_KEY = "s3cr3t-of-the-test-server/+x"


@dataclass(frozen=True)
class S3Server:
    endpoint: str
    directory: Path

    def home(self, path: str = "", endpoint: str | None = None) -> str:
        return f"s3://{BUCKET}/{path}?endpoint={endpoint or self.endpoint}&region=us-east-1"

    def work(self, path: str, endpoint: str | None = None) -> str:
        """As `home`, for Spark's checkpoint directories."""
        return self.home(path, endpoint).replace("s3://", "s3a://", 1)

    @property
    def environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


@contextlib.contextmanager
def s3_server(
    directory: Path,
    heap: str = "512m",
    authorization: str = "aws-v2-or-v4",
    host: str = "127.0.0.1",
) -> Iterator[S3Server]:
    """A server whose objects are files below `directory`, which may hold those of an earlier one."""
    java, jar = required("java"), maven_artifact(ARTIFACT, f"s3proxy/s3proxy-{VERSION}.jar")
    port = free_port()
    objects = directory / "objects"
    (objects / BUCKET).mkdir(parents=True, exist_ok=True)
    properties = directory / "s3proxy.conf"
    endpoint = f"http://{host}:{port}"
    properties.write_text(
        f"s3proxy.endpoint={endpoint}\n"
        f"s3proxy.authorization={authorization}\n"
        f"s3proxy.identity={ACCESS_KEY}\n"
        f"s3proxy.credential={SECRET_KEY}\n"
        # Session tokens are sent, signed, and have no meaning here.
        "s3proxy.ignore-unknown-headers=true\n"
        "jclouds.provider=filesystem-nio2\n"
        f"jclouds.filesystem.basedir={objects}\n"
    )
    command = [java, f"-Xmx{heap}", "-XX:+UseSerialGC", "-jar", str(jar), "--properties", str(properties)]
    with running(command, directory / "s3proxy.log", answers(endpoint)):
        yield S3Server(endpoint, objects)
