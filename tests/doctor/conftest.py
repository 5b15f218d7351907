"""A browser takes longer to install than CI may: where there is none, CI does without what needs one."""

import os

from tests.doctor.browser import BROWSER

collect_ignore = ["test_page_in_a_browser.py"] if BROWSER is None and os.environ.get("HOLDFAST_REQUIRE_SERVERS") else []
