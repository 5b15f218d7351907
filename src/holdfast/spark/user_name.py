"""The JVM asks the operating system who runs it, and Spark does not start when nobody has that number."""

import os
import pwd

from holdfast.errors import InvalidSettings


def require_a_name() -> None:
    """Refuse before the JVM does, after seconds and with a trace about a null name."""
    user = os.getuid()
    try:
        pwd.getpwuid(user)
    except KeyError:
        raise InvalidSettings(
            f"could not start Spark as user {user}: it has no entry in /etc/passwd, and Java cannot do without",
            hint=f"in the image: RUN echo 'spark:x:{user}:0:spark:/tmp:/bin/false' >> /etc/passwd",
        ) from None
