"""`python -m holdfast.cli`."""

import sys

from holdfast.cli.starting import main

sys.exit(main())
