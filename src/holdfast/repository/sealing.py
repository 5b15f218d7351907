"""JSON documents that prove their own bytes: the last field, `"checksum"`, is the BLAKE3 of the document without it.

It covers the stored bytes, so a reader can prove a document with fields that it does not know.
"""

import re

from holdfast.checkpoint.manifest import digest_of

_SEAL = re.compile(rb',"checksum":"([0-9a-f]{64})"\}\Z')


def sealed(document: bytes) -> bytes:
    return b'%b,"checksum":"%b"}' % (document[:-1], digest_of(document).encode())


def opened(data: bytes) -> tuple[bytes, str] | None:
    """The document without its checksum, and the checksum; None when there is none."""
    seal = _SEAL.search(data)
    return None if seal is None else (data[: seal.start()] + b"}", seal[1].decode())
