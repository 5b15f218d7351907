"""`--redact` on samples of every kind of secret, as they stand in logs. None of them ever opened anything."""

import base64
import hashlib

import pytest

from holdfast.doctor.reports.redaction import Redactor


def key(length: int, seed: str) -> str:
    """Bytes as a key has them, the same in every run."""
    return base64.b64encode(hashlib.shake_256(seed.encode()).digest(length)).decode()


AZURE = key(64, "azure")
AWS = key(30, "aws")
BODY = "\n".join(key(48, f"pem-{n}") for n in range(4))
HEX = hashlib.sha256(b"token").hexdigest()

SAMPLES = {
    "Azure, Spark's setting": f"fs.azure.account.key.mylake.dfs.core.windows.net={AZURE}",
    "Azure, Spark's setting, as Spark logs it": f"(spark.hadoop.fs.azure.account.key.x.blob.core.windows.net,{AZURE})",
    "Azure, connection string": f"AccountName=mylake;AccountKey={AZURE};EndpointSuffix=x",
    "Azure, service bus": f"Endpoint=sb://x.example/;SharedAccessKeyName=root;SharedAccessKey={key(32, 'bus')}",
    "Azure, no name at all": f"signing with {AZURE} failed",
    "Azure, shared key header": f"Authorization: SharedKey mylake:{key(32, 'header')}",
    "Azure, SAS": f"https://x.blob.core.windows.net/c/b?sv=2022-11-02&sr=b&sig={HEX}%3D&se=2026",
    "AWS, secret": f"aws_secret_access_key = {AWS}",
    "AWS, environment": f"AWS_SECRET_ACCESS_KEY={AWS}",
    "AWS, no name at all": f"keys AKIAIOSFODNN7EXAMPLE {AWS}",
    "AWS, Hadoop": f"<property><name>fs.s3a.secret.key</name><value>{AWS}</value></property>",
    "AWS, session": f"fs.s3a.session.token={key(90, 'session')}",
    "AWS, signed header": f"Authorization: AWS4-HMAC-SHA256 Credential={HEX}/x, SignedHeaders=host, Signature={HEX}",
    "AWS, presigned": f"https://b.s3.amazonaws.com/k?X-Amz-Credential={HEX}&X-Amz-Signature={HEX}",
    "Google, API key": "using AIza" + key(27, "google")[:35].replace("+", "-").replace("/", "_"),
    "Google, service account": '{"private_key_id": "' + HEX + '", "private_key": "-----BEGIN PRIVATE KEY-----\\n'
    + BODY.replace("\n", "\\n") + '\\n-----END PRIVATE KEY-----\\n"}',
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n-----END RSA PRIVATE KEY-----",
    "private key, cut off": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}",
    "private key, a line of it": BODY.split("\n")[1],
    "pwd": "Server=db;Uid=me;Pwd=hunter2-and-more;Encrypt=true",
    "pwd in lower case": "jdbc:sqlserver://db:1433;databaseName=x;user=me;pwd=hunter2-and-more",
    "password with spaces": 'password="hunter2 and more"',
    "password in JSON": '{"user": "me", "password": "hunter2 \\" and more"}',
    "password in YAML": "db_password: hunter2-and-more",
    "password as an option": "mysql --user me --password hunter2-and-more",
    "password in JAAS": 'PlainLoginModule required username="me" password="hunter2-and-more";',
    "password in a URL": "postgresql://me:hunter2-and-more@db/x",
    "password for Oracle": "jdbc:oracle:thin:me/hunter2-and-more@//db:1521/x",
    "keystore": "ssl.keystore.password = hunter2-and-more",
    "basic": f"Authorization: Basic {key(18, 'basic')}",
    "bearer": f"Authorization: Bearer {HEX}",
    "cookie": f"Set-Cookie: session={HEX}",
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "GitHub": "remote: ghp_" + HEX[:36],
    "GitLab": "glpat-" + HEX[:20],
    "Databricks": "dapi" + HEX[:32],
    "Slack": "xoxb-" + HEX[:24],
    "Vault": "hvs." + HEX[:24],
}  # fmt: skip
PARTS = ("hunter2", "and more", HEX[:16], AZURE[:16], AWS[:16], *(line[:16] for line in BODY.split("\n")), "eyJzdWIi")
PARTS += tuple(key(n, seed)[:12] for n, seed in ((32, "bus"), (32, "header"), (90, "session"), (18, "basic")))


@pytest.mark.parametrize("kind", SAMPLES)
def test_no_secret_is_left(kind: str) -> None:
    sample = SAMPLES[kind]
    assert any(part in sample for part in PARTS) or kind == "Google, API key", "the sample has no secret"
    text = Redactor().text(sample)
    assert "***" in text
    assert [part for part in PARTS if part in text] == []
    assert "AIza" not in text


@pytest.mark.parametrize(
    "said",
    [
        f"state of {hashlib.sha1(b'x').hexdigest()} and blob {HEX}",
        "at org/apache/spark/sql/execution/datasources/v2/WriteToDataSourceV2Exec",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider$RocksDBStateStore",
        "Password authentication failed for a user",
        "spark.hadoop.fs.s3a.aws.credentials.provider of the session",
        "Checkpoint 12 of partition key=7 expired, token bucket is empty",
        "part-00000-5f7d9c1e-3b1a-4c9f-8f7e-2a6b1c3d4e5f-c000.snappy.parquet",
        "StreamingQueryExceptionWithAVeryLongNameThatIsNoKeyAtAll2 was thrown",
    ],
)
def test_what_is_no_secret_stays(said: str) -> None:
    assert Redactor().text(said) == said
