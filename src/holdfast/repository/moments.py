"""A time in a document of a home. One without an offset is refused when it is read: it cannot be compared."""

from datetime import datetime
from typing import Annotated

import msgspec

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
