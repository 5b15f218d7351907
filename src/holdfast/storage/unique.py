"""Names that nobody else has, for what is temporary. Nothing is decided by them."""

import uuid


def unique_name() -> str:
    return uuid.uuid4().hex  # noqa: TID251 - the one place
