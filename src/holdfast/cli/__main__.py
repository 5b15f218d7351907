"""`python -m holdfast.cli`."""

import sys

from holdfast.cli.main import main

sys.exit(main())
