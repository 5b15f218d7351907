"""The options by which Spark reaches brokers (`kafka.…`), as settings of librdkafka, the library behind the Python
client. Pure: key stores are read by a function that is passed in.

Only what concerns the connection is translated. What cannot be translated is refused with the name of the option; no
message holds the value of an option.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from holdfast.sources import jaas

PREFIX = "kafka."
_PASSED_ON = (
    "bootstrap.servers",
    "client.dns.lookup",
    "connections.max.idle.ms",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.token.endpoint.url",
    "socket.connection.setup.timeout.ms",
)
_IAM = "AWS_MSK_IAM"
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_EXTENSION = "extension_"
_ELSEWHERE = (
    "give the login as the option kafka.sasl.jaas.config of the reader; one in a file of the JVM or by delegation "
    "tokens is not visible here"
)


class NotTranslatable(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Pem:
    """What a key store holds, as text."""

    certificates: str
    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class KeyStore:
    location: str
    kind: str
    """JKS, PKCS12…"""
    password: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)


ReadStore = Callable[[KeyStore], Pem]


@dataclass(frozen=True)
class ClientSettings:
    values: Mapping[str, str] = field(repr=False)
    """Of librdkafka."""
    iam: Mapping[str, str] | None = field(default=None, repr=False)
    """Options of Amazon's login for MSK, None when that is not used."""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def without_secrets(self, text: str) -> str:
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


def client_settings(options: Mapping[str, str], read_store: ReadStore) -> ClientSettings:
    """`options` are those of Spark's reader. Raises `NotTranslatable`."""
    given = {key.lower()[len(PREFIX) :]: value for key, value in options.items() if key.lower().startswith(PREFIX)}
    if "config.providers" in given:
        raise NotTranslatable(
            "the option kafka.config.providers lets the JVM look up values that only the JVM can look up",
            "give the values themselves as options of the reader",
        )
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    values = {name: given[name] for name in _PASSED_ON if name in given} | {"security.protocol": protocol}
    if not values.get("bootstrap.servers"):
        raise NotTranslatable("the option kafka.bootstrap.servers is missing", "name the brokers in it")
    iam = None
    if protocol.startswith("SASL"):
        login, iam = _login(given)
        values |= login
    if protocol.endswith("SSL"):
        values |= _tls(given, read_store)
    return ClientSettings(values, iam, _secrets(given, values, iam))


# --- who logs in ---


def _login(given: Mapping[str, str]) -> tuple[dict[str, str], Mapping[str, str] | None]:
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    text = given.get("sasl.jaas.config")
    if text is None:
        raise NotTranslatable(f"the brokers require a login ({mechanism}), and the reader has none", _ELSEWHERE)
    try:
        login = jaas.parsed(text)
    except jaas.NotJaas as error:
        why = f"could not read the option kafka.sasl.jaas.config: {error}"
        raise NotTranslatable(why, "see Kafka's page on JAAS") from None
    if mechanism == _IAM:
        return {"sasl.mechanism": "OAUTHBEARER"}, dict(login.options)
    if mechanism == "PLAIN" or mechanism in _SCRAM:
        return {"sasl.mechanism": mechanism} | _password(login), None
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism} | _bearer(login, given), None
    if mechanism == "GSSAPI":
        return {"sasl.mechanism": mechanism} | _kerberos(login), None
    raise NotTranslatable(
        f"holdfast does not know the login mechanism {mechanism}", "one of PLAIN, SCRAM, OAUTHBEARER, IAM"
    )


def _password(login: jaas.Login) -> dict[str, str]:
    return {"sasl.username": _option(login, "username"), "sasl.password": _option(login, "password")}


def _bearer(login: jaas.Login, given: Mapping[str, str]) -> dict[str, str]:
    subject = login.options.get("unsecuredLoginStringClaim_sub")
    if subject is not None:
        return {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={subject}"}
    if "sasl.oauthbearer.token.endpoint.url" not in given:
        raise NotTranslatable(
            "the login is OAUTHBEARER by a class of the JVM, which only the JVM can call",
            "use client credentials: kafka.sasl.oauthbearer.token.endpoint.url, with clientId and clientSecret in "
            "kafka.sasl.jaas.config",
        )
    values = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": _option(login, "clientId"),
        "sasl.oauthbearer.client.secret": _option(login, "clientSecret"),
    }
    if "scope" in login.options:
        values["sasl.oauthbearer.scope"] = login.options["scope"]
    extensions = [(key, value) for key, value in login.options.items() if key.startswith(_EXTENSION)]
    if extensions:
        pairs = (f"{key.removeprefix(_EXTENSION)}={value}" for key, value in extensions)
        values["sasl.oauthbearer.extensions"] = ",".join(pairs)
    return values


def _kerberos(login: jaas.Login) -> dict[str, str]:
    names = {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"}
    return {new: login.options[old] for old, new in names.items() if old in login.options}


def _option(login: jaas.Login, name: str) -> str:
    if name not in login.options:
        raise NotTranslatable(f"the login {login.module} in kafka.sasl.jaas.config has no {name}", _ELSEWHERE)
    return login.options[name]


# --- TLS ---


def _tls(given: Mapping[str, str], read_store: ReadStore) -> dict[str, str]:
    values = {}
    if "ssl.endpoint.identification.algorithm" in given:
        values["ssl.endpoint.identification.algorithm"] = given["ssl.endpoint.identification.algorithm"] or "none"
    return values | _trusted(given, read_store) | _own_key(given, read_store)


def _trusted(given: Mapping[str, str], read_store: ReadStore) -> dict[str, str]:
    if "ssl.truststore.certificates" in given:
        return {"ssl.ca.pem": given["ssl.truststore.certificates"]}
    location = given.get("ssl.truststore.location")
    if location is None:
        return {}
    kind = given.get("ssl.truststore.type", "JKS").upper()
    if kind == "PEM":
        return {"ssl.ca.location": location}
    return {"ssl.ca.pem": read_store(KeyStore(location, kind, given.get("ssl.truststore.password", ""))).certificates}


def _own_key(given: Mapping[str, str], read_store: ReadStore) -> dict[str, str]:
    password = {"ssl.key.password": given["ssl.key.password"]} if "ssl.key.password" in given else {}
    if "ssl.keystore.key" in given:
        chain = given.get("ssl.keystore.certificate.chain", "")
        return {"ssl.key.pem": given["ssl.keystore.key"], "ssl.certificate.pem": chain} | password
    location = given.get("ssl.keystore.location")
    if location is None:
        return {}
    kind = given.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":
        return {"ssl.key.location": location, "ssl.certificate.location": location} | password
    opening = given.get("ssl.keystore.password", "")
    found = read_store(KeyStore(location, kind, opening, given.get("ssl.key.password", opening)))
    return {"ssl.key.pem": found.key, "ssl.certificate.pem": found.certificates}


_SECRET_SETTINGS = (
    "sasl.password",
    "sasl.oauthbearer.client.secret",
    "ssl.key.password",
    "ssl.key.pem",
)
_SECRET_OPTIONS = (
    "sasl.jaas.config",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
)


def _secrets(given: Mapping[str, str], values: Mapping[str, str], iam: Mapping[str, str] | None) -> tuple[str, ...]:
    found = [given.get(name, "") for name in _SECRET_OPTIONS]
    found += [values.get(name, "") for name in _SECRET_SETTINGS]
    found += [value for name, value in (iam or {}).items() if "secret" in name.lower()]
    return tuple(dict.fromkeys(secret for secret in found if secret))
