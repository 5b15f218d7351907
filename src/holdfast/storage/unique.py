"""Unique names for temporary files. No decision depends on them."""

import uuid


def unique_name() -> str:
    return uuid.uuid4().hex  # noqa: TID251 - the one place
