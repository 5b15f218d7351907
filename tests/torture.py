"""`make torture` asks for everything; `make test` leaves out what takes long and is shown by something shorter."""

import os

TORTURE = "HOLDFAST_KILLS" in os.environ
