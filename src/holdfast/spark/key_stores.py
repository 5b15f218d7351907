"""Reads key stores of Java, which librdkafka cannot: Spark's JVM opens them, and what is in them stays in memory."""

from __future__ import annotations

import base64
import textwrap
from typing import Any

from pyspark.sql import SparkSession

from holdfast.sources.client_settings import KeyStore, NotTranslatable, Pem


def read_store(spark: SparkSession, store: KeyStore) -> Pem:
    """Raises `NotTranslatable`."""
    try:
        return _read(spark._jvm, store)
    except Exception as error:
        raise NotTranslatable(
            f"could not read the {store.kind} key store {store.location}: {_kind_of(error)}",
            "check its type and its password; PEM needs no JVM to read it",
        ) from None


def _read(jvm: Any, store: KeyStore) -> Pem:
    stream = jvm.java.io.FileInputStream(store.location)
    try:
        opened = jvm.java.security.KeyStore.getInstance(store.kind)
        opened.load(stream, _characters(jvm, store.password) if store.password else None)
    finally:
        stream.close()
    aliases = list(jvm.java.util.Collections.list(opened.aliases()))
    keys = [alias for alias in aliases if opened.isKeyEntry(alias)]
    if keys:
        password = _characters(jvm, store.key_password or store.password)
        chain = [bytes(each.getEncoded()) for each in opened.getCertificateChain(keys[0])]
        return Pem(_certificates(chain), _pem("PRIVATE KEY", bytes(opened.getKey(keys[0], password).getEncoded())))
    return Pem(_certificates([bytes(opened.getCertificate(alias).getEncoded()) for alias in aliases]))


def _characters(jvm: Any, password: str) -> Any:
    return jvm.java.lang.String(password).toCharArray()


def _certificates(encoded: list[bytes]) -> str:
    return "".join(_pem("CERTIFICATE", each) for each in encoded)


def _pem(title: str, encoded: bytes) -> str:
    lines = "\n".join(textwrap.wrap(base64.b64encode(encoded).decode(), 64))
    return f"-----BEGIN {title}-----\n{lines}\n-----END {title}-----\n"


def _kind_of(error: Exception) -> str:
    """Java's class, without its message: that may repeat what it was given."""
    raised = getattr(error, "java_exception", None)
    return str(raised.getClass().getName()) if raised is not None else type(error).__name__
