"""The JVM looks up the name of its user, and Spark does not start when that user id has none."""

import os
import pwd

from holdfast.errors import InvalidSettings


def require_a_name() -> None:
    """Refuse at once: the JVM would fail seconds later, with a stack trace about a null name."""
    user = os.getuid()
    try:
        pwd.getpwuid(user)
    except KeyError:
        raise InvalidSettings(
            f"could not start Spark as user {user}: it has no entry in /etc/passwd, which Java needs",
            hint=f"in the image: RUN echo 'spark:x:{user}:0:spark:/tmp:/bin/false' >> /etc/passwd",
        ) from None
