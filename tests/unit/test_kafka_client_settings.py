"""Spark's Kafka options as settings of librdkafka, and no secret in any message."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.sources import jaas
from holdfast.sources.brokers import BrokersFailed, Refused
from holdfast.sources.client_settings import ClientSettings, KeyStore, NotTranslatable, Pem, client_settings
from holdfast.sources.kafka_client import KafkaClient, region_of

SECRET = "pLanted-s3cret"
PACKAGE = "org.apache.kafka.common.security"


def no_stores(store: KeyStore) -> Pem:
    raise AssertionError(f"{store} was to be read")


def translated(**options: str) -> ClientSettings:
    given = {"kafka.bootstrap.servers": "a:9092,b:9092"} | {key.replace("_", "."): v for key, v in options.items()}
    return client_settings(given, no_stores)


def login(module: str, **options: str) -> str:
    return " ".join([f"{PACKAGE}.{module} required", *(f'{key}="{value}"' for key, value in options.items())]) + ";"


def test_without_security_only_the_brokers_are_passed_on() -> None:
    made = translated(subscribe="orders", kafka_fetch_min_bytes="1", kafka_group_id="x")
    assert made.values == {"bootstrap.servers": "a:9092,b:9092", "security.protocol": "PLAINTEXT"}
    assert made.iam is None
    assert made.secrets == ()


def test_options_are_found_in_any_case() -> None:
    made = client_settings({"KAFKA.Bootstrap.Servers": "a:1"}, no_stores)
    assert made.values["bootstrap.servers"] == "a:1"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_user_and_password(mechanism: str) -> None:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    made = translated(
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism=mechanism,
        kafka_sasl_jaas_config=login(module, username="me", password=SECRET),
    )
    assert made.values["sasl.mechanism"] == mechanism
    assert (made.values["sasl.username"], made.values["sasl.password"]) == ("me", SECRET)
    assert made.without_secrets(f"refused {SECRET}!") == "refused ***!"
    assert SECRET not in repr(made)


def test_client_credentials() -> None:
    made = translated(
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="OAUTHBEARER",
        kafka_sasl_oauthbearer_token_endpoint_url="https://id/token",
        kafka_sasl_jaas_config=login(
            "oauthbearer.OAuthBearerLoginModule",
            clientId="me",
            clientSecret=SECRET,
            scope="read",
            extension_logicalCluster="lkc-1",
            extension_identityPoolId="pool-2",
        ),
    )
    assert made.values["sasl.oauthbearer.method"] == "oidc"
    assert made.values["sasl.oauthbearer.client.secret"] == SECRET
    assert made.values["sasl.oauthbearer.token.endpoint.url"] == "https://id/token"
    assert made.values["sasl.oauthbearer.scope"] == "read"
    assert made.values["sasl.oauthbearer.extensions"] == "logicalCluster=lkc-1,identityPoolId=pool-2"
    assert SECRET in made.secrets
    KafkaClient(made).close()  # librdkafka accepts them


def test_a_token_without_a_signature() -> None:
    made = translated(
        kafka_security_protocol="SASL_PLAINTEXT",
        kafka_sasl_mechanism="OAUTHBEARER",
        kafka_sasl_jaas_config=login("oauthbearer.OAuthBearerLoginModule", unsecuredLoginStringClaim_sub="me"),
    )
    assert made.values["sasl.oauthbearer.config"] == "principal=me"
    KafkaClient(made).close()


def test_kerberos() -> None:
    made = translated(
        kafka_security_protocol="SASL_PLAINTEXT",
        kafka_sasl_kerberos_service_name="kafka",
        kafka_sasl_jaas_config='com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" '
        'principal="me@REALM";',
    )
    assert made.values["sasl.mechanism"] == "GSSAPI"
    assert made.values["sasl.kerberos.keytab"] == "/k"
    assert made.values["sasl.kerberos.principal"] == "me@REALM"
    assert made.values["sasl.kerberos.service.name"] == "kafka"


def test_iam_of_amazon() -> None:
    made = translated(
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="AWS_MSK_IAM",
        kafka_sasl_jaas_config='software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="prod";',
    )
    assert made.values["sasl.mechanism"] == "OAUTHBEARER"
    assert made.iam == {"awsProfileName": "prod"}


@pytest.mark.parametrize(
    ("servers", "region"),
    [
        ("b-1.orders.abc.c2.kafka.eu-west-1.amazonaws.com:9098,b-2.orders:9098", "eu-west-1"),
        ("boot-x.c1.kafka-serverless.us-east-2.amazonaws.com:9098", "us-east-2"),
    ],
)
def test_the_region_is_in_the_names_of_the_brokers(servers: str, region: str) -> None:
    assert region_of(servers) == region
    with pytest.raises(BrokersFailed, match="region"):
        region_of("broker:9098")


def test_pem_files_and_texts_are_used_as_they_are() -> None:
    files = translated(
        kafka_security_protocol="SSL",
        kafka_ssl_truststore_type="PEM",
        kafka_ssl_truststore_location="/ca.pem",
        kafka_ssl_keystore_type="PEM",
        kafka_ssl_keystore_location="/me.pem",
        kafka_ssl_key_password=SECRET,
        kafka_ssl_endpoint_identification_algorithm="",
    )
    assert files.values["ssl.ca.location"] == "/ca.pem"
    assert files.values["ssl.certificate.location"] == files.values["ssl.key.location"] == "/me.pem"
    assert files.values["ssl.key.password"] == SECRET
    assert files.values["ssl.endpoint.identification.algorithm"] == "none"
    texts = translated(
        kafka_security_protocol="SSL",
        kafka_ssl_truststore_certificates="CA",
        kafka_ssl_keystore_key=SECRET,
        kafka_ssl_keystore_certificate_chain="CHAIN",
    )
    assert texts.values["ssl.ca.pem"] == "CA"
    assert (texts.values["ssl.key.pem"], texts.values["ssl.certificate.pem"]) == (SECRET, "CHAIN")
    assert texts.secrets == (SECRET,)


def test_key_stores_of_java_are_read() -> None:
    read = []

    def stores(store: KeyStore) -> Pem:
        read.append(store)
        return Pem("CERTIFICATES", "KEY")

    made = client_settings(
        {
            "kafka.bootstrap.servers": "a:1",
            "kafka.security.protocol": "ssl",
            "kafka.ssl.truststore.location": "/trust.jks",
            "kafka.ssl.truststore.password": "t",
            "kafka.ssl.keystore.location": "/key.p12",
            "kafka.ssl.keystore.type": "pkcs12",
            "kafka.ssl.keystore.password": "k",
        },
        stores,
    )
    assert read == [KeyStore("/trust.jks", "JKS", "t"), KeyStore("/key.p12", "PKCS12", "k", "k")]
    assert made.values["ssl.ca.pem"] == made.values["ssl.certificate.pem"] == "CERTIFICATES"
    assert made.values["ssl.key.pem"] == "KEY"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kafka_security_protocol": "SASL_SSL"}, "the reader has none"),
        ({"kafka_config_providers": "env"}, "kafka.config.providers"),
        ({"kafka_bootstrap_servers": ""}, "kafka.bootstrap.servers is missing"),
        (
            {
                "kafka_security_protocol": "SASL_SSL",
                "kafka_sasl_mechanism": "PLAIN",
                "kafka_sasl_jaas_config": f"required {SECRET}",
            },
            "kafka.sasl.jaas.config",
        ),
        (
            {
                "kafka_security_protocol": "SASL_SSL",
                "kafka_sasl_mechanism": "PLAIN",
                "kafka_sasl_jaas_config": login("plain.PlainLoginModule", password=SECRET),
            },
            "has no username",
        ),
        (
            {
                "kafka_security_protocol": "SASL_SSL",
                "kafka_sasl_mechanism": "OAUTHBEARER",
                "kafka_sasl_jaas_config": login("oauthbearer.OAuthBearerLoginModule", other=SECRET),
            },
            "only the JVM can call",
        ),
        (
            {
                "kafka_security_protocol": "SASL_SSL",
                "kafka_sasl_mechanism": "OWN",
                "kafka_sasl_jaas_config": login("x.Own", password=SECRET),
            },
            "does not know the login mechanism OWN",
        ),
    ],
)
def test_what_cannot_be_translated_is_named_without_its_value(options: dict[str, str], named: str) -> None:
    with pytest.raises(NotTranslatable, match=named) as refused:
        translated(**options)
    assert refused.value.hint
    assert SECRET not in f"{refused.value.message} {refused.value.hint}"
    assert refused.value.__cause__ is None


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,8}", fullmatch=True), st.text(max_size=20)))
def test_every_login_that_java_accepts_is_read(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    written = " ".join(["a.b.Module", "required", *(f"{key}={quoted(value)}" for key, value in options.items())])
    for text in (f"{written};", f"{written} ;\n", written):
        assert jaas.parsed(text) == jaas.Login("Module", options)


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=60))
def test_other_text_is_refused_or_read_but_never_shown(text: str) -> None:
    try:
        jaas.parsed(text)
    except jaas.NotJaas as error:
        shown = str(error)
    else:
        shown = ""
    assert len(text) < 4 or text not in shown


def test_settings_that_the_client_refuses_are_named_without_secrets() -> None:
    settings = ClientSettings({"bootstrap.servers": "a:1", "security.protocol": SECRET}, secrets=(SECRET,))
    with pytest.raises(BrokersFailed) as refused:
        KafkaClient(settings)
    assert refused.value.why is Refused.NOT_TRANSLATED
    assert SECRET not in refused.value.message
